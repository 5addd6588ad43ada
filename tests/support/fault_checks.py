"""What must hold after a random fault sequence."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

from include.compute.lease_keys import LeaseKeys

if TYPE_CHECKING:
    from tests.support.fault_world import World


def leaks(world: World) -> list[str]:
    """What still lives, was there twice, or is open in the books."""
    counters, found = world.double.counters, []
    if counters.get("instances_started", 0) != counters.get("instances_ended", 0):
        live = [f"{i.instance_id} of {i.tags.get('plimsoll:lease')}" for i in world.double.instances() if i.is_live]
        found.append(f"leak: started {counters['instances_started']}, ended {counters.get('instances_ended')}: {live}")
    found += [f"duplicate: {text}" for text in dict.fromkeys(world.duplicates)]
    *_, ledger = world.driver()
    found += [f"open in the ledger: {lease}" for lease in ledger.open_leases()]
    if ledger.queue():
        found.append(f"still queued: {ledger.queue()}")
    return found


def losses(world: World) -> list[str]:
    """Commits and results that were lost or made twice."""
    record = world.record
    found = [f"begun after a result: {text}" for text in record.begun_after_result]
    found += [f"{base} began at {at}, committed {safe}" for base, at, safe in record.resumed if at < safe]
    for run in world.runs:
        steps = [
            int(key.rpartition("/checkpoints/step-")[2].partition("-")[0])
            for key in world.content.objects
            if key.startswith(f"{run.prefix}/checkpoints")
        ]
        if max(steps, default=0) != record.commits.get(run.prefix, 0):
            found.append(f"run {run.number} lost a commit: {max(steps, default=0)} of {record.commits[run.prefix]}")
        if run.outcome == "done" and (run.result is None or run.result.get("step") != run.steps):
            found.append(f"run {run.number} is done with result {run.result}")
    return found


def accounts(world: World) -> list[str]:
    """To the cent. Where neither EC2 nor the agent dates an end, the first look stands in: never less is charged."""
    *_, ledger = world.driver()
    bill, undated = _bill(world)
    charged = {
        charge.lease_id: charge.effective_cost_usd or Decimal(0)
        for run in world.runs
        for charge in ledger.charges(dag_id=run.dag_id, run_id=run.run_id)
    }
    wrong = []
    for lease in sorted({*bill, *charged}):
        over = charged.get(lease, Decimal(0)) - bill.get(lease, Decimal(0))
        if abs(over) >= Decimal("0.005") and not (over > 0 and lease in undated):
            wrong.append(f"account of {lease}: charged {charged.get(lease)}, billed {bill.get(lease)}")
    return wrong


def _bill(world: World) -> tuple[dict[str, Decimal], set[str]]:
    """US dollars by lease, and the leases with an instance whose end nobody dates."""
    bill: dict[str, Decimal] = {}
    undated = set()
    for line, instance in zip(world.double.bill(), world.double.instances(), strict=True):
        lease = instance.tags.get("plimsoll:lease", "")
        bill[lease] = bill.get(lease, Decimal(0)) + (line.usd or Decimal(0))
        beat = json.loads(world.content.objects.get(LeaseKeys(lease).heartbeat, (b"{}", None))[0])
        if instance.reason is not None and not instance.reason.transition and beat.get("state") != "ended":
            undated.add(lease)
    return bill, undated
