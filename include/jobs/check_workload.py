"""``python -m include.jobs.check_workload FILE...``: every mistake of a workload file that shows without a run.

The file itself is checked first. Then its data, where it is at hand: everything that ``prepare`` would refuse and every
expectation that cannot be evaluated. Data in an object store is not fetched, nor are local files beyond 256 MiB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from include.config.data_section import DataSection, UriSource
from include.config.loader import load_beside
from include.config.settings import Settings
from include.core.errors import UserError
from include.core.exit_codes import ExitCode
from include.data.expectations import check_arguments
from include.data.location import is_local, size_on_disk
from include.data.prepare import split_rows
from include.data.quality import row_columns, workload_checks
from include.data.sources import open_source, roots_of

LARGEST_READ_BYTES = 256 * 2**20


def _check_data(data: DataSection, roots: tuple[Path, ...]) -> str:
    """Look at the data as far as it is at hand; returns what was seen.

    Raises:
        DataError: The data or an expectation cannot be used.
    """
    if isinstance(data.source, UriSource):
        if not is_local(data.source.uri):
            return f"data not looked at: {data.source.uri} is in an object store"
        if size_on_disk(data.source.uri, roots=roots) > LARGEST_READ_BYTES:
            return f"data not looked at: more than {LARGEST_READ_BYTES // 2**20} MiB"
    rows = split_rows(open_source(data, roots=roots), data)
    if data.expectations:
        check_arguments(workload_checks(data, row_columns(rows.manifest)))
    counts = ", ".join(f"{table.num_rows} {split}" for split, table in rows.splits.items())
    return f"rows: {counts}; {len(rows.manifest.classes)} classes, {len(rows.manifest.features)} input columns"


def check_file(path: Path, *, settings: Settings) -> str:
    """Check one workload file.

    Returns:
        What was found to be right, in one line.

    Raises:
        UserError: The file or its data cannot be used.
    """
    workload = load_beside(path)
    roots = roots_of(data_roots=settings.data_roots, store_url=settings.store)
    return f"workload {workload.name!r}; {_check_data(workload.data, roots)}"


def main(arguments: Sequence[str], *, write: Callable[[str], object] = sys.stdout.write) -> ExitCode:
    """Check all files, one report each.

    Args:
        arguments: Workload files.
        write: Where the report goes.
    """
    # `make check-workload` without FILE hands over one empty argument.
    if not arguments or not all(arguments):
        write("usage: make check-workload FILE=path/to/file.yaml, or python -m include.jobs.check_workload FILE...\n")
        return ExitCode.BAD_INPUT
    try:
        settings = Settings.from_environment()
    except UserError as error:
        write(f"{error}\n")
        return ExitCode.BAD_INPUT
    code = ExitCode.DONE
    for name in arguments:
        try:
            write(f"OK {name}: {check_file(Path(name), settings=settings)}\n")
        except UserError as error:
            write(f"{name}: {error}\n")
            code = ExitCode.BAD_INPUT
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
