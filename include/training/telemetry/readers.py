"""What all readers of measurements have in common: asked once a second, they answer or say why they do not."""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """Reads some series. Used from one thread.

    Attributes:
        name: For people.
    """

    name: str

    def open(self) -> str | None:
        """Prepare. None when it can answer, otherwise the reason why it never will."""
        ...

    def read(self) -> dict[str, float | None]:
        """One measurement of each series. A series that does not answer now is None or absent, never 0."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class Rates:
    """Turns growing counters into rates per second."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}

    def per_s(self, name: str, *, value: float, at: float) -> float | None:
        """The rate since the last call; None for the first one and for a counter that went back."""
        last, self._last[name] = self._last.get(name), (value, at)
        if last is None or at <= last[1] or value < last[0]:
            return None
        return (value - last[0]) / (at - last[1])
