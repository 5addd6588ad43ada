"""A series of measurements in bounded memory: the newest ones as they are, the whole attempt as means.

Means alone would hide short dips, the newest alone would hide the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

# Five minutes at one measurement a second.
_MOST_RECENT = 300
_MOST_STRETCHES = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFacts:
    """One series of one attempt. A measurement that did not come is None in it, and counts for nothing.

    Attributes:
        every_s: Seconds between two measurements.
        count: Measurements that came.
        mean: Their mean, None for none.
        smallest: The smallest one.
        largest: The largest one.
        recent: The newest measurements, in order.
        stretch_s: Seconds that one value of ``whole`` stands for.
        whole: Means of equal stretches from the beginning on.
    """

    every_s: float
    count: int
    mean: float | None
    smallest: float | None
    largest: float | None
    recent: tuple[float | None, ...]
    stretch_s: float
    whole: tuple[float | None, ...]

    @property
    def known(self) -> tuple[float, ...]:
        """The newest measurements that came."""
        return tuple(value for value in self.recent if value is not None)


class BoundedSeries:
    """Collects one series.

    Args:
        every_s: Seconds between two measurements.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._recent: list[float | None] = []
        # Sum and number of the measurements of each stretch.
        self._stretches: list[tuple[float, int]] = []
        self._per_stretch = 1
        self._seen = 0
        self._sum, self._count = 0.0, 0
        self._smallest: float | None = None
        self._largest: float | None = None

    def add(self, value: float | None) -> None:
        """Take the next measurement; None when it did not come."""
        self._recent.append(None if value is None else round(value, 4))
        del self._recent[:-_MOST_RECENT]
        if self._seen % self._per_stretch == 0:
            self._stretches.append((0.0, 0))
        self._seen += 1
        if value is not None:
            total, count = self._stretches[-1]
            self._stretches[-1] = (total + value, count + 1)
            self._sum, self._count = self._sum + value, self._count + 1
            self._smallest = value if self._smallest is None else min(self._smallest, value)
            self._largest = value if self._largest is None else max(self._largest, value)
        if len(self._stretches) > _MOST_STRETCHES and self._seen % (2 * self._per_stretch) == 0:
            self._halve()

    def _halve(self) -> None:
        pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
        self._stretches = [(first[0] + second[0], first[1] + second[1]) for first, second in pairs]
        self._per_stretch *= 2

    def facts(self) -> SeriesFacts:
        """What was collected so far."""
        return SeriesFacts(
            every_s=self._every_s,
            count=self._count,
            mean=self._sum / self._count if self._count else None,
            smallest=self._smallest,
            largest=self._largest,
            recent=tuple(self._recent),
            stretch_s=self._every_s * self._per_stretch,
            whole=tuple(round(total / count, 4) if count else None for total, count in self._stretches),
        )
