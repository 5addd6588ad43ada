"""Uncertainty of a share of right answers."""

from __future__ import annotations

from math import sqrt

# Two-sided 95 % quantile of the standard normal distribution.
Z_95 = 1.959963984540054


def wilson_interval(*, successes: int, rows: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of a binomial share.

    It stays within 0..1 and keeps a width at shares of 0 and 1, unlike the normal approximation. Source: E. B. Wilson,
    "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    Args:
        successes: Right answers.
        rows: Rows scored, at least 1.
        z: Quantile of the confidence level.

    Returns:
        Lower and upper end.

    Raises:
        ValueError: There are no rows, or the successes are outside 0..rows.
    """
    if rows < 1 or not 0 <= successes <= rows:
        raise ValueError(f"{successes} successes in {rows} rows")
    share = successes / rows
    scale = 1 + z * z / rows
    centre = (share + z * z / (2 * rows)) / scale
    half = z / scale * sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    # At the ends of the range rounding would leave a hair outside the share itself.
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))


def standard_error(*, share: float, rows: int) -> float:
    """Standard error of a share over `rows` rows, at least the weight of one row.

    The binomial formula gives 0 for a perfect score, which would turn a single wrong answer into evidence.
    """
    return max(sqrt(share * (1 - share) / rows), 1 / rows)
