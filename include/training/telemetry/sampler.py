"""Asks the readers once a second, in a thread beside the training."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from include.training.telemetry.readers import Reader
from include.training.telemetry.series import BoundedSeries, SeriesFacts

_log = logging.getLogger("plimsoll.telemetry")


class Sampler:
    """Collects the series of all readers that answer.

    Of two readers that know the same series the first one counts.

    Args:
        readers: In order of preference.
        every_s: Seconds between two measurements.
        after_each: Called after each round, in the same thread.
    """

    def __init__(
        self, readers: Sequence[Reader], *, every_s: float = 1.0, after_each: Callable[[], None] | None = None
    ) -> None:
        self._readers = tuple(readers)
        self._every_s = every_s
        self._after_each = after_each
        self._open: list[Reader] = []
        self._series: dict[str, BoundedSeries] = {}
        self._rounds = 0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.sources: dict[str, str] = {}

    def start(self) -> None:
        """Begin; returns at once, since finding a device may take a second."""
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * self._every_s)

    def open(self) -> None:
        """Open the readers and note which of them will answer."""
        for reader in self._readers:
            reason = reader.open()
            self.sources[reader.name] = reason or "answers"
            if reason is None:
                self._open.append(reader)

    def sample(self) -> None:
        """One round."""
        found: dict[str, float | None] = {}
        for reader in self._open:
            try:
                answers = reader.read()
            except Exception as error:  # noqa: BLE001 - whatever a driver does, the training goes on
                self.sources[reader.name] = f"failed: {type(error).__name__}: {error}"
                continue
            for name, value in answers.items():
                if found.get(name) is None:
                    found[name] = value
        with self._lock:
            self._add(found)

    def _add(self, found: dict[str, float | None]) -> None:
        for name, value in found.items():
            # A series begins with its first measurement: one that nobody can measure stays absent.
            if name not in self._series and value is not None:
                self._series[name] = BoundedSeries(self._every_s)
                for _ in range(self._rounds):
                    self._series[name].add(None)
        for name, series in self._series.items():
            series.add(found.get(name))
        self._rounds += 1

    def facts(self) -> dict[str, SeriesFacts]:
        """The series so far."""
        with self._lock:
            return {name: series.facts() for name, series in self._series.items()}

    def _run(self) -> None:
        try:
            self.open()
            while not self._ended.wait(self._every_s):
                self.sample()
                if self._after_each is not None:
                    self._after_each()
        except Exception:  # noqa: BLE001 - telemetry must never end a training
            _log.exception("telemetry ends early; the training goes on")
        finally:
            for reader in self._open:
                reader.close()
