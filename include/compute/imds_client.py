"""The watcher of the EC2 metadata endpoint: the same on a spot instance and against the emulator."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urlsplit

_log = logging.getLogger("plimsoll.agent")

ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
LINK_LOCAL = "http://169.254.169.254"
TOKEN_TTL_S = 300
# A new token is asked for before the old one runs out, so that a refusal is the exception.
TOKEN_MARGIN_S = 30
TIMEOUT_S = 2.0
NOTICE_PATH = "/latest/meta-data/spot/instance-action"
REBALANCE_PATH = "/latest/meta-data/events/recommendations/rebalance"
# In the first seconds of an instance its endpoint may not answer yet.
_TRIES, _RETRY_AFTER_S = 5, 1.0


class MetadataError(Exception):
    """The endpoint answered something that is neither a document nor "there is none"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The capacity goes away.

    Attributes:
        action: ``terminate``, ``stop`` or ``hibernate``.
        at: When, as the endpoint words it.
        left_s: Seconds that were left when it was read.
    """

    action: str
    at: str
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What an instance says of itself; None where it does not say.

    Attributes:
        instance_type: Type.
        life_cycle: ``spot`` or ``on-demand``.
        region: Region.
        zone: Availability zone.
        address: Private IPv4 address.
    """

    instance_type: str | None = None
    life_cycle: str | None = None
    region: str | None = None
    zone: str | None = None
    address: str | None = None


_DESCRIPTION = {
    "instance_type": "/latest/meta-data/instance-type",
    "life_cycle": "/latest/meta-data/instance-life-cycle",
    "region": "/latest/meta-data/placement/region",
    "zone": "/latest/meta-data/placement/availability-zone",
    "address": "/latest/meta-data/local-ipv4",
}


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Configured metadata endpoint, or the link-local address every EC2 instance has."""
    return environ.get(ENDPOINT_VARIABLE) or LINK_LOCAL


class MetadataClient:
    """Reads metadata with session tokens over one kept connection. Used by one thread.

    Args:
        endpoint: Base URL.
    """

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        self._token = ""
        self._token_ends = 0.0
        self._answered_at: datetime | None = None

    def describe(self, *, tries: int = _TRIES) -> Instance:
        """What the instance is; unknown in all where the endpoint does not answer."""
        for remaining in reversed(range(tries)):
            try:
                return Instance(**{name: self.read(path) for name, path in _DESCRIPTION.items()})
            except (OSError, MetadataError) as error:
                _log.warning("the instance does not describe itself (%s), %d tries left", error, remaining)
                if remaining:
                    time.sleep(_RETRY_AFTER_S)
        return Instance()

    def read(self, path: str) -> str | None:
        """Document at a path, None where there is none.

        Raises:
            OSError: The endpoint cannot be reached within the timeout.
            MetadataError: It refuses, or answers something unexpected.
        """
        status, text = self._authorised(path)
        if status == HTTPStatus.UNAUTHORIZED:  # the token ran out early, or the endpoint was restarted
            self._token_ends = 0.0
            status, text = self._authorised(path)
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status != HTTPStatus.OK:
            raise MetadataError(f"GET {path}: status {status}")
        return text

    def notice(self) -> Notice | None:
        """The interruption notice, None where there is none.

        Raises:
            OSError: The endpoint cannot be reached within the timeout.
            MetadataError: It refuses, or answers something unexpected.
        """
        text = self.read(NOTICE_PATH)
        if text is None:
            return None
        try:
            document = json.loads(text)
            at = datetime.fromisoformat(document["time"])
            # By the clock of who announces it: this machine's own may have jumped.
            now = self._answered_at or datetime.now(UTC)
            return Notice(action=document["action"], at=document["time"], left_s=(at - now).total_seconds())
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(f"unreadable notice {text!r}") from error

    def rebalance_at(self) -> str | None:
        """When the provider recommended to move away, as it words it; None without such advice.

        Raises:
            OSError: The endpoint cannot be reached within the timeout.
            MetadataError: It refuses, or answers something unexpected.
        """
        text = self.read(REBALANCE_PATH)
        if text is None:
            return None
        try:
            return str(json.loads(text)["noticeTime"])
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(f"unreadable recommendation {text!r}") from error

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    def _authorised(self, path: str) -> tuple[int, str]:
        if time.monotonic() >= self._token_ends:
            status, self._token = self._exchange(
                "PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_TTL_S)}
            )
            if status != HTTPStatus.OK:
                raise MetadataError(f"no token: status {status}")
            self._token_ends = time.monotonic() + TOKEN_TTL_S - TOKEN_MARGIN_S
        return self._exchange("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def _exchange(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        try:
            self._connection.request(method, path, headers=headers)
            answer = self._connection.getresponse()
            self._answered_at = _moment(answer.getheader("Date"))
            return answer.status, answer.read().decode()
        except http.client.HTTPException as error:
            self._connection.close()
            raise MetadataError(f"{method} {path}: {error!r}") from error
        except OSError:
            self._connection.close()
            raise


def _moment(header: str | None) -> datetime | None:
    try:
        return None if header is None else parsedate_to_datetime(header)
    except ValueError:
        return None


class NoticeWatch:
    """Asks for a notice, and for advice to move, every few seconds.

    It has a thread of its own, so that a slow endpoint never delays a heartbeat.

    Args:
        client: The client; it belongs to the watch from here on.
        every_s: Seconds between two questions. EC2 recommends 5.
    """

    def __init__(self, client: MetadataClient, *, every_s: float) -> None:
        self._client = client
        self._every_s = every_s
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._complained = False
        self.notice: Notice | None = None
        self.rebalance_at: str | None = None
        self._thread = threading.Thread(target=self._watch, name="notice-watch", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def ask_now(self) -> None:
        """Ask at once instead of at the next turn."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread; takes at most one timeout."""
        self._ended.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(self) -> None:
        """Ask once; trouble is reported the first time and otherwise ignored."""
        try:
            self.notice = self._client.notice()
            self.rebalance_at = self.rebalance_at or self._client.rebalance_at()
        except (OSError, MetadataError) as error:
            if not self._complained:
                _log.warning("no answer from the metadata endpoint, asking on: %s", error)
                self._complained = True
        else:
            self._complained = False

    def _watch(self) -> None:
        while not self._ended.is_set() and self.notice is None:
            self.ask()
            self._wake.wait(self._every_s)
            self._wake.clear()
        self._client.close()
