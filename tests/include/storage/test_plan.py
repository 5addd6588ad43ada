from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.storage.facts import CleanupPolicy, Inventory, Quarantine, StoredCheckpoint, StoredObject
from include.storage.plan import plan_cleanup

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RUNS = ("runs/w/a", "runs/w/b")


def stored(run, step, *, committed=True, valid=True, attempt=1):
    prefix = f"{run}/checkpoints/step-{step}-{attempt}"
    names = [".metadata", "COMMIT.json", "__0_0.distcp"] if committed else ["__0_0.distcp"]
    return StoredCheckpoint(
        prefix=prefix,
        run=run,
        step=step,
        attempt=attempt,
        committed=committed,
        valid=valid if committed else None,
        objects=tuple(StoredObject(key=f"{prefix}/{name}", size_bytes=10) for name in names),
    )


def inventory(*checkpoints, leases=(), quarantines=()):
    control = {name: (StoredObject(key=f"leases/{name}/stop.json", size_bytes=2),) for name in leases}
    return Inventory(total_bytes=1000, checkpoints=checkpoints, leases=control, quarantines=tuple(quarantines))


def plan(objects, *, protect=(), over=RUNS, leases_over=(), **policy):
    return plan_cleanup(
        objects=objects,
        protect=protect,
        runs_over=over,
        leases_over=leases_over,
        now=NOW,
        policy=CleanupPolicy(**policy),
    )


def going(made):
    return [item.prefix for item in made.to_quarantine]


def batch(name="b", *, since, keys=("runs/w/a/checkpoints/step-1-1/x",)):
    names = ["MANIFEST.json", *(f"objects/{key}" for key in keys)]
    objects = tuple(StoredObject(key=f"quarantine/{name}/{n}", size_bytes=5) for n in names)
    return Quarantine(batch=name, since=since, objects=objects)


def test_older_and_uncommitted_checkpoints_go_and_the_newest_valid_stays():
    made = plan(inventory(stored(RUNS[0], 10), stored(RUNS[0], 20), stored(RUNS[0], 30, committed=False)))
    assert [(item.prefix[-9:], item.reason, item.uncommitted) for item in made.to_quarantine] == [
        ("step-10-1", "a newer valid checkpoint of the run stays", False),
        ("step-30-1", "never committed", True),
    ]
    assert made.to_quarantine[0].objects[0].key.endswith("/COMMIT.json")


def test_a_damaged_newest_does_not_stand_for_the_last_valid_one():
    made = plan(inventory(stored(RUNS[0], 10, valid=None), stored(RUNS[0], 20), stored(RUNS[0], 30, valid=False)))
    assert going(made) == ["runs/w/a/checkpoints/step-10-1", "runs/w/a/checkpoints/step-30-1"]


def test_without_a_known_valid_one_every_committed_checkpoint_stays():
    made = plan(inventory(*(stored(RUNS[0], n, valid=v) for n, v in ((1, None), (2, False), (3, False)))))
    assert going(made) == []


def test_a_run_that_may_live_is_left_alone():
    objects = inventory(stored(RUNS[0], 1), stored(RUNS[0], 2), stored(RUNS[0], 3, committed=False))
    assert going(plan(objects, over=[RUNS[1]])) == []


@pytest.mark.parametrize(
    "reference",
    [
        "runs/w/a/checkpoints/step-10-1",
        "s3://bucket/some/prefix/runs/w/a/checkpoints/step-10-1",
        "file:///srv/runs/w/a/checkpoints/step-10-1/",
        "s3://bucket/runs/w/a/checkpoints/step-10-1/COMMIT.json",
        "s3://bucket/runs/w/a/",
        "runs/w",
    ],
)
def test_a_reference_at_above_or_below_a_checkpoint_keeps_it(reference):
    objects = inventory(stored(RUNS[0], 10), stored(RUNS[0], 20))
    assert going(plan(objects)) == ["runs/w/a/checkpoints/step-10-1"]
    assert going(plan(objects, protect=[reference])) == []


@pytest.mark.parametrize("reference", ["runs/w/a/checkpoints/step-10-11", "runs/w/aa", "s3://b/runs/w/a/checkpoints/s"])
def test_a_reference_to_a_neighbour_keeps_nothing(reference):
    objects = inventory(stored(RUNS[0], 10), stored(RUNS[0], 20))
    assert going(plan(objects, protect=[reference])) == ["runs/w/a/checkpoints/step-10-1"]


def test_unreadable_references_keep_everything():
    old = batch(since=NOW - timedelta(days=900))
    made = plan(inventory(stored(RUNS[0], 1), stored(RUNS[0], 2), leases=["l"], quarantines=[old]), protect=None)
    assert (made.to_quarantine, made.to_delete) == ((), ())
    assert "could not be read" in made.kept[0].reason


def test_only_leases_that_are_over_lose_their_control_files():
    assert going(plan(inventory(leases=["l1", "l2", "l3"]), leases_over=["l2"])) == ["leases/l2"]
    assert going(plan(inventory(leases=["l2"]), leases_over=["l2"], protect=["leases/l2/spec.json"])) == []


def test_quarantine_ends_after_its_wait_and_the_manifest_goes_last():
    objects = inventory(quarantines=[batch("old", since=NOW - timedelta(days=7)), batch("new", since=NOW)])
    made = plan(objects)
    assert [item.prefix for item in made.to_delete] == ["quarantine/old"]
    assert made.to_delete[0].objects[-1].key == "quarantine/old/MANIFEST.json"


def test_quarantine_of_unknown_age_or_with_new_references_stays():
    unknown = batch("unknown", since=None)
    needed = batch("needed", since=NOW - timedelta(days=9))
    made = plan(inventory(quarantines=[unknown, needed]), protect=["runs/w/a/checkpoints/step-1-1/weights"])
    assert made.to_delete == ()


def test_the_batch_is_the_same_for_the_same_plan_only():
    objects = inventory(stored(RUNS[0], 10), stored(RUNS[0], 20))
    later = plan_cleanup(
        objects=objects, protect=(), runs_over=RUNS, leases_over=(), now=NOW + timedelta(seconds=1), policy=None
    )
    assert plan(objects).batch == plan(objects).batch != later.batch


@pytest.mark.parametrize("policy", [{"keep_last": 0}, {"quarantine_days": -1.0}])
def test_a_policy_that_keeps_nothing_is_refused(policy):
    with pytest.raises(ValueError, match="at least one"):
        CleanupPolicy(**policy)


checkpoints = st.builds(
    stored,
    st.sampled_from(RUNS),
    st.integers(0, 6),
    committed=st.booleans(),
    valid=st.sampled_from([True, False, None]),
    attempt=st.integers(1, 2),
)


@given(
    found=st.lists(checkpoints, max_size=12, unique_by=lambda c: c.prefix),
    over=st.sets(st.sampled_from(RUNS)),
    keep=st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_nothing_protected_living_or_last_valid_ever_goes(found, over, keep, data):
    protect = data.draw(st.sets(st.sampled_from([c.prefix for c in found]))) if found else set()
    objects = inventory(*found, leases=["l1", "l2"], quarantines=[batch(since=NOW)])
    made = plan(objects, protect=protect, over=over, leases_over=["l1"], keep_last=keep)
    gone = set(going(made))

    assert not gone & protect
    for run in RUNS:
        mine = [c for c in found if c.run == run]
        valid = sorted((c.step, c.attempt) for c in mine if c.valid)
        left = sorted((c.step, c.attempt) for c in mine if c.valid and c.prefix not in gone)
        assert left[-keep:] == valid[-keep:]
        if run not in over:
            assert not any(prefix.startswith(f"{run}/") for prefix in gone)
        if not valid:
            assert all(not c.committed for c in mine if c.prefix in gone)
    assert all("/checkpoints/step-" in prefix or prefix == "leases/l1" for prefix in gone)
    assert made.to_delete == ()
