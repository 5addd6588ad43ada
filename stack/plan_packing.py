"""``make plan PACKING=<file>``: which models share which GPU, how, and the configuration that makes it. No Airflow."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from include.core.errors import UserError
from include.core.exit_codes import ExitCode
from include.core.json_codec import to_json
from include.sizing.packing import pack
from include.sizing.packing_answer import Packing, Utilisation
from include.sizing.packing_file import load_packing


def print_packing(found: Packing, console: Console) -> None:
    """The answer for people."""
    console.rule(f"{found.name}: {found.devices} devices, {found.isolation}", align="left")
    console.print(_table(found))
    for label, text in lines(found):
        console.print(f"{label:14} {text}", markup=False, highlight=False, soft_wrap=True)
    for file in found.configurations:
        console.print(f"\n# {file.tool}: {file.applies_to}", markup=False, highlight=False, soft_wrap=True)
        console.print(file.text.rstrip(), markup=False, highlight=False, soft_wrap=True)


def _table(found: Packing) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("device", "model", "partition", "starts at"):
        table.add_column(name, no_wrap=True)
    table.add_column("memory", justify="right")
    table.add_column("compute", justify="right")
    loads = {load.device: load for load in found.loads}
    last = ""
    for place in found.placements:
        load = loads[place.device]
        first = place.device != last
        table.add_row(
            place.device if first else "",
            f"{place.model}/{place.replica}",
            place.profile or "",
            "" if place.start is None else str(place.start),
            f"{load.memory:.0%}" if first else "",
            f"{load.compute:.0%}" if first else "",
        )
        last = place.device
    return table


def lines(found: Packing) -> list[tuple[str, str]]:
    """Label and text of what stands below the table."""
    proof = "no answer is better" if found.proven else "a better one may exist"
    bound = f"at least {found.at_least} devices are needed for what was placed"
    rows = [("Solver", f"{found.solver}: {proof}; {bound}")]
    rows += [("Before", _in_words(found.before)), ("After", _in_words(found.after))]
    if found.placements:
        rows += [("Keeps apart", found.placements[0].keeps_apart), ("Does not", found.placements[0].does_not)]
    rows += [("LEFT OUT", f"{left.model}/{left.replica}: {left.reason}") for left in found.left_out]
    return [*rows, *(("Note", note) for note in found.notes)]


def _in_words(use: Utilisation | None) -> str:
    if use is None:
        return "nothing was placed"
    return f"{use.devices} devices, on average {use.memory:.0%} of the memory and {use.compute:.0%} of the compute used"


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one packing file; the exit status is 64 for a mistake in it, 1 where something is left out."""
    parser = argparse.ArgumentParser(prog="make plan", description=__doc__)
    parser.add_argument("file", type=Path, help="the packing file")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    options = parser.parse_args(arguments)
    try:
        found = pack(load_packing(options.file))
    except UserError as error:
        print(error, file=sys.stderr)
        return ExitCode.BAD_INPUT
    if options.json:
        print(json.dumps(to_json(found)))
    else:
        print_packing(found, Console())
    return 1 if found.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
