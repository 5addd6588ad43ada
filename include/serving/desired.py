"""``serving/<endpoint>/desired.json`` and ``actual.json``: what should be served, and what is.

Deploying writes desired state and never starts a server; the server writes actual state and never changes desired
state. Every write of desired state has a revision of its own, so that a deployment can tell the server's answer to it
from the answer to an earlier one.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Literal

from pydantic import Field

from include.config.schedule import Edge
from include.core.clock import Clock, SystemClock, iso
from include.core.store import ObjectStore

SERVING_PREFIX = "serving"


class ServedVersion(Edge):
    """One version of a model, complete enough to be loaded on its own.

    Attributes:
        model_name: Registered model.
        version: Its version.
        model_uri: Store URI of the ONNX file.
        sha256: Digest that the file must have.
        manifest_uri: Store URI of the dataset manifest: features, encoding and classes.
    """

    model_name: str
    version: str
    model_uri: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    manifest_uri: str


class DesiredState(Edge):
    """What an endpoint should serve.

    Attributes:
        revision: Identity of this write.
        requested_at: ISO time of the write.
        served: The version to serve.
        verified: Whether it passed its smoke test and became champion.
        previous: The last verified version before this one: what a rollback serves again.
    """

    revision: str
    requested_at: str
    served: ServedVersion
    verified: bool = False
    previous: ServedVersion | None = None


class ActualState(Edge):
    """What an endpoint serves.

    Attributes:
        revision: Desired revision that the server acted on last.
        state: ``loading``; ``serving``; ``failed`` (the desired version could not be loaded, and whatever answered
            before still answers); ``stopped`` (nothing answers).
        model_name: Model that answers, None when nothing does.
        version: Version that answers, None when nothing does.
        sha256: Digest of the artefact that answers.
        loaded_at: ISO time at which it began to answer.
        error: Why the desired version is not served.
        url: Base URL of the server.
    """

    revision: str
    state: Literal["loading", "serving", "failed", "stopped"]
    model_name: str | None = None
    version: str | None = None
    sha256: str | None = None
    loaded_at: str | None = None
    error: str | None = None
    url: str


def desired_key(endpoint: str, *, prefix: str = SERVING_PREFIX) -> str:
    """Store key of the desired state of an endpoint."""
    return f"{prefix}/{endpoint}/desired.json"


def actual_key(endpoint: str, *, prefix: str = SERVING_PREFIX) -> str:
    """Store key of the actual state of an endpoint."""
    return f"{prefix}/{endpoint}/actual.json"


def read_desired(store: ObjectStore, endpoint: str, *, prefix: str = SERVING_PREFIX) -> DesiredState | None:
    """Desired state of an endpoint, None where nothing was deployed.

    Raises:
        pydantic.ValidationError: The document is not a desired state.
    """
    raw = store.get_json(desired_key(endpoint, prefix=prefix))
    return None if raw is None else DesiredState.model_validate(raw)


def read_actual(store: ObjectStore, endpoint: str, *, prefix: str = SERVING_PREFIX) -> ActualState | None:
    """Actual state of an endpoint, None where no server has written one."""
    raw = store.get_json(actual_key(endpoint, prefix=prefix))
    return None if raw is None else ActualState.model_validate(raw)


def _write(
    store: ObjectStore,
    endpoint: str,
    *,
    served: ServedVersion,
    verified: bool,
    previous: ServedVersion | None,
    prefix: str,
    now: datetime,
) -> DesiredState:
    state = DesiredState(
        revision=uuid.uuid4().hex, requested_at=iso(now), served=served, verified=verified, previous=previous
    )
    store.put_json(desired_key(endpoint, prefix=prefix), state.model_dump(mode="json"))
    return state


def request_version(
    store: ObjectStore,
    endpoint: str,
    served: ServedVersion,
    *,
    prefix: str = SERVING_PREFIX,
    clock: Clock | None = None,
) -> DesiredState:
    """Ask for a version. The last verified one is kept as ``previous``, also when an unverified one stood between."""
    current = read_desired(store, endpoint, prefix=prefix)
    previous = None
    if current is not None:
        previous = current.served if current.verified else current.previous
    if previous is not None and previous.version == served.version and previous.model_name == served.model_name:
        # The same version again: its own predecessor stays the way back.
        previous = current.previous if current is not None else None
    now = (clock or SystemClock()).now()
    return _write(store, endpoint, served=served, verified=False, previous=previous, prefix=prefix, now=now)


def mark_verified(
    store: ObjectStore, endpoint: str, state: DesiredState, *, prefix: str = SERVING_PREFIX
) -> DesiredState:
    """Note that the version of this revision passed; the revision stays, so the server does not load it again."""
    verified = state.model_copy(update={"verified": True})
    store.put_json(desired_key(endpoint, prefix=prefix), verified.model_dump(mode="json"))
    return verified


def roll_back(
    store: ObjectStore,
    endpoint: str,
    failed: DesiredState,
    *,
    prefix: str = SERVING_PREFIX,
    clock: Clock | None = None,
) -> DesiredState | None:
    """Ask for the version before a failed one, or for nothing when there was none.

    Returns:
        The new desired state, or None when the endpoint now has none.
    """
    if failed.previous is None:
        store.delete(desired_key(endpoint, prefix=prefix))
        return None
    now = (clock or SystemClock()).now()
    return _write(store, endpoint, served=failed.previous, verified=True, previous=None, prefix=prefix, now=now)
