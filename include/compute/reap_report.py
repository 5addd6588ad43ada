"""What one pass of the reaper did, as small JSON and as a table for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from include.compute.reap_plan import Verdict

# Of what is kept, the first ones and their number say enough.
_MOST_KEPT = 20
# The JSON goes through Airflow's XCom, so that each list in it has an end; the log has all of it.
_MOST_ENDED = 50
_MOST_REMOVED = 40
_MOST_PROBLEMS = 10
_LONGEST_PROBLEM = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapReport:
    """Outcome of one pass.

    Attributes:
        at: ISO time of the pass.
        dry_run: Whether it only looked.
        end: What it ended, or would end.
        keep: What it left alone.
        refused: Why it did nothing, empty where it acted.
        removed: Resources on EC2 that it ended.
        problems: What could not be asked or ended.
    """

    at: str
    dry_run: bool
    end: tuple[Verdict, ...]
    keep: tuple[Verdict, ...]
    refused: str = ""
    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def failed(self) -> str:
        """Why the pass as a whole failed, empty when it did not. A dry run is refused nothing."""
        return "; ".join(filter(None, ("" if self.dry_run else self.refused, *self.problems)))

    @property
    def ended(self) -> dict[str, str]:
        """Reason by lease that was ended, or that a dry run would end."""
        return {verdict.lease.lease_id: verdict.why for verdict in self.end if verdict.whole}

    def to_json(self) -> dict[str, Any]:
        """What matters most, below 10 kB whatever was found; the counts are whole where the lists are not."""
        ended = {} if self.refused else self.ended
        suspect = {v.lease.lease_id or "no lease": v.why for v in self.keep if v.suspect}
        return {
            "at": self.at,
            "dry_run": self.dry_run,
            "ended": dict(islice(ended.items(), _MOST_ENDED)),
            "removed": list(self.removed[:_MOST_REMOVED]),
            "suspect": dict(islice(suspect.items(), _MOST_KEPT)),
            "refused": self.refused,
            "problems": [problem[:_LONGEST_PROBLEM] for problem in self.problems[:_MOST_PROBLEMS]],
            "counts": {
                "ended": len(ended),
                "removed": len(self.removed),
                "suspect": len(suspect),
                "kept": len(self.keep),
                "problems": len(self.problems),
            },
        }

    def table(self) -> str:
        """Lines for people: one per lease, what is ended first."""
        verb = "would end" if self.dry_run else "not ended" if self.refused else "ended"
        rows = [*_rows(verb, self.end), *_rows("kept", self.keep[:_MOST_KEPT])]
        lines = _aligned([("", "lease", "run", "why", "on EC2"), *rows]) if rows else ["nothing is rented"]
        if more := len(self.keep) - _MOST_KEPT:
            lines += [f"and {more} more are kept"] if more > 0 else []
        lines += [f"refused: {self.refused}"] if self.refused else []
        return "\n".join([*lines, *(f"problem: {problem}" for problem in self.problems)])


def _rows(verb: str, verdicts: Iterable[Verdict]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for verdict in verdicts:
        lease = verdict.lease
        run = f"{lease.dag_id}/{lease.run_id}" if lease.run_id else "-"
        what = verdict.resources or lease.resources
        on_ec2 = ", ".join(str(item) for item in what) or "-"
        rows.append((f"{verb}{' !' if verdict.suspect else ''}", lease.lease_id or "-", run, verdict.why, on_ec2))
    return rows


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
