"""``make check-workload``: the file and, where it is at hand, its data."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from include.config.settings import REPO
from include.jobs.check_workload import main

BROKEN = REPO / "tests" / "include" / "config" / "broken"


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Run the command on files; returns exit code and report."""
    monkeypatch.setenv("PLIMSOLL_DATA_ROOTS", f"{BROKEN / 'tables'}:{tmp_path / 'data'}")
    monkeypatch.setenv("PLIMSOLL_STORE", f"file://{tmp_path / 'store'}")

    def run(*files: Path) -> tuple[int, str]:
        lines: list[str] = []
        code = main([str(file) for file in files], write=lines.append)
        return code, "".join(lines)

    return run


def changed(tmp_path: Path, **data) -> Path:
    raw = yaml.safe_load((REPO / "include" / "workloads" / "titanic.yaml").read_text())
    raw["data"].update(data)
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def test_the_shipped_workloads_are_right_with_their_data(check) -> None:
    folder = REPO / "include" / "workloads"
    code, report = check(folder / "digits.yaml", folder / "titanic.yaml")
    assert code == 0, report
    assert report.count("OK ") == 2
    assert "10 classes, 64 input columns" in report


def test_all_ten_broken_files_are_reported_in_one_go(check) -> None:
    files = sorted(BROKEN.glob("*.yaml"))
    code, report = check(*files)
    assert code == 64
    for file in files:
        assert f"{file}: " in report
    assert "OK" not in report


@pytest.mark.parametrize(
    ("data", "fragments"),
    [
        ({"label": "survivor"}, ["data.label", "survivor", "survived"]),
        ({"drop": ["title"]}, ["data.drop", "title", "name, class, age"]),
        (
            {"source": {"kind": "uri", "uri": "/etc/hostname"}},
            ["data.source.uri", "outside the data roots", "/etc/hostname", "paths under"],
        ),
        ({"source": {"kind": "uri", "uri": "absent.csv"}}, ["data.source.uri", "no such file", "absent.csv"]),
        (
            {"expectations": [{"type": "expect_column_values_to_be_betwixt"}]},
            ["data.expectations.0.type", "betwixt", "expect_column_values_to_be_between"],
        ),
        (
            {
                "expectations": [
                    {"type": "expect_column_values_to_be_between", "arguments": {"column": "age", "least": 1}}
                ]
            },
            ["data.expectations.0.arguments", "least", "extra fields not permitted"],
        ),
        (
            {"expectations": [{"type": "expect_column_values_to_be_unique", "arguments": {"column": "name"}}]},
            ["data.expectations.0.arguments", "name", "class, age, sex"],
        ),
        (
            {
                "expectations": [
                    {
                        "type": "expect_column_values_to_be_unique",
                        "arguments": {"column": "age", "row_condition": "age > 1"},
                    }
                ]
            },
            ["data.expectations.0.arguments.row_condition", "not allowed"],
        ),
    ],
)
def test_mistakes_about_the_data_name_the_key(check, tmp_path, data, fragments) -> None:
    path = changed(tmp_path, **data)
    code, report = check(path)
    assert code == 64
    assert len(report.splitlines()) == 1
    for fragment in (str(path), *fragments):
        assert fragment in report


def test_data_in_an_object_store_is_not_fetched(check, tmp_path) -> None:
    code, report = check(changed(tmp_path, source={"kind": "uri", "uri": "s3://nobody/t.csv"}))
    assert (code, "not looked at" in report) == (0, True)


def test_no_file_is_a_usage_error(check) -> None:
    code, report = check()
    assert (code, report.startswith("usage:")) == (64, True)


def test_an_empty_name_is_a_usage_error() -> None:
    lines: list[str] = []
    assert main([""], write=lines.append) == 64
    assert lines[0].startswith("usage: make check-workload FILE=")


@pytest.mark.parametrize("first", ["a.yaml", "z.yaml"])
def test_a_name_taken_by_a_file_beside_it_is_refused(check, tmp_path, first) -> None:
    path = changed(tmp_path)
    path.with_name(first).write_text(path.read_text())
    (tmp_path / "broken.yaml").write_text("name: [")
    code, report = check(path)
    assert code == 64
    assert f"name is taken by another file: {first}" in report
