"""What the model registry refers to, read by a process of its own."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

from include.config.settings import Settings
from include.core.store import ObjectStore

_log = logging.getLogger(__name__)
_PATIENCE_S = 120


def served_models(store: ObjectStore) -> tuple[str, ...]:
    """Names of the models that endpoints are told to serve."""
    desired = (store.get_json(key) for key, _ in store.list("serving") if key.endswith("/desired.json"))
    return tuple(sorted({state["served"]["model_name"] for state in desired if state}))


def registry_references(settings: Settings, store: ObjectStore) -> tuple[str, ...] | None:
    """URIs that registered versions refer to; None when the registry cannot be read: delete nothing then."""
    command = [sys.executable, "-m", "include.registry.protect_set", *served_models(store)]
    try:
        answer = subprocess.run(
            command,
            # The settings in hand, whatever the environment of this process says: asking another installation's
            # registry would delete what this one's refers to.
            env={**os.environ, **settings.to_environment()},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if answer.returncode == 0:
            return tuple(json.loads(answer.stdout.strip().splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        _log.warning("registry %s cannot be read, nothing will be deleted: %s", settings.mlflow_uri, error)
        return None
    reason = answer.stderr.strip().splitlines()[-1:] or ["no reason given"]
    _log.warning("registry %s cannot be read, nothing will be deleted: %s", settings.mlflow_uri, reason[0])
    return None
