"""What earlier runs teach: medians, bounds, and what is never learned from."""

import pytest

from include.ledger.corrections import FEWEST_STEPS, NEWEST_RUNS, TIME_RANGE, read_corrections


def body(**changes):
    """The event of a run that took twice the predicted time and 1.1 times the traced memory."""
    values = {
        "family": "cnn",
        "device": "A100-80GB",
        "precision": "bf16",
        "outcome": "done",
        "out_of_memory": False,
        "layout_changed": False,
        "step": {"predicted_s": 0.1, "measured_s": 0.2, "steps": 100},
        "memory": {"predicted_bytes": 1000, "measured_bytes": 1100, "device_bytes": None},
    }
    return {**values, **changes}


def timed(measured_s, *, predicted_s=0.1, steps=100):
    return {"step": {"predicted_s": predicted_s, "measured_s": measured_s, "steps": steps}}


@pytest.fixture
def learn(sqlite_ledger, run):
    def record(*bodies):
        for found in bodies:
            sqlite_ledger.record("prediction", body=found, **run)
        return read_corrections(sqlite_ledger)

    return record


def test_one_run_is_enough(learn):
    [found] = learn(body())
    assert (found.family, found.device, found.precision, found.runs) == ("cnn", "A100-80GB", "bf16", 1)
    assert found.time_ratio == pytest.approx(2.0)
    assert found.memory_ratio == found.worst_memory_ratio == pytest.approx(1.1)
    assert found.flags == ()
    assert found.time_spread is None
    assert len(found.as_of) == len("2026-11-30")


def test_medians_of_each_kind_of_training_apart(learn):
    others = body(precision="fp32", **timed(0.5)), body(device="L4", **timed(0.05)), body(family="mlp", **timed(0.3))
    found = learn(*(body(**timed(value)) for value in (0.1, 0.3, 0.2)), *others)
    assert [(c.family, c.device, c.precision, pytest.approx(c.time_ratio), c.runs) for c in found] == [
        ("cnn", "A100-80GB", "bf16", 2.0, 3),
        ("cnn", "A100-80GB", "fp32", 5.0, 1),
        ("cnn", "L4", "bf16", 0.5, 1),
        ("mlp", "A100-80GB", "bf16", 3.0, 1),
    ]
    assert found[0].time_spread == pytest.approx(3.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": {"predicted_s": None, "measured_s": 0.2, "steps": 100}},
        timed(None),
        timed(0.2, steps=FEWEST_STEPS - 1),
        timed(0.0),
        timed(float("nan")),
        {"outcome": "failed"},
        {"layout_changed": True},
        {"step": None},
    ],
)
def test_nothing_is_learned_of_time_from(learn, changes):
    nothing = {"memory": {"predicted_bytes": None, "measured_bytes": 5, "device_bytes": None}}
    assert learn(body(**nothing, **changes)) == ()


def test_an_event_of_an_older_form_is_passed_over(learn):
    assert learn({"predicted": {"usd": 1.0}, "actual_training": {}}, {"family": 3}, {}) == ()


def test_a_cpu_run_teaches_time_and_leaves_memory_unknown(learn):
    memory = {"predicted_bytes": 1000, "measured_bytes": None, "device_bytes": None}
    [found] = learn(body(device="this-machine", memory=memory))
    assert (found.memory_ratio, found.worst_memory_ratio) == (None, None)
    assert found.time_ratio == pytest.approx(2.0)


def test_running_out_of_memory_is_a_lower_bound(learn):
    lost = {"outcome": "out of memory", "out_of_memory": True, **timed(None, steps=0)}
    [found] = learn(body(memory={"predicted_bytes": 1000, "measured_bytes": 800, "device_bytes": 1500}, **lost))
    assert (found.memory_ratio, found.time_ratio, found.runs) == (None, None, 1)
    assert found.worst_memory_ratio == pytest.approx(1.5)
    assert "ran out of memory" in found.flags[0]


def test_a_fallback_layout_teaches_the_bound_of_the_planned_one_only(learn):
    memory = {"predicted_bytes": 1000, "measured_bytes": 600, "device_bytes": 1500}
    [found] = learn(body(out_of_memory=True, layout_changed=True, memory=memory))
    assert (found.memory_ratio, found.time_ratio) == (None, None)
    assert found.worst_memory_ratio == pytest.approx(1.5)


def test_a_stopped_run_teaches_its_step(learn):
    [found] = learn(body(outcome="timed out", **timed(0.4)))
    assert found.time_ratio == pytest.approx(4.0)


def test_ratios_out_of_range_are_cut_and_flagged(learn):
    [found] = learn(body(**timed(50.0)))
    assert found.time_ratio == TIME_RANGE[1]
    assert "were cut" in found.flags[0]


def test_old_runs_are_forgotten(learn):
    [found] = learn(*(body(**timed(0.9)) for _ in range(30)), *(body(**timed(0.1)) for _ in range(NEWEST_RUNS)))
    assert (found.runs, found.time_ratio) == (NEWEST_RUNS, pytest.approx(1.0))
