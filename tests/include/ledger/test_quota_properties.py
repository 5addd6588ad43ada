"""Quotas under any order of events: never exceeded, never idle beside somebody who fits, nobody starved."""

import json
import random
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from include.config.quota_file import Limits, TeamQuota
from include.core.clock import FakeClock
from include.core.errors import QueuedError
from include.ledger.ledger import IntentLimits, Ledger
from include.ledger.migrate import migrate
from include.ledger.quota import ASK_AGAIN_S, KEEPS_PLACE_S, OVERTAKEN_FOR_S
from tests.support.quota_worker import QUOTAS, THREADS, TOTAL

REPO = Path(__file__).resolve().parents[3]
PROCESSES = 3
LEASES = 5
TEAMS = ("vision", "speech")
QUOTA = TeamQuota(gpus=4, usd_per_h=Decimal(3))
SHARED = Limits(gpus=6)


def held_at_each_moment(ledger):
    """What the teams held after each event, by the ledger's own order."""
    held, bodies = Counter(), {}
    for event in reversed(ledger.events(limit=100_000)):
        if event.kind == "intent":
            bodies[event.lease_id] = event.body
            held.update({event.body["team"]: event.body["gpus"]})
            held.update({(event.body["team"], "usd"): Decimal(event.body["usd_per_h"])})
        elif event.kind == "ended":
            body = bodies[event.lease_id]
            held.subtract({body["team"]: body["gpus"]})
            held.subtract({(body["team"], "usd"): Decimal(body["usd_per_h"])})
        yield dict(held)


@pytest.mark.integration
def test_a_crowd_never_holds_more_than_the_quotas_and_gets_through(empty_url):
    migrate(empty_url)
    command = [sys.executable, "-m", "tests.support.quota_worker", empty_url]
    started = [
        subprocess.Popen([*command, f"p{i}", str(LEASES), "7"], cwd=REPO, stdout=subprocess.PIPE, text=True)
        for i in range(PROCESSES)
    ]
    reports = [json.loads(process.communicate(timeout=200)[0]) for process in started]
    assert [error for report in reports for error in report["errors"]] == []
    told = Counter(word for report in reports for word in report["told"])
    assert told.total() == PROCESSES * THREADS * LEASES
    assert told["had one"] > told.total() / 2

    ledger = Ledger(empty_url)
    moments = list(held_at_each_moment(ledger))
    for team, quota in QUOTAS.items():
        assert max(held.get(team, 0) for held in moments) <= quota.gpus
    assert max(held.get(("vision", "usd"), 0) for held in moments) <= QUOTAS["vision"].usd_per_h
    assert max(sum(held.get(team, 0) for team in QUOTAS) for held in moments) <= TOTAL.gpus
    assert ledger.queue() == ()
    assert ledger.open_leases() == ()
    ledger.dispose()


class World:
    """A ledger that groups ask, and what is known of them outside."""

    def __init__(self, url):
        self.clock = FakeClock()
        self.ledger = Ledger(url, clock=self.clock)
        self.asked = {}  # group -> limits, of those that wait
        self.holds = {}  # group -> limits, lease

    def ask(self, group, limits):
        # What an onlooker sees before: those of the queue that would fit right now, each by itself.
        before = [entry.group_id for entry in self.ledger.queue()]
        fitting = [name for name in before if name != group and name in self.asked and self.fits(self.asked[name])]
        try:
            lease = self.ledger.intent(group_id=group, dag_id="d", run_id=group, limits=limits).lease_id
        except QueuedError:
            self.asked[group] = limits
            assert group in [entry.group_id for entry in self.ledger.queue()]
            return False
        self.asked.pop(group, None)
        self.holds.setdefault(group, (limits, lease))
        first = [name for name in fitting if self.comes_first(name, group, limits, before)]
        # Nobody who came first and would have fitted is worse off by this grant.
        assert all(self.fits(self.asked[name]) for name in first[:1])
        return True

    def comes_first(self, name, group, limits, before):
        if self.asked[name].priority != limits.priority:
            return self.asked[name].priority > limits.priority
        return group not in before or before.index(name) < before.index(group)

    def fits(self, limits):
        own = [held for held, _ in self.holds.values() if held.team == limits.team]
        everybody = [held for held, _ in self.holds.values()]
        return (
            (not limits.gpus or sum(held.gpus for held in own) + limits.gpus <= QUOTA.gpus)
            and (not limits.usd_per_h or sum(held.usd_per_h for held in own) + limits.usd_per_h <= QUOTA.usd_per_h)
            and (not limits.gpus or sum(held.gpus for held in everybody) + limits.gpus <= SHARED.gpus)
        )

    def end(self, group):
        self.ledger.ended(group_id=group, lease_id=self.holds.pop(group)[1], reason="released")

    def close(self, group):
        self.ledger.close(group, dag_id="d", run_id=group)
        self.asked.pop(group, None)
        assert group not in [entry.group_id for entry in self.ledger.queue()]

    def check(self):
        for team in TEAMS:
            own = [held for held, _ in self.holds.values() if held.team == team]
            assert sum(held.gpus for held in own) <= QUOTA.gpus
            assert sum(held.usd_per_h for held in own) <= QUOTA.usd_per_h
        assert sum(held.gpus for held, _ in self.holds.values()) <= SHARED.gpus
        queue = self.ledger.queue()
        assert len({entry.group_id for entry in queue}) == len(queue)
        assert {entry.group_id for entry in queue} <= set(self.asked)
        assert [entry.priority for entry in queue] == sorted((entry.priority for entry in queue), reverse=True)


def wish(team, gpus, priority):
    return IntentLimits(team=team, gpus=gpus, usd_per_h=Decimal(gpus) / 2, quota=QUOTA, total=SHARED, priority=priority)


@pytest.fixture(scope="module")
def shared_url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('quota')}/ledger.db"
    migrate(url)
    return url


def empty(url):
    ledger = Ledger(url)
    with ledger._engine.begin() as connection:
        for statement in (
            "DROP TRIGGER IF EXISTS events_no_delete",  # the tests of one module share a file: a migration takes long
            "DELETE FROM events",
            "DELETE FROM groups",
            "DELETE FROM queue",
        ):
            connection.execute(text(statement))
    ledger.dispose()


STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 7)),
    st.tuples(st.just("ask"), st.integers(0, 7)),
    st.tuples(st.just("end"), st.integers(0, 7)),
    st.tuples(st.just("close"), st.integers(0, 7)),
    st.tuples(st.just("sleep"), st.sampled_from([1, ASK_AGAIN_S, KEEPS_PLACE_S + 1])),
)
WISHES = st.builds(wish, st.sampled_from(TEAMS), st.integers(0, 4), st.integers(0, 2))


@given(wishes=st.lists(WISHES, min_size=8, max_size=8), steps=st.lists(STEPS, max_size=40))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_order_of_events_breaks_a_quota_or_an_order(shared_url, wishes, steps):
    empty(shared_url)
    world, gone = World(shared_url), set()
    for kind, value in steps:
        group = f"train-{value}"
        if kind == "ask" and group not in gone and group not in world.holds:
            world.ask(group, wishes[value])
        elif kind == "end" and group in world.holds:
            world.end(group)
        elif kind == "close":
            world.close(group)
            gone.add(group)
        elif kind == "sleep":
            world.clock.sleep(value)
        world.check()
    world.ledger.dispose()


@pytest.mark.parametrize("seed", range(6))
def test_all_that_keep_asking_get_their_turn_in_bounded_time(shared_url, seed):
    """Small leases of one GPU come without end; the others still start, each at most a lease and its wait later."""
    empty(shared_url)
    rng = random.Random(seed)
    gpus = [rng.randint(1, 4) for _ in range(rng.randint(1, 6))]
    seconds = [rng.randint(60, 900) for _ in range(6)]
    world, endings, started = World(shared_url), {}, {}
    names = [f"train-{number}" for number in range(len(gpus))]
    longest = max(seconds)
    limit_s = (len(gpus) + 1) * (OVERTAKEN_FOR_S + longest + 2 * ASK_AGAIN_S)
    small = 0
    while len(started) < len(names):
        now = world.clock.monotonic()
        assert now <= limit_s, f"{sorted(set(names) - set(started))} of {gpus} wait after {now} s"
        for group in [group for group, at in endings.items() if at <= now]:
            world.end(group)
            del endings[group]
        small += 1
        for group, count in [(f"train-small-{small}", 1), *zip(names, gpus, strict=True)]:
            if group not in started and world.ask(group, wish("vision", count, 0)):
                endings[group] = now + seconds[small % len(seconds)]
                started[group] = now
        # Small ones that do not get in at once go away: only the stream of them never ends.
        if f"train-small-{small}" not in started:
            world.close(f"train-small-{small}")
        else:
            del started[f"train-small-{small}"]
        world.check()
        world.clock.sleep(ASK_AGAIN_S)
    world.ledger.dispose()
