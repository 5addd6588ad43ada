"""Buttons to the rented machine in the EC2 console. Region and id in them open nothing without a login."""

from __future__ import annotations

import re

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey

from plimsoll.links.run_links import CostAndCarbonLink

# Both come from the provider's answer; they are checked all the same before they become part of an address.
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")
_CONSOLES = (("cn-", "console.amazonaws.cn"), ("us-gov-", "console.amazonaws-us-gov.com"))
_CONSOLE = "console.aws.amazon.com"


def _page(operator: BaseOperator, page: str) -> str:
    """A page of the console about the lease's first instance; empty where the task saw no rented machine.

    Airflow builds links in the task's own process when an execution ends, a deferral included, and keeps them as XCom.
    """
    found = getattr(operator, "rented", None)
    if found is None or not found.ids:
        return ""
    if not _REGION.fullmatch(found.region) or not _INSTANCE.fullmatch(found.ids[0]):
        return ""
    host = next((host for prefix, host in _CONSOLES if found.region.startswith(prefix)), _CONSOLE)
    return f"https://{found.region}.{host}/ec2/home?region={found.region}#{page}:instanceId={found.ids[0]}"


class InstanceLink(BaseOperatorLink):
    """To the instance: its state, its tags, a session on it."""

    name = "EC2 instance"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Address of the page; empty on a machine of one's own."""
        return _page(operator, "InstanceDetails")


class InstanceLogLink(BaseOperatorLink):
    """To what the instance wrote while it came up; what its jobs write is in the log of their tasks."""

    name = "EC2 boot log"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Address of the page; empty on a machine of one's own."""
        return _page(operator, "GetSystemLog")


INSTANCE_LINKS = (CostAndCarbonLink(), InstanceLink(), InstanceLogLink())
