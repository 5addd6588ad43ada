"""The worker wheel: the engine alone, with the worker's dependencies."""

import subprocess
import sys
import zipfile
from email import message_from_bytes

import pytest

from stack.installation import REPO


def requirements():
    lines = (line.partition("#")[0].strip() for line in (REPO / "requirements/worker.in").read_text().splitlines())
    return [line for line in lines if line]


@pytest.mark.integration
def test_the_wheel_holds_the_engine_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(REPO)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        info = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
        metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
        scripts = wheel.read(f"{info}/entry_points.txt").decode()
    assert {name.partition("/")[0] for name in names} == {"include", info}
    assert not [name for name in names if name.endswith(".pyc")]
    for needed in ("include/compute/agent.py", "include/jobs/__main__.py", "include/catalog/aws_offers.json"):
        assert needed in names
    assert metadata["Name"] == "plimsoll-worker"
    found = {str(value).replace(" ", "") for value in metadata.get_all("Requires-Dist")}
    assert found == {line.replace(" ", "") for line in requirements()}
    assert "plimsoll-agent = include.compute.agent:main" in scripts
