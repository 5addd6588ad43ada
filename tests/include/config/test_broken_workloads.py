"""Ten broken workload files: one clear error each, and the valid files beside them still load."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from include.config.loader import load_folder, load_workload
from include.config.settings import REPO
from include.core.errors import WorkloadError

BROKEN = Path(__file__).parent / "broken"
# File -> key path, what was found, what is allowed.
IN_THE_FILE = {
    "missing_key": ("model:", "missing", "this key is required"),
    "wrong_type": ("training.epochs:", "'many'", "integer"),
    "unknown_key": ("training.learning_rate:", "0.01", "epochs, batch_size, optimizer, lr,"),
    "import_path": ("model.factory:", "'os.path:join'", "include.training.models"),
    "outside_the_roots": ("data.source.uri:", "'../../etc/accounts.csv'", "'..' is not allowed"),
    "negative_budget": ("limits.budget_usd:", "-1", "greater than 0"),
    "cron_nonsense": ("schedule.cron:", "'every monday'", "minute hour day month weekday"),
    "unknown_recipe": ("compression.recipes:", "static-int7", "onnx-fp32, static-int8"),
}
IN_THE_DATA = {
    "label_absent": ("data.label", "survivor", "name, class, age, sex, survived"),
    "empty_data": ("data.source", "0 rows", "at least one row"),
}


@pytest.mark.parametrize("name", IN_THE_FILE)
def test_a_mistake_in_the_file_is_one_line_with_place_finding_and_what_is_allowed(name) -> None:
    with pytest.raises(WorkloadError) as caught:
        load_workload(BROKEN / f"{name}.yaml")
    head, *mistakes = str(caught.value).splitlines()
    assert head == f"{name}.yaml: 1 mistake"
    assert len(mistakes) == 1
    for fragment in IN_THE_FILE[name]:
        assert fragment in mistakes[0]


def test_there_are_ten_broken_files_and_no_other() -> None:
    assert {path.stem for path in BROKEN.glob("*.yaml")} == IN_THE_FILE.keys() | IN_THE_DATA.keys()


def test_broken_files_do_not_hide_the_valid_ones(tmp_path) -> None:
    for folder in (BROKEN, REPO / "include" / "workloads"):
        for path in folder.glob("*.yaml"):
            shutil.copy(path, tmp_path)
    loaded = load_folder(tmp_path)
    assert {"digits", "titanic"} <= loaded.valid.keys()
    assert {path.stem for path in loaded.errors} == IN_THE_FILE.keys()


def test_two_files_of_one_name_are_an_error_of_the_second(tmp_path) -> None:
    text = (REPO / "include" / "workloads" / "digits.yaml").read_text()
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text(text)
    loaded = load_folder(tmp_path)
    assert list(loaded.valid) == ["digits"]
    assert "name is taken" in str(loaded.errors[tmp_path / "b.yaml"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("schedule: {kind: cron}", "schedule.cron: missing"),
        ("schedule: {kind: weekly}", "schedule: found"),
        ("data: {source: {kind: digits, url: x}, label: d}", "data.source.url: unknown key, found 'x' | allowed: kind"),
        ("compression: {recipes: [onnx-fp32, {name: a, steps: []}]}", "compression.recipes.1.steps: found []"),
        ("name: Not a Name", "name: found 'Not a Name'"),
        ("name: [", None),
        ("- a", None),
    ],
)
def test_key_paths_are_those_of_the_file(tmp_path, text, line) -> None:
    base = "name: n\nmodel: {factory: cnn}\ndata: {source: {kind: digits}, label: digit}\n"
    key = text.split(":")[0]
    kept = "" if line is None else "".join(row + "\n" for row in base.splitlines() if not row.startswith(f"{key}:"))
    path = tmp_path / "w.yaml"
    path.write_text(f"{kept}{text}\n")
    with pytest.raises(WorkloadError, match=r"w\.yaml") as caught:
        load_workload(path)
    if line is not None:
        _, *mistakes = str(caught.value).splitlines()
        assert [m.strip().startswith(line) for m in mistakes] == [True], mistakes
