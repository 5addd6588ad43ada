"""What registered versions still need: the protect set of every clean-up."""

from __future__ import annotations

from collections.abc import Iterable

from include.registry.mlflow_registry import MlflowRegistry
from include.registry.versions import LiveReference, RegisteredVersion, RegistryError


def live_references(registry: MlflowRegistry, *, expected: Iterable[str] = ()) -> frozenset[LiveReference]:
    """What all registered versions refer to, read by get-calls, version by version.

    Args:
        registry: The registry.
        expected: Names of models that must be registered, for example those being served: a registry that does not
            know them is the wrong or an empty one.

    Raises:
        RegistryError: The registry cannot be read in full, or an expected model is absent. Delete nothing then.
    """
    registry.must_exist()
    try:
        names = registry.model_names()
        versions = [version for name in names for version in _all_versions(registry, name)]
    except RegistryError:
        raise
    except Exception as error:
        raise RegistryError(f"the registry cannot be read: {error}") from error
    absent = sorted(set(expected) - set(names))
    if absent:
        raise RegistryError(f"the registry does not know {', '.join(absent)}")
    return frozenset(reference for version in versions if (reference := _reference(version)) is not None)


def _all_versions(registry: MlflowRegistry, name: str) -> list[RegisteredVersion]:
    versions = registry.versions(name)
    known = {version.version for version in versions}
    for alias, target in registry.aliases(name).items():
        if target not in known:
            raise RegistryError(f"alias {alias} of {name} points to version {target}, which cannot be read")
    return versions


def _reference(version: RegisteredVersion) -> LiveReference | None:
    """None for a version that somebody registered by hand: it refers to nothing in the store."""
    if version.lineage is None:
        return None
    return LiveReference(
        model_name=version.model_name,
        version=version.version,
        sha256=version.lineage.sha256,
        model_uri=version.lineage.model_uri,
        checkpoint_uri=version.lineage.checkpoint_uri,
        manifest_uri=version.lineage.manifest_uri,
    )
