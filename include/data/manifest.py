"""The manifest of a prepared dataset: its place in the store and how to read it."""

from __future__ import annotations

import json

from pydantic import ValidationError

from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError, UserError
from include.core.json_codec import from_json
from include.core.store import ObjectStore, check_key


def manifest_key(fingerprint: str) -> str:
    """Store key of a dataset's manifest."""
    return f"datasets/{fingerprint}/manifest.json"


def read_manifest(store: ObjectStore, uri: str) -> DatasetManifest:
    """Read the manifest of a prepared dataset.

    Raises:
        DataError: There is none under this URI, or it is not a manifest.
    """
    data = store.get(store.key_of(uri))
    if data is None:
        raise DataError("no such dataset", where=uri, todo="run prepare again")
    try:
        manifest = from_json(DatasetManifest, json.loads(data))
        for shard in manifest.shards:
            check_key(shard.key)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = f"{'.'.join(map(str, first['loc'])) or '(file)'}: {first['msg']}"
        raise DataError("not a dataset manifest of this version", where=uri, found=found) from error
    except (ValueError, RecursionError) as error:
        raise DataError("the dataset's manifest is no JSON", where=uri, found=repr(data[:60])) from error
    except UserError as error:
        raise DataError("the dataset's manifest names a shard elsewhere", where=uri, found=str(error)) from error
    return manifest
