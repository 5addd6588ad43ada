"""A table for regression: numbers in, one number out."""

from __future__ import annotations

import numpy as np
import torch

from include.config.settings import Settings
from include.core.errors import DataError
from include.core.ids import digest
from include.data.location import RawFile
from include.data.tables import read_table
from include.training.batches import MemorySource
from include.training.tasks.data import TaskData, check_share, read_file, split_rows

# Squares are summed in float64, rows are trained on in float32.
_LARGEST = float(np.finfo(np.float32).max)


def table(settings: Settings, *, seed: int, uri: str, target: str, validation: float = 0.2) -> TaskData:
    """Numeric columns of a CSV or Parquet file, standardised over all rows, and a target as it is.

    Args:
        settings: Where files may lie.
        seed: Seed of split and order.
        uri: The file.
        target: Column to predict.
        validation: Share of the rows that is not trained on.

    Raises:
        DataError: There is no such column, a value is no finite number, or a part has no rows.
    """
    check_share(validation)
    data = read_file(settings, uri)
    frame = read_table(RawFile(name=uri.rsplit("/", 1)[-1], data=data), label=target).to_pandas()
    if target not in frame.columns:
        raise DataError("no such column", where=uri, found=target, allowed=", ".join(map(str, frame.columns)))
    try:
        numbers = frame.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("a column is not numeric", where=uri, found=str(error), allowed="numbers") from error
    if numbers.shape[1] < 2:  # noqa: PLR2004 - the target and something to tell it from
        raise DataError(
            "no column is left to learn from", where=uri, found=f"{target} alone", todo="add numeric columns"
        )
    # A NaN is not less either.
    outside = ~(np.abs(numbers) < _LARGEST)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise DataError(
            "a value is missing, infinite or too large",
            where=f"{uri}, row {row + 1}, column {frame.columns[column]}",
            found=str(numbers[row, column]),
            allowed=f"a number below {_LARGEST:.3g} in every field, since training computes in float32",
        )
    place = list(frame.columns).index(target)
    wanted, inputs = numbers[:, place], np.delete(numbers, place, axis=1)
    spread = inputs.std(axis=0)
    scaled = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    train, held_out = split_rows(
        torch.from_numpy(scaled.astype(np.float32)),
        torch.from_numpy(wanted.astype(np.float32)),
        seed=seed,
        validation=validation,
        where=uri,
    )
    return TaskData(
        train=MemorySource(train, seed=seed),
        validation=MemorySource(held_out, seed=seed),
        input_shape=(inputs.shape[1],),
        classes=1,
        fingerprint=digest(data.hex(), target, validation, seed),
    )
