import itertools

import pytest

from include.compression.stages import stages
from include.config.recipes import PRESETS
from include.core.contracts.recipe import DistillStep, ExportStep, FactorizeStep, PruneStep, QuantizeStep, Recipe
from include.core.errors import UserError

ALL = (PruneStep(), FactorizeStep(), DistillStep(), ExportStep(), QuantizeStep())


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_taken_apart_and_nothing_is_lost(name):
    parts = stages(Recipe(name=name, steps=PRESETS[name]))
    found = tuple(
        step for step in (parts.prune, parts.factorize, parts.distill, parts.export, parts.quantize) if step is not None
    )
    assert found == PRESETS[name]


def test_quantization_variants_share_the_exported_prefix():
    eight, four = (stages(Recipe(name="a", steps=(*ALL[:4], QuantizeStep(per_channel=p)))) for p in (True, False))
    assert eight.exported == four.exported == ALL[:4]
    assert eight.trained == ALL[:3]


def test_exactly_the_ordered_subsets_with_an_export_are_legal():
    for count in range(6):
        for steps in itertools.permutations(ALL, count):
            legal = list(steps) == [step for step in ALL if step in steps] and ExportStep() in steps
            if legal:
                assert stages(Recipe(name="r", steps=steps)).export == ExportStep()
            else:
                with pytest.raises(UserError, match="recipe cannot be applied"):
                    stages(Recipe(name="r", steps=steps))


def test_a_repeated_step_is_refused_with_what_was_found_and_what_is_allowed():
    with pytest.raises(UserError) as caught:
        stages(Recipe(name="twice", steps=(PruneStep(), PruneStep(), ExportStep())))
    assert "recipe twice" in str(caught.value)
    assert "prune, prune, export" in str(caught.value)
    assert "prune, factorize, distill, export, quantize" in str(caught.value)
