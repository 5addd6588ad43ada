"""Client tokens: the same token with the same parameters is answered again, with others it is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stack.ec2_double.account import Account, Told
from stack.ec2_double.errors import AwsError
from stack.ec2_double.instances import show_reservation

# Actions whose token counts here, and what EC2 calls a mismatch.
WITH_TOKEN = {
    "RunInstances": "IdempotentParameterMismatch",
    "CreateFleet": "IdempotentParameterMismatch",
    "CreateLaunchTemplate": "IdempotentParameterMismatch",
    "CreateLaunchTemplateVersion": "IdempotentParameterMismatch",
    "CreateVolume": "IdempotentParameterMismatch",
}
_LONGEST = 64
_LIVING = "RunInstances"

# None leaves the call to moto.
Handler = Callable[[Account, str, Mapping[str, Any]], dict[str, Any] | None]


def once(
    account: Account, region: str, action: str, *, flat: Mapping[str, str], parameters: Mapping[str, Any], run: Handler
) -> dict[str, Any] | None:
    """Run an action unless its token was answered before. A refusal uses up no token.

    Raises:
        AwsError: The token was used with other parameters, or the action refuses.
    """
    token = parameters.get("ClientToken") if action in WITH_TOKEN else None
    if not token:
        return run(account, region, parameters)
    if len(token) > _LONGEST:
        raise AwsError("InvalidParameterValue", f"ClientToken may have at most {_LONGEST} characters")
    key = (region, action, token)
    told = account.told.get(key)
    if told is None:
        answer = run(account, region, parameters)
        assert answer is not None
        account.told[key] = Told(parameters=dict(flat), answer=answer)
        return answer
    if told.parameters != dict(flat):
        raise AwsError(
            WITH_TOKEN[action],
            "The client token has already been used with different parameters.",
        )
    if action == _LIVING:
        # EC2 shows instances as they are, not as they were when they were launched.
        ids = [shown["InstanceId"] for shown in told.answer["Instances"]]
        return show_reservation(account, [account.instances[each] for each in ids])
    return told.answer
