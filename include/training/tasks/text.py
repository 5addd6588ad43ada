"""Text as rows of bytes: a language model's windows, or labelled texts. The vocabulary is that of bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from include.config.settings import Settings
from include.core.errors import DataError
from include.core.ids import digest
from include.training.batches import Examples, MemorySource
from include.training.tasks.data import TaskData, check_length, check_share, read_file, split_rows

VOCABULARY = 256


def windows(settings: Settings, *, seed: int, uri: str, length: int = 64, validation: float = 0.1) -> TaskData:
    """Windows of a text for a causal language model: of each, the next byte at each position.

    Args:
        settings: Where files may lie.
        seed: Seed of the order.
        uri: A text file.
        length: Bytes of a window.
        validation: Share of the text, from its end, that is not trained on.

    Raises:
        DataError: The text is too short for a window in each part.
    """
    check_share(validation)
    check_length(length)
    data = read_file(settings, uri)
    count = (len(data) - 1) // length
    train = int(count * (1 - validation))
    if not 0 < train < count:
        raise DataError("the text is too short", where=uri, found=f"{len(data)} bytes", allowed="two windows or more")
    tokens = torch.from_numpy(np.frombuffer(data[: count * length + 1], dtype=np.uint8).astype(np.int64))
    inputs, targets = tokens[:-1].view(count, length), tokens[1:].view(count, length)
    parts = [MemorySource(Examples(inputs=inputs[p], labels=targets[p]), seed=seed) for p in _cut(train)]
    return TaskData(
        train=parts[0],
        validation=parts[1],
        input_shape=(length,),
        classes=VOCABULARY,
        fingerprint=digest(data.hex(), length, validation),
    )


def _cut(at: int) -> tuple[slice, slice]:
    return slice(None, at), slice(at, None)


def labelled(
    settings: Settings,
    *,
    seed: int,
    uri: str,
    text: str = "text",
    label: str = "label",
    length: int = 128,
    validation: float = 0.2,
) -> TaskData:
    """Labelled texts, one JSON object per line; longer texts are cut, shorter ones padded with zero bytes.

    Args:
        settings: Where files may lie.
        seed: Seed of split and order.
        uri: A file of JSON lines.
        text: Key of the text.
        label: Key of its class.
        length: Bytes of a row.
        validation: Share of the rows that is not trained on.

    Raises:
        DataError: A line is no such object, or a part has no rows.
    """
    check_share(validation)
    check_length(length)
    data = read_file(settings, uri)
    rows = [_row(line, number, uri, (text, label)) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    classes = sorted({name for _, name in rows})
    if len(classes) == 1:
        raise DataError("there is one class only", where=uri, found=classes[0], allowed="two classes or more")
    tokens = np.zeros((len(rows), length), dtype=np.int64)
    for number, (content, _) in enumerate(rows):
        cut = np.frombuffer(content[:length], dtype=np.uint8)
        tokens[number, : len(cut)] = cut
    labels = torch.tensor([classes.index(name) for _, name in rows])
    train, held_out = split_rows(torch.from_numpy(tokens), labels, seed=seed, validation=validation, where=uri)
    return TaskData(
        train=MemorySource(train, seed=seed),
        validation=MemorySource(held_out, seed=seed),
        input_shape=(length,),
        classes=len(classes),
        fingerprint=digest(data.hex(), text, label, length, validation, seed),
    )


def _row(line: bytes, number: int, uri: str, keys: tuple[str, str]) -> tuple[bytes, str]:
    try:
        value: Any = json.loads(line)
        content, name = (_present(value[key]) for key in keys)
        return content.encode(), name
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            "a line is no labelled text",
            where=f"{uri}, line {number}",
            found=repr(line[:60]),
            allowed=f"a JSON object with {keys[0]!r} and {keys[1]!r}, neither of them null",
        ) from error


def _present(value: object) -> str:
    if value is None:
        raise ValueError("null")
    return str(value)
