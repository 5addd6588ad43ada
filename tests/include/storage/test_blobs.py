"""Blobs that the checkpoints of a run share: those that a checkpoint needs stay with it, the others go."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from include.core.contracts.checkpoint import CheckpointBlob, CheckpointCommit, CheckpointFile
from include.core.ids import content_digest
from include.core.json_codec import to_json
from include.storage.apply import apply_cleanup
from include.storage.facts import CleanupPolicy
from include.storage.inventory import take_inventory
from include.storage.limits import CleanupLimits
from include.storage.plan import plan_cleanup

RUN, OTHER = "runs/w/a", "runs/w/b"
NOW = datetime(2026, 11, 30, tzinfo=UTC)
LIMITS = CleanupLimits(max_share=1.0)


def sha(content):
    return hashlib.sha256(content).hexdigest()


def put(store, step, *contents, run=RUN, committed=True):
    """A checkpoint whose tensors lie in blobs of these contents."""
    prefix = f"{run}/checkpoints/step-{step}-1"
    layout = f"layout {step}".encode()
    store.put(f"{prefix}/layout.json", layout)
    for content in contents:
        store.put(f"{run}/checkpoints/blobs/{sha(content)}.safetensors", content)
    if committed:
        commit = CheckpointCommit(
            step=step,
            attempt=1,
            world=1,
            config_hash="c",
            dataset_fingerprint="d",
            files=(CheckpointFile(name="layout.json", size_bytes=len(layout), sha256=sha(layout)),),
            blobs=tuple(CheckpointBlob(sha256=sha(content), size_bytes=len(content)) for content in contents),
            seal="",
        )
        commit = replace(commit, seal=content_digest(to_json(commit), length=64))
        store.put_json(f"{prefix}/COMMIT.json", to_json(commit))


def plan(store, *, over=(RUN,), protect=(), now=NOW):
    objects = take_inventory(store, runs_over=over)
    return plan_cleanup(
        objects=objects, protect=protect, runs_over=over, leases_over=(), now=now, policy=CleanupPolicy()
    )


def apply(store, made, *, now=NOW):
    return apply_cleanup(store, made, now=now, limits=LIMITS, dry_run=False)


def blobs(store, run=RUN):
    return {store.get(key) for key, _ in store.list(f"{run}/checkpoints/blobs")}


def test_blobs_that_the_newest_needs_stay_and_the_others_go_after_the_checkpoints(any_store):
    put(any_store, 10, b"frozen", b"ten")
    put(any_store, 20, b"frozen", b"twenty")
    put(any_store, 30, b"never committed", committed=False)
    put(any_store, 5, b"frozen", b"five", run=OTHER)
    made = plan(any_store)
    *checkpoints, last = [item.prefix for item in made.to_quarantine]
    assert {prefix[-9:] for prefix in checkpoints} == {"step-10-1", "step-30-1"}
    assert last == f"{RUN}/checkpoints/blobs"
    apply(any_store, made)
    assert blobs(any_store) == {b"frozen", b"twenty"}
    assert blobs(any_store, OTHER) == {b"frozen", b"five"}
    assert take_inventory(any_store, runs_over=[RUN]).checkpoints[0].prefix.endswith("step-20-1")


def test_damaged_blob_makes_a_checkpoint_invalid(file_store):
    put(file_store, 10, b"frozen", b"ten")
    put(file_store, 20, b"frozen", b"twenty")
    file_store.put(f"{RUN}/checkpoints/blobs/{sha(b'twenty')}.safetensors", b"twentx")
    valid = {c.step: c.valid for c in take_inventory(file_store, runs_over=[RUN]).checkpoints}
    assert valid == {20: False, 10: True}
    apply(file_store, plan(file_store))
    assert blobs(file_store) == {b"frozen", b"ten"}


def test_referenced_checkpoint_keeps_its_blobs(file_store):
    for step, content in ((10, b"ten"), (20, b"twenty"), (30, b"thirty")):
        put(file_store, step, b"frozen", content)
    apply(file_store, plan(file_store, protect=[f"s3://bucket/{RUN}/checkpoints/step-10-1"]))
    assert blobs(file_store) == {b"frozen", b"ten", b"thirty"}


def test_no_blob_goes_while_it_is_unknown_what_a_staying_checkpoint_needs(file_store):
    put(file_store, 10, b"ten")
    put(file_store, 20, b"twenty")
    put(file_store, 30, b"thirty")
    file_store.put(f"{RUN}/checkpoints/step-10-1/COMMIT.json", b"{")
    made = plan(file_store, protect=[f"{RUN}/checkpoints/step-10-1"])
    assert f"{RUN}/checkpoints/blobs" in {kept.prefix for kept in made.kept}
    apply(file_store, made)
    assert blobs(file_store) == {b"ten", b"twenty", b"thirty"}


def test_no_blob_goes_when_a_checkpoint_was_committed_after_the_plan(file_store):
    put(file_store, 10, b"ten")
    put(file_store, 20, b"twenty")
    put(file_store, 30, b"thirty", committed=False)
    made = plan(file_store)
    put(file_store, 30, b"thirty")
    report = apply(file_store, made)
    assert blobs(file_store) == {b"ten", b"twenty", b"thirty"}
    assert report.skipped[f"{RUN}/checkpoints/blobs"] == "a checkpoint was committed after the plan"


def test_run_that_lives_keeps_all(file_store):
    put(file_store, 10, b"ten")
    put(file_store, 20, b"twenty")
    file_store.put(f"{RUN}/checkpoints/blobs/{'0' * 64}.safetensors", b"of a save under way")
    assert plan(file_store, over=()).to_quarantine == ()


@pytest.mark.parametrize("named_again", [False, True])
def test_quarantined_blob_that_a_checkpoint_names_is_not_deleted(named_again, file_store):
    put(file_store, 10, b"ten")
    put(file_store, 20, b"twenty")
    apply(file_store, plan(file_store))
    if named_again:
        put(file_store, 30, b"ten")
        file_store.delete(f"{RUN}/checkpoints/blobs/{sha(b'ten')}.safetensors")
    later = NOW + timedelta(days=30)
    apply(file_store, plan(file_store, now=later), now=later)
    left = [key for key, _ in file_store.list("quarantine") if key.endswith(f"{sha(b'ten')}.safetensors")]
    assert bool(left) == named_again
