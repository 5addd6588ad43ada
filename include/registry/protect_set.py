"""``python -m include.registry.protect_set [MODEL ...]``: print the URIs that registered versions refer to, as JSON.

The models named must be registered: they are being served, so a registry that does not know them is the wrong one.

A process of its own, because reading the registry needs MLflow, and Airflow's operators must not import it. Exit 1 and
a line on stderr when the registry cannot be read in full: the caller then deletes nothing.
"""

from __future__ import annotations

import json
import sys

from include.config.settings import Settings
from include.core.errors import UserError
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.references import live_references
from include.registry.versions import RegistryError


def main(expected: list[str]) -> int:
    """Print the protect set of the registry named by the settings.

    Args:
        expected: Models that must be registered.
    """
    try:
        registry = MlflowRegistry(Settings.from_environment().mlflow_uri)
        references = live_references(registry, expected=expected)
    except (RegistryError, UserError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    uris = {uri for found in references for uri in (found.model_uri, found.checkpoint_uri, found.manifest_uri) if uri}
    sys.stdout.write(json.dumps(sorted(uris)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
