"""The manifest of a prepared dataset: its place in the store and how to read it."""

from __future__ import annotations

from pydantic import ValidationError

from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError
from include.core.json_codec import from_json
from include.core.store import ObjectStore


def manifest_key(fingerprint: str) -> str:
    """Store key of a dataset's manifest."""
    return f"datasets/{fingerprint}/manifest.json"


def read_manifest(store: ObjectStore, uri: str) -> DatasetManifest:
    """Read the manifest of a prepared dataset.

    Raises:
        DataError: There is none under this URI, or it is not a manifest.
    """
    raw = store.get_json(store.key_of(uri))
    if raw is None:
        raise DataError("no such dataset", where=uri, todo="run prepare again")
    try:
        return from_json(DatasetManifest, raw)
    except ValidationError as error:
        raise DataError("not a dataset manifest of this version", where=uri, found=str(error)[:300]) from error
