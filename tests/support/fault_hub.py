"""Virtual time with many actors in it, each interruptible at every call that leaves it: deterministic by its seed.

An actor stands for a process: it runs in a greenlet of its own, gives way when it sleeps and, by chance, at each of its
calls to the store, the ledger and EC2. So two of them interleave in any order, and one that is killed never does
another thing outside, as after kill -9.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from greenlet import getcurrent, greenlet

EPOCH = datetime(2026, 1, 10, 8, tzinfo=UTC)


class CrashHere(BaseException):
    """The process is gone: nothing catches this but the hub."""


@dataclass(eq=False)
class Actor:
    """One process."""

    name: str
    body: Callable[[], None]
    glet: Any = None
    calls: int = 0
    crash_at: int | None = None
    crash_after_effect: bool = False
    dying: bool = False
    over: bool = False
    on_end: Callable[[Actor, bool], None] | None = None


@dataclass
class Hub:
    """The world's time and whose turn it is."""

    seed: int
    switch_chance: float = 0.0
    elapsed: float = 0.0
    events: list[tuple[float, float, int, Callable[[], None]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(f"hub {self.seed}")
        self._count = 0
        self._main = getcurrent()
        self.actors: list[Actor] = []

    def say(self, text: str) -> None:
        self.log.append(f"{self.elapsed:9.1f} {text}")

    def at(self, when: float, act: Callable[[], None]) -> None:
        self._count += 1
        # Of what is due at the same moment, chance decides which comes first.
        heapq.heappush(self.events, (max(when, self.elapsed), self.random.random(), self._count, act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.elapsed + seconds, act)

    @property
    def current(self) -> Actor | None:
        here = getcurrent()
        return next((actor for actor in self.actors if actor.glet is here), None)

    def spawn(self, name: str, body: Callable[[], None], **fields: Any) -> Actor:
        actor = Actor(name=name, body=body, **fields)
        actor.glet = greenlet(lambda: self._live(actor), parent=self._main)
        self.actors.append(actor)
        self.at(self.elapsed, lambda: self._resume(actor))
        return actor

    def _live(self, actor: Actor) -> None:
        crashed = False
        try:
            actor.body()
        except CrashHere:
            crashed = True
            self.say(f"{actor.name} is killed at its call {actor.calls}")
        finally:
            actor.over = True
            self.actors.remove(actor)
        if actor.on_end is not None:
            actor.on_end(actor, crashed)

    def _resume(self, actor: Actor) -> None:
        if not actor.over:
            actor.glet.switch()

    def kill(self, actor: Actor) -> None:
        """SIGKILL, wherever the actor is. Not to be called by itself."""
        if actor.over:
            return
        actor.dying = True
        if actor.glet:  # has begun
            actor.glet.parent = getcurrent()  # where its death returns to
            actor.glet.throw(CrashHere)
        else:
            actor.over = True
            self.actors.remove(actor)
            if actor.on_end is not None:
                actor.on_end(actor, True)

    def sleep(self, seconds: float) -> None:
        actor = self.current
        if actor is None:  # the world itself waits
            self.run(self.elapsed + seconds)
            return
        if actor.dying:
            raise CrashHere
        self.after(max(seconds, 0.0), lambda: self._resume(actor))
        self._main.switch()

    def before_call(self, what: str) -> None:
        """A call is about to leave the current actor: it may be killed or overtaken here."""
        actor = self.current
        if actor is None:
            return
        if actor.dying:
            raise CrashHere
        actor.calls += 1
        if actor.calls == actor.crash_at and not actor.crash_after_effect:
            self._die(actor, f"before {what}")
        if self.switch_chance and self.random.random() < self.switch_chance:
            self.sleep(self.random.choice((0.0, 0.0, 0.3, 2.0)))

    def after_call(self, what: str) -> None:
        """The call had its effect, its answer comes back."""
        actor = self.current
        if actor is None:
            return
        if actor.dying:
            raise CrashHere
        if actor.calls == actor.crash_at:
            self._die(actor, f"after {what}")

    def _die(self, actor: Actor, where: str) -> None:
        self.say(f"{actor.name} dies {where}")
        actor.dying = True
        raise CrashHere

    def run(self, until: float, *, done: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; True when ``done`` came true before."""
        while self.events and self.events[0][0] <= until:
            when, _, _, act = heapq.heappop(self.events)
            self.elapsed = max(self.elapsed, when)
            act()
            if done():
                return True
        self.elapsed = max(self.elapsed, until)
        return done()


@dataclass
class HubClock:
    """The clock of one machine: its wall clock may be wrong or jump, its monotonic clock is the world's."""

    hub: Hub
    skew_s: float = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.hub.elapsed + self.skew_s)

    def monotonic(self) -> float:
        return self.hub.elapsed

    def sleep(self, seconds: float) -> None:
        self.hub.sleep(seconds)
