import pytest

from include.core.errors import UserError
from include.storage.inventory import take_inventory

RUN = "runs/digits/manual-1"


def validity(store, **options):
    inventory = take_inventory(store, runs_over=[RUN], **options)
    return {f"{c.step}-{c.attempt}": c.valid for c in inventory.checkpoints}


def test_it_sees_checkpoints_leases_and_quarantine_on_every_store(any_store, furnished):
    furnished(any_store)
    any_store.put_json("quarantine/b1/MANIFEST.json", {"quarantined_at": "2026-11-01T00:00:00+00:00"})
    any_store.put("quarantine/b1/objects/leases/x/spec.json", b"{}")
    inventory = take_inventory(any_store, runs_over=[RUN])

    assert [(c.step, c.committed, c.valid) for c in sorted(inventory.checkpoints, key=lambda c: (c.run, c.step))] == [
        (5, True, None),
        (6, False, None),
        (10, True, None),
        (20, True, None),
        (30, True, True),
        (40, False, None),
    ]
    assert set(inventory.leases) == {"train-a-g1", "train-b-g1"}
    (batch,) = inventory.quarantines
    assert (batch.batch, batch.since.isoformat(), len(batch.objects)) == ("b1", "2026-11-01T00:00:00+00:00", 2)
    assert inventory.total_bytes == sum(size for key, size in any_store.list() if not key.startswith("quarantine/"))


def test_a_flipped_bit_a_missing_file_and_a_forged_commit_are_not_valid(file_store, checkpoint):
    for step in (10, 20, 30, 40):
        checkpoint(file_store, RUN, step)
    weights = f"{RUN}/checkpoints/step-40-1/__0_0.distcp"
    data = bytearray(file_store.get(weights))
    data[7] ^= 1
    file_store.put(weights, bytes(data))
    file_store.delete(f"{RUN}/checkpoints/step-30-1/.metadata")
    commit = file_store.get_json(f"{RUN}/checkpoints/step-20-1/COMMIT.json")
    file_store.put_json(f"{RUN}/checkpoints/step-20-1/COMMIT.json", {**commit, "world": 2})
    assert validity(file_store) == {"40-1": False, "30-1": False, "20-1": False, "10-1": True}


def test_the_newest_is_the_one_of_the_highest_step_then_attempt(file_store, checkpoint):
    for step, attempt in ((9, 3), (10, 1), (10, 2)):
        checkpoint(file_store, RUN, step, attempt=attempt)
    assert validity(file_store) == {"10-2": True, "10-1": None, "9-3": None}
    assert validity(file_store, keep_last=2) == {"10-2": True, "10-1": True, "9-3": None}


def test_a_run_with_nothing_to_spare_is_not_downloaded(file_store, checkpoint, monkeypatch):
    checkpoint(file_store, RUN, 10)
    monkeypatch.setattr(file_store, "download", None)
    assert validity(file_store) == {"10-1": None}


@pytest.mark.parametrize("manifest", [None, b"", b"{", b"[]", b'{"quarantined_at": "2026-11-01T00:00:00"}'])
def test_a_batch_without_a_usable_manifest_has_no_age(file_store, manifest):
    file_store.put("quarantine/b/objects/leases/x/spec.json", b"{}")
    if manifest is not None:
        file_store.put("quarantine/b/MANIFEST.json", manifest)
    (batch,) = take_inventory(file_store, runs_over=[]).quarantines
    assert batch.since is None


def test_a_store_that_cannot_be_read_gives_no_inventory(file_store, checkpoint, monkeypatch):
    for step in (1, 2):
        checkpoint(file_store, RUN, step)

    def refuse(key):
        raise UserError("access denied", found=key)

    monkeypatch.setattr(file_store, "get", refuse)
    with pytest.raises(UserError, match="access denied"):
        take_inventory(file_store, runs_over=[RUN])
