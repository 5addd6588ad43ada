from __future__ import annotations

import threading

import pytest

from include.training.telemetry.sampler import Sampler


class Scripted:
    """A reader that answers from a list; an exception in it is raised."""

    def __init__(self, name: str, *answers: object, reason: str | None = None) -> None:
        self.name, self._answers, self._reason = name, list(answers), reason
        self.closed = False

    def open(self) -> str | None:
        return self._reason

    def read(self) -> dict[str, float | None]:
        answer = self._answers.pop(0) if self._answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def rounds(number: int, *readers: Scripted) -> Sampler:
    sampler = Sampler(readers)
    sampler.open()
    for _ in range(number):
        sampler.sample()
    return sampler


def test_first_reader_counts_and_the_second_fills_its_gaps() -> None:
    sampler = rounds(2, Scripted("a", {"x": 1.0}, {"x": None}), Scripted("b", {"x": 9.0, "y": 2.0}, {"x": 8.0}))
    assert sampler.facts()["x"].recent == (1.0, 8.0)
    assert sampler.facts()["y"].recent == (2.0, None)


def test_series_that_nobody_can_measure_is_absent() -> None:
    assert rounds(3, Scripted("a", {"x": None}, {"x": None}, {})).facts() == {}


def test_series_that_begins_late_keeps_its_place_in_time() -> None:
    facts = rounds(3, Scripted("a", {"x": 1.0}, {"x": 1.0, "y": 5.0}, {"x": 1.0, "y": 6.0})).facts()
    assert facts["y"].recent == (None, 5.0, 6.0)


def test_reader_that_fails_costs_its_values_and_nothing_else() -> None:
    sampler = rounds(3, Scripted("bad", {"x": 1.0}, OSError("gone"), {"x": 3.0}), Scripted("good", *[{"y": 2.0}] * 3))
    assert sampler.facts()["x"].recent == (1.0, None, 3.0)
    assert sampler.facts()["y"].recent == (2.0, 2.0, 2.0)
    assert "gone" in sampler.sources["bad"]


def test_reader_that_does_not_open_is_named_with_its_reason() -> None:
    sampler = rounds(1, Scripted("dcgm", {"x": 1.0}, reason="nobody listens"), Scripted("host", {"y": 1.0}))
    assert sampler.sources == {"dcgm": "nobody listens", "host": "answers"}
    assert set(sampler.facts()) == {"y"}


def test_thread_samples_tells_and_closes() -> None:
    told = threading.Event()
    reader = Scripted("a", *[{"x": 1.0}] * 1000)
    sampler = Sampler([reader], every_s=0.005, after_each=told.set)
    sampler.start()
    assert told.wait(5)
    sampler.stop()
    sampler.stop()
    assert reader.closed
    assert sampler.facts()["x"].count >= 1


@pytest.mark.parametrize("when", ["open", "after"])
def test_failure_outside_of_a_reader_ends_the_telemetry_alone(when: str) -> None:
    reader = Scripted("a", *[{"x": 1.0}] * 10)

    def fail() -> None:
        raise OSError("no space left on device")

    if when == "open":
        reader.open = fail
    sampler = Sampler([reader], every_s=0.005, after_each=fail)
    sampler.start()
    sampler._thread.join(5)
    assert not sampler._thread.is_alive()
    sampler.stop()
