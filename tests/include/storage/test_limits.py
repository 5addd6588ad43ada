import pytest

from include.storage.facts import CleanupPlan, Planned, StoredObject
from include.storage.limits import CleanupLimits, CleanupRefusedError, check_limits


def plan(moves, purges=0, *, size=10, total=100):
    def planned(count, where):
        objects = tuple(StoredObject(key=f"{where}/{n}", size_bytes=size) for n in range(count))
        return (Planned(prefix=where, reason="test", objects=objects),)

    return CleanupPlan(
        batch="b", to_quarantine=planned(moves, "runs"), to_delete=planned(purges, "q"), kept=(), total_bytes=total
    )


def test_a_plan_at_the_limits_passes():
    check_limits(plan(5, 3), CleanupLimits(max_objects=8, max_share=0.5))
    check_limits(plan(0, total=0), CleanupLimits(max_objects=0, max_share=0.0))


def test_too_many_objects_are_refused_with_both_numbers():
    with pytest.raises(CleanupRefusedError, match=r"max_objects .* found: 8 objects .* allowed: 7 objects"):
        check_limits(plan(5, 3), CleanupLimits(max_objects=7))


def test_too_large_a_share_is_refused_and_the_quarantine_does_not_count():
    check_limits(plan(5, 90), CleanupLimits(max_share=0.5))
    with pytest.raises(CleanupRefusedError, match=r"max_share .* 60 of 100 bytes \(60%\) .* allowed: 50%"):
        check_limits(plan(6), CleanupLimits(max_share=0.5))
