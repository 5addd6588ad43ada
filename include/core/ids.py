"""Deterministic identifiers. Nothing here looks at a clock, so a retry computes the same id again."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_SAFE = re.compile(r"[^A-Za-z0-9_-]+")


def digest(*parts: object, length: int = 12) -> str:
    """Hash the parts to a short hexadecimal id.

    Args:
        *parts: Anything with a stable string form.
        length: Number of hexadecimal digits, at most 64.
    """
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:length]


def content_digest(value: Any, *, length: int = 16) -> str:  # noqa: ANN401 - any JSON value
    """Hash a JSON value independently of the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def run_key(run_id: str) -> str:
    """Turn Airflow's run id into a path segment that is safe everywhere and still unique.

    >>> run_key("manual__2026-11-30T10:00:00+00:00").startswith("manual__2026-11-30T10-00-00-00-00-")
    True
    """
    return f"{_SAFE.sub('-', run_id)[:40].strip('-')}-{digest(run_id, length=6)}"


def group_id(*, dag_id: str, run_id: str, group: str) -> str:
    """Id of the capacity group of one run: what teardown and the reaper search by."""
    return f"{group}-{digest(dag_id, run_id, group)}"


def lease_id(*, group_id: str, generation: int) -> str:
    """Id of one incarnation of a group's lease; the cloud's idempotency token is derived from it."""
    return f"{group_id}-g{generation}"


def job_name(*, kind: str, item: str = "", attempt: int) -> str:
    """Path segment of one attempt of one job, for example ``train-2`` or ``compress.static-int8-1``."""
    stem = f"{kind}.{_SAFE.sub('-', item)}" if item else kind
    return f"{stem}-{attempt}"


def run_prefix(*, workload: str, run_id: str) -> str:
    """Store prefix of everything one run writes."""
    return f"runs/{workload}/{run_key(run_id)}"


def log_chunk_key(base: str, number: int, *, node_rank: int = 0) -> str:
    """Key of a chunk of an attempt's log, counted from 1; nodes but the first have logs of their own."""
    return f"{base}/log{f'-{node_rank}' if node_rank else ''}/{number:06d}"
