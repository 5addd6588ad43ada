"""The Lightning script of the how-to page, as a reader would run it: interrupted, started again, and in one go."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from include.config.settings import REPO

PAGE = REPO / "docs" / "how-to" / "own-training-loop.md"
PYTHON = REPO / ".venv-bench" / "bin" / "python"


@pytest.fixture(scope="module")
def python() -> Path:
    """The environment that has Lightning; made here when it is not there yet."""
    subprocess.run(["python3", "-m", "stack.environment", "--profile", "bench"], cwd=REPO, check=True)
    return PYTHON


def run(python: Path, folder: Path, attempt: int, *, notice: bool = False) -> tuple[int, str]:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    script = folder / "script.py"
    # The marker of a notice lies there when the first step asks.
    told = "(job_dir / 'notice.json').write_text('{}')\n" if notice else ""
    script.write_text(found[1].replace("loop = OwnLoop(", f"{told}loop = OwnLoop("))
    answer = subprocess.run(
        [str(python), str(script), str(folder), str(attempt)],
        env={**os.environ, "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    last = answer.stdout.strip().splitlines()[-1].split(" weights ")
    return int(last[0].removeprefix("from ")), last[1]


@pytest.mark.drill
@pytest.mark.long
def test_the_lightning_script_of_the_page_goes_on_where_it_was(python: Path, tmp_path: Path) -> None:
    for name in ("broken", "whole"):
        (tmp_path / name).mkdir()
    first, weights = run(python, tmp_path / "broken", 1, notice=True)
    resumed, again = run(python, tmp_path / "broken", 2)
    finished, same = run(python, tmp_path / "broken", 3)
    _, straight = run(python, tmp_path / "whole", 1)
    assert (first, resumed, finished) == (0, 1, 40)
    assert weights != again
    assert again == same == straight
