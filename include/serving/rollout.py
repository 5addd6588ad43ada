"""Waiting until the server serves what was asked for, and going back when it should not."""

from __future__ import annotations

from include.core.clock import Clock, SystemClock
from include.core.errors import GateError, UserError
from include.core.store import ObjectStore
from include.serving.client import server_answers
from include.serving.desired import ActualState, DesiredState, read_actual, read_desired, roll_back

_POLL_S = 0.1
# A supervisor may be starting the server again at this moment.
SERVER_LIMIT_S = 15.0
SERVED_LIMIT_S = 60.0
UNDO_LIMIT_S = 15.0


def require_server(url: str, *, clock: Clock | None = None, limit_s: float = SERVER_LIMIT_S) -> None:
    """Wait a moment for a model server to answer.

    Raises:
        UserError: None does.
    """
    clock = clock or SystemClock()
    until = clock.monotonic() + limit_s
    while not server_answers(url):
        if clock.monotonic() >= until:
            raise UserError(
                "no model server answers; deploying never starts one",
                where=url,
                allowed="a server that the stack supervises (PLIMSOLL_SERVING_URL says where)",
                todo="start the stack with `make run`, or a server with "
                "`python -m include.serving.server --host 127.0.0.1 --port PORT`",
            )
        clock.sleep(_POLL_S)


def wait_until_served(
    store: ObjectStore,
    endpoint: str,
    desired: DesiredState,
    *,
    clock: Clock | None = None,
    limit_s: float = SERVED_LIMIT_S,
) -> ActualState:
    """Wait until the actual state answers this revision of the desired state.

    Raises:
        GateError: The server could not load the version, or did not act in time.
    """
    actual = _settled(store, endpoint, desired.revision, clock or SystemClock(), limit_s)
    if actual is None:
        raise GateError(
            f"the model server did not act on version {desired.served.version} within {limit_s:.0f} s",
            where=f"endpoint {endpoint}",
            todo="check that the server at PLIMSOLL_SERVING_URL uses the same PLIMSOLL_STORE",
        )
    if actual.state != "serving":
        raise GateError(
            f"version {desired.served.version} cannot be served", where=f"endpoint {endpoint}", found=str(actual.error)
        )
    return actual


def undo(
    store: ObjectStore,
    endpoint: str,
    failed: DesiredState,
    *,
    clock: Clock | None = None,
    limit_s: float = UNDO_LIMIT_S,
) -> str:
    """Ask for what was served before, wait for it, and say what serves now."""
    current = read_desired(store, endpoint)
    if current is None or current.revision != failed.revision:
        return "a later deployment stands"
    restored = roll_back(store, endpoint, failed)
    if restored is None:
        return "there was no version before it, so the endpoint serves nothing"
    actual = _settled(store, endpoint, restored.revision, clock or SystemClock(), limit_s)
    if actual is not None and actual.state == "serving":
        return f"version {restored.served.version} serves again"
    return f"version {restored.served.version} was asked for again, but the server has not confirmed it"


def _settled(store: ObjectStore, endpoint: str, revision: str, clock: Clock, limit_s: float) -> ActualState | None:
    until = clock.monotonic() + limit_s
    while True:
        actual = read_actual(store, endpoint)
        if actual is not None and actual.revision == revision and actual.state != "loading":
            return actual
        if clock.monotonic() >= until:
            return None
        clock.sleep(_POLL_S)
