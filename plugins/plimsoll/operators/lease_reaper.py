"""End leases that no live run owns: the layer that works when all others were killed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from include.core.clock import SystemClock
from include.core.contracts.lease import Lease, LeaseState
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.run_context import word_of

_LIVE_RUNS = ("queued", "running")


class LeaseReaperOperator(BaseOperator):
    """Ends leases that are past their expiry or whose run is over. What cannot be read is left alone.

    A lease of such a run that has ended by itself, or whose launch was announced but never made, is still open in the
    ledger and counts against the quota: it is settled too.

    Args:
        max_leases: Most leases one pass may end; more is refused, since it smells of a wrong answer somewhere.
        dry_run: Only report; ``true`` as a word is as good.
    """

    template_fields: ClassVar[Sequence[str]] = ("dry_run",)

    def __init__(self, *, max_leases: int = 50, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_leases = max_leases
        self.dry_run = dry_run

    def execute(self, context: Any) -> dict[str, str]:
        """Find orphans by tag, end them, settle their charges."""
        installation = connect()
        suspects = _alive_or_open(installation)
        dry_run = str(self.dry_run).lower() == "true"
        orphans = {lease.lease_id: why for lease in suspects if (why := self._orphaned(lease, context))}
        if len(orphans) > self.max_leases:
            raise RuntimeError(
                f"{len(orphans)} orphaned leases, limit {self.max_leases}; look before raising the limit"
            )
        for lease_id, why in orphans.items():
            self.log.warning("lease %s: %s%s", lease_id, why, " (dry run)" if dry_run else "")
            if not dry_run:
                self._end(installation, lease_id, why)
        return orphans

    def _orphaned(self, lease: Lease, context: Any) -> str:
        """Why a lease has no right to live; empty when it has one. The shared control lease has no run."""
        if lease.expires_at is not None and lease.expires_at < SystemClock().now().timestamp():
            return "expired"
        if not lease.run_id:
            return ""
        try:
            state = word_of(context["ti"].get_dagrun_state(lease.dag_id, lease.run_id))
        except Exception as error:  # noqa: BLE001 - unreadable means: leave it alone, whatever the reason
            self.log.warning("cannot read the state of %s %s, leaving its lease: %s", lease.dag_id, lease.run_id, error)
            return ""
        return "" if state in _LIVE_RUNS else f"its run is {state}"

    @staticmethod
    def _end(installation: Installation, lease_id: str, why: str) -> None:
        from include.compute.settlement import settle_lease

        installation.engine.stop(lease_id, reason=f"reaper: {why}")
        settle_lease(store=installation.store, ledger=installation.ledger, lease_id=lease_id, reason=f"reaper: {why}")


def _alive_or_open(installation: Installation) -> Iterable[Lease]:
    """Leases that live by the engine, and those that the ledger holds for open."""
    found = {lease.lease_id: lease for lease in installation.engine.find() if lease.state is not LeaseState.ENDED}
    for entry in installation.ledger.open_leases():
        if entry.lease_id not in found:
            # Without an expiry: as long as the run lives, its own recovery settles a lease that has ended.
            described = installation.engine.describe(entry.lease_id)
            found[entry.lease_id] = replace(described, dag_id=entry.dag_id, run_id=entry.run_id, expires_at=None)
    return found.values()
