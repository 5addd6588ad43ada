"""Pictures in WebDataset archives, streamed from where they are: nothing is prepared, copied or held as a whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import distributed

from include.config.settings import Settings
from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError
from include.core.ids import content_digest, digest
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore
from include.data.location import local_path
from include.data.sources import roots_of
from include.data.stream.tar_set import describe_tar_set
from include.training.stream_source import open_source
from include.training.tasks.data import TaskData

_log = logging.getLogger("plimsoll.train")
_CPU = torch.device("cpu")


def archives(settings: Settings, *, seed: int, train: str, validation: str, size: int, channels: int = 3) -> TaskData:
    """Two sets of archives, each sample a picture and its ``.cls`` file side by side.

    Args:
        settings: Where files may lie; cache and loader processes.
        seed: Seed of the order.
        train: Folder of the training set: below a data root, or an object-store URI.
        validation: Folder of the validation set, with classes of the training set alone.
        size: Side in pixels that pictures are scaled to.
        channels: 3 for colours, 1 for grey.

    Raises:
        DataError: There are no archives, or one is damaged or no WebDataset archive.
    """
    shape = (channels, size, size)
    store, learned = _described(settings, train, shape=shape, split="train")
    other_store, held_out = _described(settings, validation, shape=shape, split="validation")
    strange = set(held_out.classes) - set(learned.classes)
    if strange:
        raise DataError(
            "classes that the training set does not have",
            where=validation,
            found=", ".join(sorted(strange)[:5]),
            allowed=", ".join(learned.classes[:20]),
        )
    held_out = replace(held_out, classes=learned.classes)
    return TaskData(
        train=open_source(store, learned, "train", seed=seed, settings=settings, device=_CPU),
        validation=open_source(other_store, held_out, "validation", seed=seed, settings=settings, device=_CPU),
        input_shape=shape,
        classes=len(learned.classes),
        fingerprint=digest(learned.fingerprint, held_out.fingerprint),
    )


def _described(
    settings: Settings, uri: str, *, shape: tuple[int, int, int], split: str
) -> tuple[ObjectStore, DatasetManifest]:
    """The set; each archive is read once, by the first attempt that sees it as it is now."""
    store, prefix = _place_of(settings, uri)
    seen = sorted((key, time.isoformat()) for key, time in store.list_with_times(prefix))
    kept = ObjectStore(settings.store)
    key = f"tar-sets/{content_digest({'uri': store.uri(prefix), 'seen': seen, 'shape': shape, 'split': split})}.json"
    with _first_worker_first():
        known = kept.get_json(key)
        if known is not None:
            return store, from_json(DatasetManifest, known)
        _log.info("reading the archives below %s for the first time", uri)
        made = describe_tar_set(store, prefix, input_shape=shape, split=split)
        kept.create_json(key, to_json(made))
        return store, made


def _place_of(settings: Settings, uri: str) -> tuple[ObjectStore, str]:
    scheme, remote, rest = uri.partition("://")
    if not remote or scheme == "file":
        path = local_path(uri, roots=roots_of(data_roots=settings.data_roots, store_url=settings.store))
        return ObjectStore(f"file://{path.parent}"), path.name
    bucket, _, prefix = rest.strip("/").partition("/")
    if not prefix:
        raise DataError("a folder inside the bucket is needed", where=uri, allowed=f"{scheme}://{bucket}/<folder>")
    return ObjectStore(f"{scheme}://{bucket}"), prefix


@contextmanager
def _first_worker_first() -> Iterator[None]:
    """What the first worker does in the block is done when the others come to it."""
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        yield
        return
    if distributed.get_rank() > 0:
        distributed.barrier()
        yield
        return
    yield
    distributed.barrier()
