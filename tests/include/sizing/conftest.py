"""Packing files as tests write them."""

import pytest

from include.sizing.packing_file import PackingFile


@pytest.fixture
def order():
    """``order(model, ..., count=4, **fields)``: a file with A100s of 80 GB; models are dicts without a name."""

    def make(*models, count=4, device=None, **fields):
        named = [{"name": f"m{number}", **model} for number, model in enumerate(models)]
        group = {"name": "a100", "count": count, "accelerator": "A100-80GB", "memory_gib": 80, **(device or {})}
        return PackingFile(name="test", devices=[group], models=named, **fields)

    return make
