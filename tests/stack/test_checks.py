"""`make test`: every part runs, the total tells the truth, pytest's closing lines stand at the end."""

import re

import pytest

from stack import checks
from stack.checks import Outcome, Part, report, run_part
from stack.installation import REPO


@pytest.fixture
def binaries(tmp_path):
    """Pretended programs: each prints its text and leaves with its status."""

    def add(name, text, status):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{text}'\nexit {status}\n")
        path.chmod(0o755)

    add("good", "fine", 0)
    add("bad", "oh no", 1)
    add("pytest", "....\n===== 4 passed, 1 skipped in 0.52s =====", 0)
    return tmp_path


def run(binaries, *commands):
    part = Part(name="p", commands=commands)
    return run_part(part, {"PATH": "/usr/bin:/bin"}, folder=binaries, binaries=binaries)


def test_all_commands_run_even_after_a_failure(binaries, capsys):
    outcome = run(binaries, ("bad",), ("good",))
    assert not outcome.passed
    assert "fine" in capsys.readouterr().out


def test_closing_lines_are_kept(binaries):
    outcome = run(binaries, ("pytest",))
    assert outcome.passed
    assert outcome.closing == ("===== 4 passed, 1 skipped in 0.52s =====",)


def test_a_selection_without_a_test_is_a_failure_and_said(binaries, capsys):
    (binaries / "pytest").write_text("#!/bin/sh\nexit 5\n")
    assert not run(binaries, ("pytest",)).passed
    assert "holds no test" in capsys.readouterr().out


def test_the_report_adds_up():
    outcomes = [
        Outcome(name="lint", seconds=60, passed=True, closing=()),
        Outcome(name="unit", seconds=90, passed=False, closing=("= 2 failed, 10 passed, 1 error in 3.00s =",)),
        Outcome(name="stack", seconds=30, passed=True, closing=("= 5 passed, 1 skipped in 1.00s =",)),
    ]
    lines = report(outcomes).splitlines()
    assert "unit                 1.50  FAILED" in lines
    assert "total                3.00" in lines
    assert lines[-3:-1] == [outcomes[1].closing[0], outcomes[2].closing[0]]
    assert lines[-1] == "15 passed, 3 failed, 1 skipped"


def test_the_parts_cover_every_marker_and_overlap_nowhere():
    selections = [checks.PARTS[name].commands[0][-1] for name in checks.SETS["test"] if name != "lint"]
    cases = [
        set(),
        {"integration"},
        {"drill"},
        {"drill", "integration"},
        {"stack"},
        {"e2e"},
        {"stack", "integration"},
        {"stack", "drill", "e2e"},
    ]
    for marks in cases:
        names = {name: name in marks for name in ("integration", "drill", "stack", "e2e", "long", "gpu")}
        taken = [selection for selection in selections if eval(selection, {}, names)]
        assert len(taken) == 1, (marks, taken)


def test_the_drills_that_need_the_stack_are_in_their_own_set():
    names = {"drill": True, "stack": True, "integration": False, "e2e": False, "long": False, "gpu": False}
    assert eval(checks.PARTS["all drills"].commands[0][-1], {}, names)
    assert not any(eval(checks.PARTS[n].commands[0][-1], {}, names) for n in checks.SETS["test"] if n != "lint")


def test_the_most_telling_drills_of_the_stack_are_in_both_sets():
    names = {"drill": True, "stack": True, "integration": False, "e2e": True, "long": False, "gpu": False}
    assert eval(checks.PARTS["all drills"].commands[0][-1], {}, names)
    assert eval(checks.PARTS["stack"].commands[0][-1], {}, names)


@pytest.mark.parametrize("room", ["e2e", "integration", "drill"])
def test_long_runs_belong_to_the_full_set_alone(room):
    names = {"drill": False, "stack": False, "integration": False, "e2e": False, "long": True, "gpu": False, room: True}
    assert eval(checks.PARTS["all drills"].commands[0][-1], {}, names)
    assert not any(eval(checks.PARTS[n].commands[0][-1], {}, names) for n in checks.SETS["test"] if n != "lint")


def test_the_exit_status_follows_the_parts(binaries, monkeypatch, capsys):
    monkeypatch.setattr(checks, "_BIN", binaries)
    monkeypatch.setattr(
        checks, "run_part", lambda part, env: Outcome(name=part.name, seconds=0, passed=part.name != "unit", closing=())
    )
    assert checks.main(["lint"]) == 0
    assert checks.main(["test-fast"]) == 1


def test_marked_tests_are_where_their_parts_look_for_them():
    elsewhere = [
        path
        for path in (REPO / "tests").rglob("test_*.py")
        if path.relative_to(REPO / "tests").parts[0] not in ("e2e", "drills")
    ]
    marks = re.compile(r"pytest\.mark\.(drill|stack|e2e)\b")
    assert elsewhere
    assert [str(path) for path in elsewhere if marks.search(path.read_text())] == []
