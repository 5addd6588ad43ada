"""Whether anybody knows a run: the proof that nothing of it is left is worth nothing for a run that never was."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from include.compute.damage import sort_out
from include.compute.ec2 import tags as tag
from include.compute.holdings import Holdings
from include.compute.lease_keys import ROOT, lease_of
from include.core.errors import UserError
from include.core.ids import group_id, run_prefix

# Groups that a run may have; more are found in the ledger and by tag.
GROUPS = ("train", "work")


def is_known(
    holdings: Holdings,
    *,
    dag_id: str,
    run_id: str,
    in_airflow: Callable[[], bool | None],
    also_alive: Callable[[], Iterable[str]] = tuple,
) -> bool:
    """Whether ledger, store, EC2's tags, the engines, the process table or Airflow have heard of a run.

    A witness that cannot be asked may know it, so the run counts as known then, and the cancellation tells what it
    could not ask.

    Args:
        holdings: Whom to ask.
        dag_id: DAG of the run.
        run_id: The run.
        in_airflow: Whether Airflow has it; False also where Airflow does not run, None where it does not say.
        also_alive: Leases that another witness holds for alive.
    """
    groups = {group_id(dag_id=dag_id, run_id=run_id, group=name) for name in GROUPS}

    def in_ledger() -> bool:
        return bool(holdings.ledger.events(dag_id=dag_id, run_id=run_id, limit=1))

    def in_store() -> bool:
        if holdings.store_answers():
            return True
        if any(lease_of(key).rpartition("-g")[0] in groups for key, _ in holdings.store.list(ROOT)):
            return True
        return any(True for _ in holdings.store.list(run_prefix(workload=dag_id, run_id=run_id)))

    def by_tag() -> bool:
        named = [(item.tags.get(tag.DAG, ""), item.tags.get(tag.RUN, "")) for item in holdings.resources()]
        return (dag_id, run_id) in named

    def by_engine() -> bool:
        found, _ = sort_out(holdings.engine.find)
        return any(each.group_id in groups or (each.dag_id, each.run_id) == (dag_id, run_id) for each in found)

    def by_process() -> bool:
        return any(each.rpartition("-g")[0] in groups for each in also_alive())

    def by_airflow() -> bool:
        return in_airflow() is not False

    return any(_says_yes(ask) for ask in (in_ledger, in_store, by_airflow, by_tag, by_engine, by_process))


def _says_yes(ask: Callable[[], bool]) -> bool:
    try:
        return ask()
    except UserError:  # a name that can be no key of the store
        return False
    except Exception:  # noqa: BLE001 - who cannot be asked may know it; the cancellation tells why not
        return True
