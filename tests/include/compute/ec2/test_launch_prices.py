"""A launch whose price is no price is refused; one whose price is unknown is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from include.core.errors import LaunchRefusedError
from tests.support.ec2_rig import LEASE, SPOT, Rig


@pytest.mark.parametrize("usd", ["-1", "abc", "0", "NaN", "Infinity", ""])
def test_a_price_that_is_none_is_refused_before_anything_is_launched(tmp_path: Path, usd: str):
    rig = Rig(folder=tmp_path)
    with pytest.raises(LaunchRefusedError, match=f"price of a candidate.*g5.xlarge spot.*{usd!r}") as caught:
        rig.engine.launch(rig.request(LEASE, replace(SPOT, usd_per_h=usd)))
    assert "\n" not in str(caught.value)
    assert rig.double.instances() == ()


def test_an_unknown_price_launches(tmp_path: Path):
    rig = Rig(folder=tmp_path)
    rig.engine.launch(rig.request(LEASE, replace(SPOT, usd_per_h=None)))
    assert len(rig.living()) == 1
