"""The EC2 instance metadata protocol, version 2, served by this process.

Where there is no EC2 the agent still watches the same endpoint with the same client, so the interruption path that runs
on a laptop is the one that runs on a spot instance. Only reads go over HTTP; a notice is announced by a method call, so
nobody on the machine can interrupt a lease through the port.

Paths and status codes follow the EC2 user guide, "Use the Instance Metadata Service", "Spot Instance interruption
notices" and "EC2 instance rebalance recommendations".
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path, not a secret
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
# Six hours, the longest life EC2 grants a token.
LONGEST_TTL_S = 21_600


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """What the instance says of itself.

    Attributes:
        instance_id: The lease id stands for it.
        instance_type: Type of the offer.
        life_cycle: ``spot`` or ``on-demand``.
        region: Region of the offer.
        zone: Availability zone.
        address: Private IPv4 address, by which the other nodes of a lease reach it.
    """

    instance_id: str
    instance_type: str
    life_cycle: str
    region: str = "local"
    zone: str = "local-a"
    address: str = "127.0.0.1"


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class MetadataEmulator:
    """Serves the metadata of one instance on a free port of 127.0.0.1.

    Args:
        facts: What to answer.
    """

    def __init__(self, facts: InstanceFacts) -> None:
        self._facts = facts
        self._notice: datetime | None = None
        self._advised: datetime | None = None
        self._tokens: dict[str, float] = {}
        self._server = _MetadataServer(self)
        # A short poll, since an agent that ends waits for one.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="metadata-emulator", daemon=True
        )

    @property
    def url(self) -> str:
        """Base URL, for ``AWS_EC2_METADATA_SERVICE_ENDPOINT``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        """Serve in a daemon thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    @property
    def announced(self) -> bool:
        """Whether a notice stands."""
        return self._notice is not None

    def announce(self, seconds: float) -> None:
        """Announce that the instance will be terminated this many seconds from now."""
        self._notice = datetime.now(UTC) + timedelta(seconds=seconds)
        self.recommend_rebalance()

    def recommend_rebalance(self) -> None:
        """Announce that the instance is at an elevated risk of interruption, as EC2 may well before a notice."""
        self._advised = self._advised or datetime.now(UTC)

    def new_token(self, ttl_s: int) -> str:
        """A session token that is good for ``ttl_s`` seconds."""
        now = time.monotonic()
        self._tokens = {token: end for token, end in self._tokens.items() if end > now}
        token = secrets.token_urlsafe(32)
        self._tokens[token] = now + ttl_s
        return token

    def accepts(self, token: str | None) -> bool:
        """Whether the token was issued here and has not run out."""
        return token is not None and self._tokens.get(token, 0.0) > time.monotonic()

    def read(self, path: str) -> str | None:
        """Document at a path, None where there is none (yet)."""
        document = self._documents().get(path)
        return None if document is None else document()

    def _documents(self) -> dict[str, Callable[[], str | None]]:
        facts = self._facts
        return {
            "/latest/meta-data/instance-id": lambda: facts.instance_id,
            "/latest/meta-data/instance-type": lambda: facts.instance_type,
            "/latest/meta-data/instance-life-cycle": lambda: facts.life_cycle,
            "/latest/meta-data/placement/region": lambda: facts.region,
            "/latest/meta-data/placement/availability-zone": lambda: facts.zone,
            "/latest/meta-data/local-ipv4": lambda: facts.address,
            "/latest/meta-data/spot/instance-action": self._instance_action,
            "/latest/meta-data/spot/termination-time": self._termination_time,
            "/latest/meta-data/events/recommendations/rebalance": self._rebalance,
            "/latest/dynamic/instance-identity/document": self._identity,
        }

    def _instance_action(self) -> str | None:
        if self._notice is None:
            return None
        return json.dumps({"action": "terminate", "time": _stamp(self._notice)})

    def _termination_time(self) -> str | None:
        return None if self._notice is None else _stamp(self._notice)

    def _rebalance(self) -> str | None:
        return None if self._advised is None else json.dumps({"noticeTime": _stamp(self._advised)})

    def _identity(self) -> str:
        facts = self._facts
        return json.dumps(
            {
                "instanceId": facts.instance_id,
                "instanceType": facts.instance_type,
                "region": facts.region,
                "availabilityZone": facts.zone,
                "privateIp": facts.address,
                "version": "2017-09-30",
            }
        )


class _MetadataServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, emulator: MetadataEmulator) -> None:
        super().__init__(("127.0.0.1", 0), _MetadataHandler)
        self.emulator = emulator


class _MetadataHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A watcher that keeps its connection must not hold a thread for ever once it is gone.
    timeout = 30

    @property
    def _emulator(self) -> MetadataEmulator:
        return cast("_MetadataServer", self.server).emulator

    def do_PUT(self) -> None:
        """Issue a token."""
        if self.headers.get("X-Forwarded-For") is not None:
            self._answer(HTTPStatus.FORBIDDEN)
        elif self.path != TOKEN_PATH:
            self._answer(HTTPStatus.NOT_FOUND)
        elif (ttl_s := _ttl(self.headers.get(TTL_HEADER))) is None:
            self._answer(HTTPStatus.BAD_REQUEST)
        else:
            self._answer(HTTPStatus.OK, self._emulator.new_token(ttl_s), **{TTL_HEADER: str(ttl_s)})

    def do_GET(self) -> None:
        """Read a document."""
        if not self._emulator.accepts(self.headers.get(TOKEN_HEADER)):
            self._answer(HTTPStatus.UNAUTHORIZED)
            return
        document = self._emulator.read(self.path)
        if document is None:
            self._answer(HTTPStatus.NOT_FOUND)
        else:
            self._answer(HTTPStatus.OK, document)

    def _answer(self, status: HTTPStatus, text: str = "", **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of http.server
        """Stay silent: the watcher asks every few seconds."""


def _ttl(text: str | None) -> int | None:
    """Seconds of a TTL header, None where it is missing or out of bounds."""
    if text is None or not text.isdecimal() or not 1 <= int(text) <= LONGEST_TTL_S:
        return None
    return int(text)
