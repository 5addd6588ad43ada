"""The set-up of the Python environment, with a pretended Python whose pip and venv do what the test says."""

import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

from stack import environment
from stack.environment import FOLDERS, Environment, Progress, SetupError, reason
from stack.installation import REPO

# Stands for every program of the environment: writes down how it was called, and fails where the test says so.
PROGRAM = """#!/bin/sh
echo "$@" >> {root}/calls
if [ -f {root}/fail ] && echo "$@" | grep -q "$(cat {root}/fail)"; then cat {root}/message; exit 1; fi
echo "Collecting something"
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A source tree with requirements; creating its environment lays down the pretended programs."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements.txt").write_text("a==1\n")
    (tmp_path / "requirements/dev.txt").write_text("a==1\nb==2\n")
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(root=tmp_path))
    program.chmod(0o755)
    real = environment.run_step

    def step(what, command, progress):
        if command[1:3] == ["-m", "venv"]:
            folder = tmp_path / ".venv" / "bin"
            folder.mkdir(parents=True)
            for name in ("python", "uv"):
                (folder / name).symlink_to(program)
            command = [str(program), "venv"]
        real(what, command, progress)

    monkeypatch.setattr(environment, "run_step", step)
    monkeypatch.setattr(environment, "_FREE_BYTES", 0)
    return tmp_path


def calls(tree):
    path = tree / "calls"
    return path.read_text().splitlines() if path.exists() else []


def break_at(tree, pattern, message):
    (tree / "fail").write_text(pattern)
    (tree / "message").write_text(message)


def test_torch_comes_first_and_the_packages_are_byte_compiled(tree):
    assert Environment(tree).set_up("run", Progress())
    made = calls(tree)
    assert [call.split()[-1] for call in made[:3]] == ["venv", "torch==2.13.0", environment.UV]
    assert made[3].startswith("pip install --python")
    assert "--compile-bytecode" in made[3]
    assert made[3].endswith("requirements.txt")


def test_the_second_set_up_does_nothing(tree):
    Environment(tree).set_up("run", Progress())
    before = calls(tree)
    assert not Environment(tree).set_up("run", Progress())
    assert calls(tree) == before


def test_where_torch_comes_from_can_be_set(tree):
    Environment(tree, torch="/wheels/torch.whl", torch_index="https://index.example").set_up("run", Progress())
    assert "--index-url https://index.example /wheels/torch.whl" in calls(tree)[1]
    assert not Environment(tree).is_current("run")


def test_changed_pins_are_installed_into_the_same_environment(tree):
    Environment(tree).set_up("run", Progress())
    (tree / "requirements.txt").write_text("a==2\n")
    assert Environment(tree).set_up("run", Progress())
    assert sum(call == "venv" for call in calls(tree)) == 1


def test_the_checks_environment_serves_a_run_too_but_not_the_other_way_round(tree):
    Environment(tree).set_up("test", Progress())
    assert Environment(tree).is_current("run")
    (tree / "requirements.txt").write_text("a==3\n")
    Environment(tree).set_up("run", Progress())
    assert not Environment(tree).is_current("test")


def test_an_interrupted_set_up_is_noticed_and_begun_again_from_nothing(tree, capsys):
    break_at(tree, "compile-bytecode", "some failure")
    with pytest.raises(SetupError):
        Environment(tree).set_up("run", Progress())
    (tree / ".venv/half-written").touch()
    assert not Environment(tree).is_current("run")
    (tree / "fail").unlink()
    assert Environment(tree).set_up("run", Progress())
    assert not (tree / ".venv/half-written").exists()
    assert Environment(tree).is_current("run")
    assert "interrupted: starting over" in capsys.readouterr().out


def test_a_folder_without_a_working_python_is_replaced(tree):
    (tree / ".venv").mkdir()
    (tree / ".venv/rubbish").touch()
    Environment(tree).set_up("run", Progress())
    assert not (tree / ".venv/rubbish").exists()


def test_a_damaged_stamp_counts_as_none(tree):
    Environment(tree).set_up("run", Progress())
    (tree / ".venv/plimsoll-stamp.json").write_text("{")
    assert not Environment(tree).is_current("run")
    (tree / ".venv/plimsoll-stamp.json").write_text(json.dumps([1]))
    assert not Environment(tree).is_current("run")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution",
            "index cannot be reached",
        ),
        ("The virtual environment was not created because ensurepip is not available.", "apt-get install python3-venv"),
        ("warming up\nERROR: No matching distribution found for a==1\n", "No matching distribution found for a==1"),
        ("something odd", "something odd"),
    ],
)
def test_a_failure_is_one_clear_line(tree, message, expected):
    break_at(tree, "compile-bytecode", message)
    with pytest.raises(SetupError) as caught:
        Environment(tree).set_up("run", Progress())
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_last_error_is_the_reason():
    assert reason(["error: first", "note", "error: second", "at end"]) == "error: second"


def test_too_little_disk_is_said_before_anything_is_downloaded(tree, monkeypatch):
    monkeypatch.setattr(environment, "_FREE_BYTES", 1 << 60)
    with pytest.raises(SetupError, match="GiB are free on the disk"):
        Environment(tree).set_up("run", Progress())
    assert calls(tree) == []


def test_a_program_that_does_not_exist_is_one_line(tree):
    with pytest.raises(SetupError, match="trying failed: No such file or directory"):
        environment.run_step("trying", [str(tree / "nothing")], Progress())


@pytest.mark.parametrize("version", [(3, 10, 9), (3, 14, 0)])
def test_another_python_is_refused(version, monkeypatch):
    monkeypatch.setattr(environment.sys, "version_info", version)
    with pytest.raises(SetupError, match=r"Python 3\.11 to 3\.13 is needed, this is 3\.1"):
        environment.check_python()


def test_two_set_ups_of_one_tree_wait_for_each_other(tree, capsys):
    (tree / "var").mkdir()
    with (tree / "var/setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=lambda: Environment(tree).set_up("run", Progress()))
        other.start()
        while "waiting for it" not in capsys.readouterr().out:
            assert other.is_alive()
        assert calls(tree) == []
    other.join(20)
    assert Environment(tree).is_current("run")


def test_byte_code_is_kept_whatever_the_surroundings_say(tree, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    seen = tree / "seen"
    environment.run_step("looking", ["sh", "-c", f"env > {seen}"], Progress())
    assert "PYTHONDONTWRITEBYTECODE" not in seen.read_text()


def test_the_set_up_runs_on_a_bare_python_without_any_package():
    code = (
        "import sys, stack.environment; print([n for n in sys.modules if n.split('.')[0] in ('pydantic', 'include')])"
    )
    bare = {"PATH": os.environ["PATH"]}
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(environment.REPO)!r}); {code}"],
        capture_output=True,
        text=True,
        env=bare,
        check=False,
    )
    assert answer.stdout == "[]\n", answer.stderr


def test_the_peers_of_benches_live_apart_and_bring_no_package_of_another_torch():
    environment = Environment(REPO, folder=FOLDERS["bench"])
    assert environment.folder == REPO / ".venv-bench"
    assert list(environment.wanted("bench")) == ["bench"]
    (_, torch), _, (_, packages) = environment.commands("bench")
    assert torch[-1] == environment.torch
    assert "--no-deps" in packages
    assert packages[-1] == str(REPO / "requirements/bench.txt")
    assert "torchvision" not in (REPO / "requirements/bench.txt").read_text()
