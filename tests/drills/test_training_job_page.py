"""The commands of the how-to page on training jobs, as a reader would run them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from include.config.settings import REPO

PAGE = REPO / "docs" / "how-to" / "run-a-training-job.md"


@pytest.mark.drill
@pytest.mark.long
def test_the_commands_of_the_page_train_a_language_model(tmp_path: Path) -> None:
    commands = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL))
    commands = commands.replace("/tmp/plimsoll-example", str(tmp_path)).replace(".venv/bin/python", sys.executable)
    answer = subprocess.run(["bash", "-e", "-c", commands], cwd=REPO, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    result = json.loads((tmp_path / "store/runs/book/first/jobs/train-1/result.json").read_text())
    assert result["steps"] == 40
    assert result["metrics"]["validation_perplexity"] < 100
