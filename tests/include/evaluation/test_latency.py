import time

import pytest

from include.evaluation.latency import LEAST_ROUNDS, MOST_ROUNDS, measure_latency, percentile


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.1, 1), (0.5, 5), (0.95, 10), (1.0, 10)])
def test_nearest_rank_percentiles(share, value):
    assert percentile([float(n) for n in (7, 3, 1, 9, 5, 2, 8, 4, 10, 6)], share) == value


def test_waiting_costs_wall_time_but_no_cpu_time():
    found = measure_latency(lambda: time.sleep(0.002), batch=4, budget_s=0.0)
    assert found.batch == 4
    assert found.p50_ms >= 2
    assert found.cpu_ms < 1


def test_work_costs_cpu_time():
    found = measure_latency(lambda: burn(0.001), batch=1, budget_s=0.0)
    assert found.cpu_ms >= 0.9
    assert found.p50_ms <= found.p95_ms


def test_a_slow_call_is_measured_a_few_times_and_a_fast_one_often():
    assert measure_latency(lambda: burn(0.001), batch=1, budget_s=0.0).calls == 10 * LEAST_ROUNDS
    assert measure_latency(lambda: None, batch=1).calls == 10 * MOST_ROUNDS
