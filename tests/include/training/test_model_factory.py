from __future__ import annotations

import pytest
import torch

from include.config.workload import ModelSection
from include.core.errors import UserError
from include.training.model_factory import build_model


def build(factory: str, **arguments: object) -> torch.nn.Module:
    return build_model(ModelSection(factory=factory, arguments=arguments), input_shape=(1, 8, 8), classes=10)


@pytest.mark.parametrize(("factory", "arguments"), [("cnn", {"width": 4, "hidden": 8}), ("mlp", {"hidden": [8]})])
def test_presets_build(factory: str, arguments: dict[str, object]) -> None:
    assert build(factory, **arguments)(torch.rand(2, 1, 8, 8)).shape == (2, 10)


@pytest.mark.parametrize(
    ("factory", "arguments", "message"),
    [
        ("include.training.models.absent:build", {}, "no such model factory"),
        ("include.training.models.mlp:absent", {}, "no such model factory"),
        ("mlp", {"depth": 3}, "depth"),
        ("mlp", {"classes": 3}, "classes"),
        ("mlp", {"hidden": 3}, "refuses"),
        ("cnn", {"width": "wide"}, "refuses"),
        ("include.training.models.mlp:math", {}, "no such model factory"),
    ],
)
def test_mistakes_are_one_clear_error(factory: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(factory, **arguments)


def test_path_that_slipped_past_the_workload_is_not_imported() -> None:
    section = ModelSection.model_construct(factory="antigravity:fly", arguments={})
    with pytest.raises(UserError, match="no such model factory"):
        build_model(section, input_shape=(4,), classes=2)


def test_a_factory_that_makes_no_module_is_refused() -> None:
    section = ModelSection(factory="include.training.models.small_cnn:_block")
    with pytest.raises(UserError, match="no torch module"):
        build_model(section, input_shape=1, classes=2)  # type: ignore[arg-type] - _block takes channel counts


def test_what_a_factory_without_arguments_raises_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory(input_shape: tuple[int, ...], classes: int) -> torch.nn.Module:
        raise ValueError("no such thing\nsecond line")

    monkeypatch.setattr("include.training.model_factory.load_callable", lambda *_, **__: factory)
    with pytest.raises(
        UserError, match=r"raised ValueError . where: model.factory .*no such thing second line"
    ) as told:
        build("mlp")
    assert "\n" not in str(told.value)
