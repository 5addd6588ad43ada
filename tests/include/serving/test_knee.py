from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.serving.knee import Probe, SearchSettings, find_knee, judge

SLO = 100.0


def probe(rate: float, *, p99_ms: float | None, lag_ms: float = 0.0, errors: int = 0, requests: int = 1000) -> Probe:
    return Probe(
        rate_per_s=rate,
        sent=requests,
        requests=requests,
        errors=errors,
        p99_ms=p99_ms,
        generator_lag_p99_ms=lag_ms,
    )


def queue(capacity: float, *, lag_ms: float = 0.0):
    """A service whose p99 grows like a queue's: 10 ms idle, over the objective at 90 % of its capacity."""

    def measure(rate: float) -> Probe:
        return probe(rate, p99_ms=10 / (1 - rate / capacity) if rate < capacity else None, lag_ms=lag_ms)

    return measure


GENEROUS = SearchSettings(bisections=6, max_probes=60)


def test_a_pass_despite_lag_is_a_pass() -> None:
    assert judge(probe(10, p99_ms=99, lag_ms=90), slo_p99_ms=SLO) == "pass"


def test_a_failure_with_lag_is_invalid_and_without_lag_a_failure() -> None:
    assert judge(probe(10, p99_ms=101, lag_ms=10.1), slo_p99_ms=SLO) == "invalid"
    assert judge(probe(10, p99_ms=101, lag_ms=10.0), slo_p99_ms=SLO) == "fail"


def test_errors_and_silence_fail() -> None:
    assert judge(probe(10, p99_ms=5, errors=1), slo_p99_ms=SLO) == "pass"
    assert judge(probe(10, p99_ms=5, errors=2), slo_p99_ms=SLO) == "fail"
    assert judge(probe(10, p99_ms=None), slo_p99_ms=SLO) == "fail"
    assert judge(probe(10, p99_ms=None, requests=0), slo_p99_ms=SLO) == "fail"


@given(capacity=st.floats(5, 7000))
def test_the_answer_brackets_the_true_knee(capacity: float) -> None:
    knee = find_knee(queue(capacity), slo_p99_ms=SLO, settings=GENEROUS)
    true = 0.9 * capacity
    assert knee.upper_side == "confirmed"
    assert knee.last_good is not None
    assert knee.last_good.rate_per_s <= true * 1.000001
    bad = min(found.rate_per_s for found, verdict in knee.curve if verdict == "fail")
    assert true <= bad * 1.000001
    assert bad / knee.last_good.rate_per_s < 2 ** (1 / 2**6) * 1.001


@given(capacity=st.floats(1, 20_000), limit=st.integers(1, 12))
def test_the_number_of_probes_is_limited_whatever_the_curve(capacity: float, limit: int) -> None:
    knee = find_knee(queue(capacity), slo_p99_ms=SLO, settings=SearchSettings(max_probes=limit))
    assert len(knee.curve) <= limit


@given(st.lists(st.tuples(st.floats(1, 300), st.floats(0, 50)), min_size=1, max_size=8))
def test_what_is_reported_was_measured(figures: list[tuple[float, float]]) -> None:
    answers = iter(figures * 20)

    def measure(rate: float) -> Probe:
        p99_ms, lag_ms = next(answers)
        return probe(rate, p99_ms=p99_ms, lag_ms=lag_ms)

    knee = find_knee(measure, slo_p99_ms=SLO)
    passed = [found for found, verdict in knee.curve if verdict == "pass"]
    assert knee.last_good == max(passed, key=lambda found: found.rate_per_s, default=None)
    above = [
        (found.rate_per_s, verdict)
        for found, verdict in knee.curve
        if knee.last_good is None or found.rate_per_s > knee.last_good.rate_per_s
    ]
    nearest = [verdict for rate, verdict in above if rate == min(above)[0]]
    assert (knee.upper_side == "confirmed") == ("fail" in nearest)


def test_an_invalid_probe_is_tried_again() -> None:
    tries: dict[float, int] = {}

    def stalls_once(rate: float) -> Probe:
        tries[rate] = tries.get(rate, 0) + 1
        if rate == 200 and tries[rate] == 1:
            return probe(rate, p99_ms=400, lag_ms=80)
        return queue(1000)(rate)

    knee = find_knee(stalls_once, slo_p99_ms=SLO)
    assert [verdict for found, verdict in knee.curve if found.rate_per_s == 200] == ["invalid", "pass"]
    assert knee.last_good is not None
    assert knee.last_good.rate_per_s > 200


def test_lag_on_the_upper_side_makes_it_inconclusive() -> None:
    knee = find_knee(queue(1000, lag_ms=50), slo_p99_ms=SLO, settings=GENEROUS)
    assert knee.upper_side == "inconclusive"
    assert knee.last_good is not None


def test_a_service_faster_than_the_search_goes_is_inconclusive() -> None:
    knee = find_knee(queue(1e9), slo_p99_ms=SLO, settings=SearchSettings(max_per_s=400))
    assert knee.last_good is not None
    assert (knee.last_good.rate_per_s, knee.upper_side) == (400, "inconclusive")


def test_a_slow_service_is_searched_downwards() -> None:
    knee = find_knee(queue(20), slo_p99_ms=SLO, settings=GENEROUS)
    assert knee.last_good is not None
    assert 17 < knee.last_good.rate_per_s <= 18


def test_a_service_that_never_meets_the_objective_has_no_knee() -> None:
    knee = find_knee(lambda rate: probe(rate, p99_ms=500), slo_p99_ms=SLO, settings=GENEROUS)
    assert (knee.last_good, knee.upper_side) == (None, "confirmed")
