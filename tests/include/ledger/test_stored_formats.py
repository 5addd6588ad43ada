"""Rows as earlier releases wrote them: today's code must read them for ever."""

from decimal import Decimal

from sqlalchemy import text

EVENTS_0001 = """INSERT INTO events (at, kind, group_id, lease_id, generation, dag_id, run_id, job, attempt, reason,
 body)
VALUES
('2026-11-30T10:00:00+00:00', 'intent', 'train-a', 'train-a-g1', 1, 'digits', 'r', NULL, NULL, NULL,
 '{"offer": "g5.xlarge/spot/eu-west-1", "commit_usd": "0.75"}'),
('2026-11-30T10:00:01.250000+00:00', 'launched', 'train-a', 'train-a-g1', 1, 'digits', 'r', NULL, NULL, NULL,
 '{"usd_per_h": "0.42", "purchase": "spot"}'),
('2026-11-30T10:00:02+00:00', 'attempt', 'train-a', 'train-a-g1', NULL, 'digits', 'r', 'train', 1, NULL, '{}'),
('2026-11-30T10:05:02+00:00', 'attempt_ended', 'train-a', 'train-a-g1', NULL, 'digits', 'r', 'train', 1, 'preempted',
 '{"step": 135}')"""

GROUPS_0001 = "INSERT INTO groups VALUES ('train-a', 'digits', 'r', 1, false)"

CHARGES_0001 = """INSERT INTO charges ("x_ChargeKey", "ChargePeriodStart", "ChargePeriodEnd", "PricingUnit",
 "BillingCurrency", "EffectiveCost", "x_DagId", "x_RunId", "x_LeaseId", "x_PaidSeconds", "x_EnergyMethod",
 "x_CostMethod")
VALUES ('lease:train-a-g1', '2026-11-30T10:00:01.250000+00:00', '2026-11-30T10:06:00+00:00', 'Hours', 'USD',
 '0.04200000', 'digits', 'r', 'train-a-g1', 358.75, 'unknown', 'estimated: price per hour x paid hours')"""


def test_rows_of_revision_0001_are_understood(ledger):
    with ledger._engine.begin() as connection:
        for statement in (EVENTS_0001, GROUPS_0001, CHARGES_0001):
            connection.exec_driver_sql(statement)
    run = {"dag_id": "digits", "run_id": "r"}

    assert ledger.open_lease("train-a") == "train-a-g1"
    assert ledger.launch_details("train-a-g1") == {"usd_per_h": "0.42", "purchase": "spot"}
    assert ledger.lease_record("train-a-g1").launched_at == "2026-11-30T10:00:01.250000+00:00"
    (attempt,) = ledger.attempts(**run)
    assert (attempt.number, attempt.reason, attempt.end_details) == (1, "preempted", {"step": 135})
    assert ledger.preemptions(job="train", **run) == 1
    assert ledger.totals(**run).usd == Decimal("0.042")
    assert ledger.begin_attempt(group_id="train-a", lease_id="train-a-g1", job="train", **run) == 2
    assert ledger.ended(group_id="train-a", lease_id="train-a-g1", reason="lost")
    assert ledger.intent(group_id="train-a", **run).lease_id == "train-a-g2"


def test_a_lock_of_revision_0001_is_respected(ledger, clock):
    with ledger._engine.begin() as connection:
        connection.execute(text("INSERT INTO locks VALUES ('clean-up', 'a', '2026-01-01T00:00:10+00:00')"))
    assert not ledger.acquire_lock("clean-up", "b", 5)
    clock.sleep(10)
    assert ledger.acquire_lock("clean-up", "b", 5)


QUEUE_0002 = """INSERT INTO queue (group_id, dag_id, run_id, team, priority, gpus, usd_per_h, quota_gpus,
 quota_usd_per_h, since, asked_at)
VALUES ('train-q', 'digits', 'q', 'vision', 3, 4, '2.5', 8, NULL, '2026-01-01T00:00:00+00:00',
 '2026-01-01T00:05:00+00:00')"""


def test_a_place_in_the_queue_of_revision_0002_is_kept(ledger):
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql(QUEUE_0002)
    [entry] = ledger.queue("vision")
    assert (entry.group_id, entry.priority, entry.usd_per_h, entry.quota_usd_per_h) == (
        "train-q",
        3,
        Decimal("2.5"),
        None,
    )
