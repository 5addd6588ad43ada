"""Rows of the training split on which compression looks at what a model does; never of another split."""

from __future__ import annotations

from typing import Any

import numpy as np

from include.core.errors import DataError

Array = np.ndarray[Any, Any]


def calibration_rows(train: Array, *, wanted: int) -> Array:
    """Rows spread evenly over the training split, so that a sorted split still shows every class.

    Args:
        train: Encoded training rows, float32 [rows, *input_shape].
        wanted: How many; all of them when there are fewer.

    Raises:
        DataError: The rows are empty, hold values that are not finite, or do not differ from each other: activation
            ranges read from them would be meaningless and the model quietly broken.
    """
    count = min(wanted, len(train))
    rows = train[np.linspace(0, len(train) - 1, num=count).round().astype(int)] if count else train
    allowed = "finite rows of the training split that differ from each other"
    if not count:
        raise DataError("no rows to calibrate with", where="calibration", found="0 rows", allowed=allowed)
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows.reshape(count, -1)).all(axis=1)).sum())
        raise DataError(
            "calibration rows are not finite", where="calibration", found=f"{bad} of {count} rows", allowed=allowed
        )
    if np.ptp(rows, axis=0).max() == 0:
        raise DataError(
            "calibration rows are all equal", where="calibration", found=f"{count} equal rows", allowed=allowed
        )
    return rows
