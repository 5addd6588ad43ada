"""One case per code: its class and what follows."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from include.compute.ec2.errors import (
    NO_ANSWER,
    NO_CREDENTIALS,
    TABLE,
    UNREADABLE_ANSWER,
    Action,
    Kind,
    code_of,
    verdict_of,
)

EXPECTED = {
    "InsufficientInstanceCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientCapacityOnHost": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientHostCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientReservedInstanceCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientAddressCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientVolumeCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "InsufficientFreeAddressesInSubnet": (Kind.CAPACITY, Action.OTHER_POOL),
    "UnfulfillableCapacity": (Kind.CAPACITY, Action.OTHER_POOL),
    "ReservationCapacityExceeded": (Kind.CAPACITY, Action.OTHER_POOL),
    "UnavailableHostRequirements": (Kind.CAPACITY, Action.OTHER_POOL),
    "MaxScheduledInstanceCapacityExceeded": (Kind.CAPACITY, Action.OTHER_POOL),
    "ScheduledInstanceSlotUnavailable": (Kind.CAPACITY, Action.OTHER_POOL),
    "VcpuLimitExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "InstanceLimitExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "MaxSpotInstanceCountExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "MaxSpotFleetRequestCountExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "TargetCapacityLimitExceededException": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "ResourceLimitExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "ResourceCountExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "RequestResourceCountExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "MaxFleetCountExceeded": (Kind.QUOTA, Action.OTHER_PURCHASE),
    "VolumeLimitExceeded": (Kind.QUOTA, Action.STOP),
    "MaxIOPSLimitExceeded": (Kind.QUOTA, Action.STOP),
    "VolumeIOPSLimit": (Kind.QUOTA, Action.STOP),
    "NetworkInterfaceLimitExceeded": (Kind.QUOTA, Action.STOP),
    "AddressLimitExceeded": (Kind.QUOTA, Action.STOP),
    "PrivateIpAddressLimitExceeded": (Kind.QUOTA, Action.STOP),
    "SecurityGroupsPerInstanceLimitExceeded": (Kind.QUOTA, Action.STOP),
    "SecurityGroupsPerInterfaceLimitExceeded": (Kind.QUOTA, Action.STOP),
    "TagLimitExceeded": (Kind.QUOTA, Action.STOP),
    "MaxTemplateLimitExceeded": (Kind.QUOTA, Action.STOP),
    "MaxTemplateVersionLimitExceeded": (Kind.QUOTA, Action.STOP),
    "SpotMaxPriceTooLow": (Kind.PRICE, Action.OTHER_POOL),
    "LimitPriceExceeded": (Kind.PRICE, Action.OTHER_POOL),
    "IdempotentParameterMismatch": (Kind.TOKEN, Action.NEW_TOKEN),
    "IdempotentInstanceTerminated": (Kind.TOKEN, Action.NEW_TOKEN),
    **dict.fromkeys(
        (
            "Unsupported", "UnsupportedOperation", "VolumeTypeNotAvailableInZone", "InvalidZone.NotFound",
            "ZonesMismatched", "UnsupportedTenancy", "InvalidInstanceType", "VPCResourceNotSpecified",
        ),
        (Kind.POOL, Action.OTHER_POOL),
    ),
    **dict.fromkeys(
        (
            "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "SlowDown",
            "TooManyRequestsException", "RequestThrottled", "RequestThrottledException", "EC2ThrottledException",
            "BandwidthLimitExceeded",
        ),
        (Kind.THROTTLE, Action.SAME_TOKEN),
    ),
    **dict.fromkeys(
        (
            "UnauthorizedOperation", "AuthFailure", "AccessDenied", "AccessDeniedException", "OptInRequired",
            "PendingVerification", "Blocked", "InvalidClientTokenId", "UnrecognizedClientException", "ExpiredToken",
            "ExpiredTokenException", "RequestExpired", "SignatureDoesNotMatch", "IncompleteSignature",
            "MissingAuthenticationToken", "NotAuthorized", "OperationNotPermitted", "InvalidUserID.Malformed",
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "UnknownPrincipalType.Unsupported",
            "InvalidSecurity.RequestHasExpired", NO_CREDENTIALS,
        ),
        (Kind.AUTH, Action.STOP),
    ),
    **dict.fromkeys(
        (
            "InvalidParameter", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameterDependency",
            "InvalidParameterSpace", "MissingParameter", "MissingInput", "MissingAction", "InvalidAction",
            "InvalidCharacter", "InvalidInput", "InvalidQueryParameter", "MalformedQueryString", "UnknownParameter",
            "ValidationError", "DryRunOperation", "NoSuchVersion", "EncryptedVolumesNotSupported",
            "InvalidAMIID.Malformed", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable",
            "InvalidAMIAttributeItemValue", "InvalidBlockDeviceMapping", "InvalidFleetConfig",
            "InvalidFleetConfiguration", "InvalidTargetCapacitySpecification", "InvalidSpotFleetRequestConfig",
            "InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidSecurityGroupID.NotFound",
            "InvalidIamInstanceProfileArn.Malformed", "InvalidKeyPair.NotFound", "InvalidLaunchTemplateId.Malformed",
            "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.VersionNotFound",
            "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateName.MalformedException",
            "InvalidSnapshot.NotFound", "InvalidSubnet", "InvalidSubnetID.Malformed", "InvalidSubnetID.NotFound",
            "InvalidTagKey.Malformed", "InvalidUserData.Malformed", "InvalidVolume.ZoneMismatch",
            "InvalidVpcID.NotFound", "InvalidNetworkInterface", "VPCIdNotSpecified", "UnknownVolumeType",
            "UnsupportedHibernationConfiguration", "UnsupportedHostConfiguration", "UnsupportedInstanceTypeOnHost",
            "InvalidState", "IncorrectInstanceState",
        ),
        (Kind.PARAMETER, Action.STOP),
    ),
    **dict.fromkeys(
        (
            "InternalError", "InternalFailure", "InternalServerError", "ServerInternal", "ServiceUnavailable",
            "ServiceUnavailableException", "Unavailable", "RequestTimeout", "RequestTimeoutException", "500", "502",
            "503", "504", "ConcurrentModification", NO_ANSWER, UNREADABLE_ANSWER,
        ),
        (Kind.TRANSIENT, Action.SAME_TOKEN),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_every_code_has_its_class_and_action(code: str, expected: tuple[Kind, Action]):
    verdict = verdict_of(code)
    assert (verdict.kind, verdict.action) == expected
    assert verdict.definite == (expected[0] not in {Kind.TRANSIENT, Kind.TOKEN})


def test_every_code_of_the_table_has_a_case():
    assert set(TABLE) == set(EXPECTED)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientQuantumCapacity", Kind.CAPACITY),
        ("SpotVcpuQuotaExceeded", Kind.QUOTA),
        ("FleetThrottled", Kind.THROTTLE),
        ("UnauthorizedOperation.Fleet", Kind.AUTH),
        ("UnsupportedGpu", Kind.POOL),
        ("InvalidMoon.NotFound", Kind.PARAMETER),
        ("Client.VcpuLimitExceeded", Kind.QUOTA),
        ("Server.InsufficientInstanceCapacity", Kind.CAPACITY),
        ("SomethingNobodyHasSeen", Kind.UNKNOWN),
        ("", Kind.UNKNOWN),
    ],
)
def test_codes_outside_the_table_are_judged_by_their_form(code: str, kind: Kind):
    assert verdict_of(code).kind is kind


def test_an_unknown_code_tries_another_pool():
    assert verdict_of("SomethingNobodyHasSeen").action is Action.OTHER_POOL


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientError({"Error": {"Code": "VcpuLimitExceeded", "Message": "m"}}, "CreateFleet"), "VcpuLimitExceeded"),
        (ClientError({"Error": {}}, "CreateFleet"), UNREADABLE_ANSWER),
        (ConnectionClosedError(endpoint_url="https://ec2"), NO_ANSWER),
        (ReadTimeoutError(endpoint_url="https://ec2"), NO_ANSWER),
        (ConnectionResetError(), NO_ANSWER),
        (ResponseParserError("no XML"), UNREADABLE_ANSWER),
        (NoCredentialsError(), NO_CREDENTIALS),
        (ParamValidationError(report="x"), "InvalidParameter"),
    ],
)
def test_a_failed_call_has_a_code(error: Exception, code: str):
    assert code_of(error) == code


def test_an_error_that_came_of_no_call_is_raised_again():
    with pytest.raises(KeyError):
        code_of(KeyError("ours"))
