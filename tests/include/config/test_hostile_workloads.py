"""Workload files that are traps: each is one error that names the place, never another exception and never a guess."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from include.config.loader import describe, load_folder, load_workload
from include.config.run_options import RunOptions
from include.config.settings import REPO
from include.config.workload import RESERVED_NAMES
from include.config.yaml_text import LONGEST_TEXT_BYTES
from include.core.errors import WorkloadError

BASE = {"name": "n", "model": "{factory: cnn}", "data": "{source: {kind: digits}, label: digit}"}
BOMB = "".join(f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9) if i else 'x'}]\n" for i in range(9))


def text_of(**keys: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in {**BASE, **keys}.items())


@pytest.fixture
def refusal(tmp_path):
    """The error of a text, from ``load_workload``; ``load_folder`` must find the same one."""

    def load(text: str) -> str:
        path = tmp_path / "w.yaml"
        path.write_text(text)
        with pytest.raises(WorkloadError) as caught:
            load_workload(path)
        assert str(load_folder(tmp_path).errors[path]) == str(caught.value)
        assert len(str(caught.value)) < 1000
        return str(caught.value)

    return load


def test_names_of_the_projects_own_dags_are_all_reserved() -> None:
    assert {path.stem for path in (REPO / "dags").glob("*.py")} == set(RESERVED_NAMES)


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_a_reserved_name_is_refused(refusal, name) -> None:
    assert f"name: found '{name}' | allowed: a name other than" in refusal(text_of(name=name))


@pytest.mark.parametrize(
    ("second", "key"),
    [
        ({"name": "n"}, "name"),
        ({"name": "m", "serving": "{endpoint: n}"}, "serving.endpoint"),
        ({"name": "m", "registry": "{model_name: n}"}, "registry.model_name"),
    ],
)
def test_a_name_that_another_file_has_is_refused(tmp_path, second, key) -> None:
    (tmp_path / "a.yaml").write_text(text_of())
    (tmp_path / "b.yml").write_text(text_of(**second))
    loaded = load_folder(tmp_path)
    assert list(loaded.valid) == ["n"]
    assert f"{key} is taken by another file: a.yaml" in str(loaded.errors[tmp_path / "b.yml"])


def test_a_repeated_key_is_refused_with_its_line(refusal) -> None:
    message = refusal(text_of(training="{epochs: 1,\n  lr: 0.1,\n  epochs: 2}"))
    assert "'epochs' stands twice" in message
    assert "line 6" in message


def test_a_few_aliases_and_merges_are_allowed(tmp_path) -> None:
    path = tmp_path / "w.yaml"
    arguments = "{a: &a {x: 1}, b: {<<: *a, x: 2}, c: {<<: *a}, d: *a}"
    path.write_text(text_of(model=f"{{factory: cnn, arguments: {arguments}}}"))
    assert load_workload(path).model.arguments == {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 1}, "d": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("[" * 200, "nested deeper"),
        ("a: " + "{b: " * 200 + "}" * 200, "nested deeper"),
        (BOMB, "with aliases written out"),
        ("a: &a 1\nb: [" + "*a, " * 101 + "]", "more than 100 aliases"),
        ("a: &a [*a]", "an alias inside the value"),
        ("x" * (LONGEST_TEXT_BYTES + 1), "too long"),
        (text_of(training=f"{{seed: {'9' * 5000}}}"), "beyond 64 bits"),
        (text_of(training=f"{{seed: 0x{'f' * 30}}}"), "beyond 64 bits"),
        (text_of(model="{factory: cnn, arguments: {width: .inf}}"), "not a finite number"),
        (text_of(limits="{budget_usd: .nan}"), "not a finite number"),
        (text_of(limits="{budget_usd: 1.0e+999}"), "not a finite number"),
        (text_of(description="2026-13-45"), "month must be"),
        (text_of(description="!!bool maybe"), "not a YAML file"),
        (text_of(description="!!binary aGk="), "is not allowed"),
        (text_of(description='"\\UFFFFFFFF"'), "not a YAML file"),
        ("\x00", "not a YAML file"),
        (text_of(owner=f"[{'x, ' * 11_000}]"), "more than 10000 values"),
        (text_of(owner=f"[{'x, ' * 1000}]"), "owner: found ['x', 'x'"),
    ],
    ids=range(18),
)
def test_text_beyond_the_bounds_is_a_workload_error(refusal, text, fragment) -> None:
    assert fragment in refusal(text)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"limits": "{budget_usd: 'inf'}"}, "limits.budget_usd: found 'inf' | allowed: Input should be a finite"),
        ({"limits": "{deadline_h: nan}"}, "limits.deadline_h: found 'nan' | allowed: Input should be a finite"),
        ({"training": "{epochs: yes}"}, "training.epochs: found 'true' | allowed: Input should be a valid integer"),
        ({"training": "{lr: on}"}, "training.lr: found 'true' | allowed: Input should be a valid number"),
        ({"gates": "{max_size_bytes: true}"}, "gates.max_size_bytes: found 'true'"),
        ({"data": "{source: {kind: digits}, label: d, image_shape: [yes, 8, 8]}"}, "data.image_shape.0: found 'true'"),
        (
            {"compression": "{recipes: [onnx-fp32, {name: a, steps: [{kind: distill, epochs: yes}, {kind: export}]}]}"},
            "compression.recipes.1.steps.0.epochs: found 'true'",
        ),
    ],
)
def test_numbers_are_finite_and_no_truth_values(refusal, keys, line) -> None:
    assert f"\n  {line}" in refusal(text_of(**keys))


def test_exponents_and_real_truth_values_still_load(tmp_path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(text_of(training="{lr: 1e-3}", serving="{deploy: no}"))
    workload = load_workload(path)
    assert (workload.training.lr, workload.serving.deploy) == (0.001, False)


@pytest.mark.parametrize(
    ("factory", "fragment"),
    [
        ("include.training.models..os:system", "import path is not allowed"),
        ("include.training.models.:build", "import path is not allowed"),
        ('"include.training.models.mlp:build\\n"', "import path is not allowed"),
        ("include.training.models.absent:build", "there is no include.training.models.absent"),
        ("include.training.models.mlp.deeper:build", "there is no include.training.models.mlp.deeper"),
    ],
)
def test_a_factory_is_a_module_that_is_there(refusal, factory, fragment) -> None:
    message = refusal(text_of(model=f"{{factory: {factory}}}"))
    assert fragment in message
    assert "1 mistake\n  model" in message


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ({"budget": 3}, "budget: unknown key, found 3 | allowed: objective, purchase, deadline_h,"),
        ({"budget_usd": float("inf")}, "budget_usd: found inf | allowed: Input should be a finite number"),
        ({"deadline_h": True}, "deadline_h: found 'true'"),
    ],
)
def test_mistakes_in_the_form_are_told_in_its_own_keys(form, line) -> None:
    with pytest.raises(ValidationError) as caught:
        RunOptions.model_validate(form)
    (found,) = describe(caught.value)
    assert found.startswith(line)
