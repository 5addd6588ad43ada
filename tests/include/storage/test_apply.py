from datetime import UTC, datetime, timedelta

import pytest

from include.storage.apply import apply_cleanup
from include.storage.facts import CleanupPolicy
from include.storage.inventory import take_inventory
from include.storage.limits import CleanupLimits, CleanupRefusedError
from include.storage.plan import plan_cleanup

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RUN = "runs/digits/manual-1"
GENEROUS = CleanupLimits(max_share=1.0)


def plan_for(store, *, now=NOW, protect=()):
    return plan_cleanup(
        objects=take_inventory(store, runs_over=[RUN]),
        protect=protect,
        runs_over=[RUN],
        leases_over=["train-a-g1"],
        now=now,
        policy=CleanupPolicy(quarantine_days=7),
    )


def clean(store, *, now=NOW, **options):
    return apply_cleanup(store, plan_for(store, now=now), now=now, limits=GENEROUS, **{"dry_run": False, **options})


def test_a_dry_run_tells_the_same_numbers_and_touches_nothing(file_store, furnished, content):
    furnished(file_store)
    before = content(file_store)
    dry = apply_cleanup(file_store, plan_for(file_store), now=NOW, limits=GENEROUS)
    assert dry.dry_run
    assert content(file_store) == before

    wet = clean(file_store)
    assert not wet.dry_run
    assert (wet.quarantined_objects, wet.quarantined_bytes) == (dry.quarantined_objects, dry.quarantined_bytes)
    # Two superseded checkpoints of three objects, two uncommitted files, two control files.
    assert wet.quarantined_objects == 10


def test_the_way_through_quarantine_on_every_store(any_store, furnished, content):
    furnished(any_store)
    before = content(any_store)
    report = clean(any_store)
    after = content(any_store)
    moved = set(before) - set(after)

    assert {key.split("/checkpoints/")[-1].split("/")[0] for key in moved if key.startswith("runs")} == {
        "step-10-1",
        "step-20-1",
        "step-40-1",
    }
    assert {key for key in moved if key.startswith("leases")} == {
        "leases/train-a-g1/spec.json",
        "leases/train-a-g1/queue/train-1",
    }
    assert all(after[f"quarantine/{report.batch}/objects/{key}"] == before[key] for key in moved)
    assert all(after[key] == before[key] for key in before if key not in moved)

    early = clean(any_store, now=NOW + timedelta(days=6))
    assert (early.quarantined_objects, early.deleted_objects) == (0, 0)
    late = clean(any_store, now=NOW + timedelta(days=7))
    assert late.deleted_objects == report.quarantined_objects + 1
    assert late.deleted_bytes > report.quarantined_bytes
    assert content(any_store) == {key: data for key, data in before.items() if key not in moved}


def test_beyond_the_limits_nothing_is_touched(file_store, furnished, content):
    furnished(file_store)
    before = content(file_store)
    for limits in (CleanupLimits(max_objects=9, max_share=1.0), CleanupLimits(max_share=0.01)):
        with pytest.raises(CleanupRefusedError):
            apply_cleanup(file_store, plan_for(file_store), now=NOW, limits=limits, dry_run=False)
    assert content(file_store) == before


def test_what_changed_after_the_plan_is_left(file_store, furnished):
    furnished(file_store)
    made = plan_for(file_store)
    file_store.put("leases/train-a-g1/spec.json", b'{"changed": 1}')
    file_store.delete("leases/train-a-g1/queue/train-1")
    file_store.put(f"{RUN}/checkpoints/step-40-1/COMMIT.json", b"{}")
    report = apply_cleanup(file_store, made, now=NOW, limits=GENEROUS, dry_run=False)

    assert report.skipped == {
        "leases/train-a-g1/queue/train-1": "it was already gone",
        "leases/train-a-g1/spec.json": "it changed after the plan: 14 instead of 2 bytes",
        f"{RUN}/checkpoints/step-40-1": "it was committed after the plan",
    }
    assert file_store.exists("leases/train-a-g1/spec.json")
    assert file_store.exists(f"{RUN}/checkpoints/step-40-1/__0_0.distcp")
    assert report.quarantined_objects == 6


def test_an_unreadable_registry_lets_nothing_go(file_store, furnished, content):
    furnished(file_store)
    before = content(file_store)
    apply_cleanup(file_store, plan_for(file_store, protect=None), now=NOW, limits=GENEROUS, dry_run=False)
    assert content(file_store) == before


class InjectedError(Exception):
    """The injected fault."""


class FragileStore:
    """A store whose call number ``at`` raises, before or after it took effect."""

    def __init__(self, store, at, *, late):
        self._store, self._left, self._late = store, at, late

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self._left -= 1
            if self._left == 0 and not self._late:
                raise InjectedError(name)
            answer = getattr(self._store, name)(*args, **kwargs)
            if self._left == 0:
                raise InjectedError(name)
            return answer

        return call

    @property
    def spared(self):
        return self._left > 0


def everything_is_somewhere(before, after, *, batch):
    copies = [after.get(key, after.get(f"quarantine/{batch}/objects/{key}")) for key in before]
    return copies == list(before.values())


@pytest.mark.parametrize("late", [False, True])
def test_a_fault_at_any_call_loses_nothing_and_the_next_clean_up_finishes(tmp_path, furnished, content, late):
    from include.core.store import ObjectStore

    at = 0
    while True:
        at += 1
        store = ObjectStore(f"file://{tmp_path}/{at}")
        furnished(store)
        before = content(store)
        made = plan_for(store)
        fragile = FragileStore(store, at, late=late)
        try:
            apply_cleanup(fragile, made, now=NOW, limits=GENEROUS, dry_run=False)
        except InjectedError:
            assert everything_is_somewhere(before, content(store), batch=made.batch)
        if fragile.spared:
            break
        clean(store, now=NOW + timedelta(seconds=1))
        assert plan_for(store).to_quarantine == ()
        clean(store, now=NOW + timedelta(days=8))
        assert not [key for key in content(store) if key.startswith("quarantine/")]
        assert content(store)[f"{RUN}/checkpoints/step-30-1/COMMIT.json"]
    # One manifest, then look, copy, compare and delete for each of ten objects, and one look for a late commit.
    assert at == 1 + 10 * 4 + 1 + 1


def test_a_short_copy_stops_the_clean_up_before_the_original_goes(file_store, furnished, content, monkeypatch):
    from include.core.errors import StoreError

    furnished(file_store)
    before = content(file_store)
    monkeypatch.setattr(file_store, "copy", lambda key, to: file_store.put(to, b"short"))
    with pytest.raises(StoreError, match="the original stays"):
        clean(file_store)
    assert {key: data for key, data in content(file_store).items() if not key.startswith("quarantine/")} == before


def test_a_manifest_of_the_first_format_still_ends_its_batch(file_store):
    file_store.put(
        "quarantine/0a1b2c3d4e5f/MANIFEST.json",
        b'{"version": 1, "quarantined_at": "2026-11-01T10:00:00+00:00", "items": [{"prefix": "leases/train-x-g1", '
        b'"reason": "control files of a lease that is over", "keys": ["leases/train-x-g1/spec.json"]}]}',
    )
    file_store.put("quarantine/0a1b2c3d4e5f/objects/leases/train-x-g1/spec.json", b"{}")
    assert clean(file_store).deleted_objects == 2
    assert list(file_store.list()) == []
