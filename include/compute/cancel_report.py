"""What a cancellation did and what it proved, as JSON and in lines for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReport:
    """Outcome of a cancellation.

    Attributes:
        dag_id: DAG of the run.
        run_id: The run.
        airflow: What became of the run in Airflow, for people.
        ended: How each lease ended that this call found alive or open.
        removed: Resources on EC2 that this call ended.
        left: What still is there, asked last of all; empty is the proof.
        problems: What could not be asked or ended; with one of them nothing is proved.
        looked_at: Where the command has looked, for people: the proof covers that.
    """

    dag_id: str
    run_id: str
    airflow: str
    ended: dict[str, str]
    removed: tuple[str, ...]
    left: tuple[str, ...]
    problems: tuple[str, ...]
    looked_at: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether nothing of the run costs money."""
        return not self.left and not self.problems

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        names = ("dag_id", "run_id", "airflow", "ended", "removed", "left", "problems", "looked_at", "proved")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"run {self.run_id} of {self.dag_id}: {self.airflow}"]
        lines += [f"lease {lease}: {how}" for lease, how in sorted(self.ended.items())]
        lines += [f"ended {what}" for what in self.removed]
        lines += [f"left: {what}" for what in self.left]
        lines += [f"problem: {problem}" for problem in self.problems]
        lines += [f"looked at: {'; '.join(self.looked_at)}"] if self.looked_at else []
        proof = "nothing of the run is left" if self.proved else "it is not proved that nothing is left"
        return [*lines, proof]
