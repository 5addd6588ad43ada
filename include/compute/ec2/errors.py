"""What EC2's launch errors mean and what follows from each: one table, one entry per code.

Codes and their meaning follow "Error codes for the Amazon EC2 API" in the EC2 developer guide and the errors that
``CreateFleet`` reports inside a successful answer. A code that is in no table is judged by its form, and where that
says nothing it is unknown: the next pool is tried, a limited number of times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Class of a launch error."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    PRICE = "price"
    POOL = "pool"
    THROTTLE = "throttle"
    AUTH = "auth"
    PARAMETER = "parameter"
    TOKEN = "token"  # noqa: S105 - EC2's idempotency token is no secret
    TRANSIENT = "transient"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What follows from a launch error."""

    OTHER_POOL = "other zone or type"
    OTHER_PURCHASE = "other family or purchase option"
    SAME_TOKEN = "back off, then the same token"  # noqa: S105 - no secret
    NEW_TOKEN = "look by tag, then a new token"  # noqa: S105 - no secret
    STOP = "stop"


# What each class leads to, unless the table of a code says otherwise.
_ACTIONS = {
    Kind.CAPACITY: Action.OTHER_POOL,
    Kind.QUOTA: Action.OTHER_PURCHASE,
    Kind.PRICE: Action.OTHER_POOL,
    Kind.POOL: Action.OTHER_POOL,
    Kind.THROTTLE: Action.SAME_TOKEN,
    Kind.AUTH: Action.STOP,
    Kind.PARAMETER: Action.STOP,
    Kind.TOKEN: Action.NEW_TOKEN,
    Kind.TRANSIENT: Action.SAME_TOKEN,
    Kind.UNKNOWN: Action.OTHER_POOL,
}

# Our own codes for calls that brought no answer of EC2.
NO_ANSWER = "NoAnswer"
UNREADABLE_ANSWER = "UnreadableAnswer"
NO_CREDENTIALS = "NoCredentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one error code means.

    Attributes:
        code: The code.
        kind: Its class.
        action: What follows.
    """

    code: str
    kind: Kind
    action: Action

    @property
    def definite(self) -> bool:
        """Whether the error proves that its call launched nothing."""
        return self.kind not in {Kind.TRANSIENT, Kind.TOKEN}


_CODES: Mapping[Kind, tuple[str, ...]] = {
    # None left in this zone for this type, or no address left in this subnet: another pool may have some.
    Kind.CAPACITY: (
        "InsufficientInstanceCapacity", "InsufficientCapacityOnHost", "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity", "InsufficientCapacity", "InsufficientAddressCapacity",
        "InsufficientVolumeCapacity", "InsufficientFreeAddressesInSubnet", "UnfulfillableCapacity",
        "ReservationCapacityExceeded", "UnavailableHostRequirements",
        "MaxScheduledInstanceCapacityExceeded", "ScheduledInstanceSlotUnavailable",
    ),
    # A limit of the account: more tries do not raise it. The quotas of spot and on-demand are apart.
    Kind.QUOTA: (
        "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded",
        "MaxSpotFleetRequestCountExceeded", "TargetCapacityLimitExceededException",
        "ResourceLimitExceeded", "ResourceCountExceeded", "RequestResourceCountExceeded", "VolumeLimitExceeded",
        "MaxIOPSLimitExceeded", "VolumeIOPSLimit", "NetworkInterfaceLimitExceeded", "AddressLimitExceeded",
        "PrivateIpAddressLimitExceeded", "SecurityGroupsPerInstanceLimitExceeded",
        "SecurityGroupsPerInterfaceLimitExceeded", "TagLimitExceeded", "MaxTemplateLimitExceeded",
        "MaxTemplateVersionLimitExceeded", "MaxFleetCountExceeded",
    ),
    Kind.PRICE: ("SpotMaxPriceTooLow", "LimitPriceExceeded"),
    # The pair of type and zone does not exist; others may.
    Kind.POOL: (
        "Unsupported", "UnsupportedOperation", "VolumeTypeNotAvailableInZone", "InvalidZone.NotFound",
        "ZonesMismatched", "UnsupportedTenancy", "InvalidInstanceType", "VPCResourceNotSpecified",
    ),
    Kind.THROTTLE: (
        "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException",
        "RequestThrottled", "RequestThrottledException", "EC2ThrottledException", "SlowDown",
        "BandwidthLimitExceeded",
    ),
    Kind.AUTH: (
        "UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "OptInRequired",
        "PendingVerification", "Blocked", "InvalidClientTokenId", "UnrecognizedClientException", "ExpiredToken",
        "ExpiredTokenException", "RequestExpired", "SignatureDoesNotMatch", "IncompleteSignature",
        "MissingAuthenticationToken", "NotAuthorized", "OperationNotPermitted", "InvalidUserID.Malformed",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "UnknownPrincipalType.Unsupported",
        "InvalidSecurity.RequestHasExpired", NO_CREDENTIALS,
    ),
    # The request itself is wrong; the same request is wrong everywhere.
    Kind.PARAMETER: (
        "InvalidParameter", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameterDependency",
        "InvalidParameterSpace", "MissingParameter", "MissingInput", "MissingAction", "InvalidAction",
        "InvalidCharacter", "InvalidInput", "InvalidQueryParameter", "MalformedQueryString", "UnknownParameter",
        "ValidationError", "DryRunOperation", "NoSuchVersion", "EncryptedVolumesNotSupported",
        "InvalidAMIID.Malformed", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable",
        "InvalidAMIAttributeItemValue", "InvalidBlockDeviceMapping", "InvalidFleetConfig", "InvalidFleetConfiguration",
        "InvalidTargetCapacitySpecification", "InvalidSpotFleetRequestConfig",
        "InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidSecurityGroupID.NotFound",
        "InvalidIamInstanceProfileArn.Malformed", "InvalidKeyPair.NotFound",
        "InvalidLaunchTemplateId.Malformed", "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.VersionNotFound", "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateName.MalformedException", "InvalidSnapshot.NotFound", "InvalidSubnet",
        "InvalidSubnetID.Malformed", "InvalidSubnetID.NotFound", "InvalidTagKey.Malformed",
        "InvalidUserData.Malformed", "InvalidVolume.ZoneMismatch", "InvalidVpcID.NotFound", "InvalidNetworkInterface",
        "VPCIdNotSpecified", "UnknownVolumeType", "UnsupportedHibernationConfiguration", "UnsupportedHostConfiguration",
        "UnsupportedInstanceTypeOnHost", "InvalidState", "IncorrectInstanceState",
    ),
    Kind.TOKEN: ("IdempotentParameterMismatch", "IdempotentInstanceTerminated"),
    # EC2 failed, or its answer did: whether anything was launched is not known.
    Kind.TRANSIENT: (
        "InternalError", "InternalFailure", "InternalServerError", "ServerInternal", "ServiceUnavailable",
        "ServiceUnavailableException", "Unavailable", "RequestTimeout", "RequestTimeoutException", "500", "502",
        "503", "504", "ConcurrentModification", NO_ANSWER, UNREADABLE_ANSWER,
    ),
}  # fmt: skip

# Limits that hang on no type, family or purchase option: no other candidate is better off.
_STOPPING_QUOTAS = frozenset(
    {
        "VolumeLimitExceeded", "MaxIOPSLimitExceeded", "VolumeIOPSLimit", "NetworkInterfaceLimitExceeded",
        "AddressLimitExceeded", "PrivateIpAddressLimitExceeded", "SecurityGroupsPerInstanceLimitExceeded",
        "SecurityGroupsPerInterfaceLimitExceeded", "TagLimitExceeded", "MaxTemplateLimitExceeded",
        "MaxTemplateVersionLimitExceeded",
    }
)  # fmt: skip
_BY_CODE = {code: kind for kind, codes in _CODES.items() for code in codes}
# Codes that no page lists but whose form says what they are about.
_BY_FORM = (
    (re.compile(r"^Insufficient\w*Capacity"), Kind.CAPACITY),
    (re.compile(r"(Limit|Count|Quota)Exceeded"), Kind.QUOTA),
    (re.compile(r"Throttl"), Kind.THROTTLE),
    (re.compile(r"^Unauthorized|AccessDenied|NotAuthorized"), Kind.AUTH),
    (re.compile(r"^Unsupported"), Kind.POOL),
    (re.compile(r"^(Invalid|Missing|Malformed)|\.(NotFound|Malformed)$"), Kind.PARAMETER),
)
TABLE = tuple(_BY_CODE)


def verdict_of(code: str) -> Verdict:
    """What a code means and what follows; codes that nobody knows are ``unknown``."""
    plain = code.removeprefix("Client.").removeprefix("Server.") or code
    kind = _BY_CODE.get(plain) or _BY_CODE.get(plain.partition(".")[0]) or _kind_by_form(plain)
    action = Action.STOP if plain in _STOPPING_QUOTAS else _ACTIONS[kind]
    return Verdict(code=plain, kind=kind, action=action)


def _kind_by_form(code: str) -> Kind:
    return next((kind for form, kind in _BY_FORM if form.search(code)), Kind.UNKNOWN)


def code_of(error: BaseException) -> str:
    """EC2's code of a failed call, or our own where it brought no answer that could be read."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping) and "Error" in response:
        return str(response["Error"].get("Code", "")) or UNREADABLE_ANSWER
    # By name: the SDK stays unimported, and its errors have no common base below Exception that says more.
    names = {each.__name__ for each in type(error).__mro__}
    if names & {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"}:
        return NO_CREDENTIALS
    if "ResponseParserError" in names:
        return UNREADABLE_ANSWER
    if "ParamValidationError" in names:
        return "InvalidParameter"
    if names & {"HTTPClientError", "ConnectionError", "OSError", "HTTPException"}:
        return NO_ANSWER
    raise error


def message_of(error: BaseException) -> str:
    """EC2's words of a failed call, without the operation's name around them."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping) and "Error" in response:
        return str(response["Error"].get("Message", ""))
    return str(error)
