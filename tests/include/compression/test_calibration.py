import numpy as np
import pytest

from include.compression.calibration import calibration_rows
from include.core.errors import DataError


def test_calibration_rows_are_spread_over_the_whole_split():
    rows = np.arange(100, dtype=np.float32)[:, None]
    assert calibration_rows(rows, wanted=5).ravel().tolist() == [0, 25, 50, 74, 99]
    assert len(calibration_rows(rows, wanted=500)) == 100


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((50, 4), 0.5, dtype=np.float32), r"all equal.*32 equal rows"),
        (np.tile(np.arange(4, dtype=np.float32), (50, 1)), "all equal"),
        (np.zeros((0, 4), dtype=np.float32), "no rows"),
    ],
)
def test_rows_that_say_nothing_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        calibration_rows(rows, wanted=32)
