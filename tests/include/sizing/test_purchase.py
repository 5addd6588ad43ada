"""One rule per criticality."""

from __future__ import annotations

import pytest

from include.core.contracts.offer import PurchaseOption as P
from include.sizing.purchase import purchase_rule
from tests.support.offers import order


@pytest.mark.parametrize(
    ("criticality", "spot_fits", "options", "word"),
    [
        ("exploratory", True, {P.SPOT}, "exploratory"),
        ("exploratory", False, {P.SPOT}, "waits"),
        ("normal", True, {P.SPOT}, "normal: spot"),
        ("normal", False, {P.ON_DEMAND}, "normal: on-demand"),
        ("critical", True, {P.ON_DEMAND, P.RESERVED}, "critical"),
        ("critical", False, {P.ON_DEMAND, P.RESERVED}, "critical"),
    ],
)
def test_auto_follows_the_criticality(criticality, spot_fits, options, word):
    rule = purchase_rule(order(criticality=criticality), spot_fits=spot_fits)
    assert rule.admissible == {*options, P.LOCAL}
    assert word in rule.sentence


@pytest.mark.parametrize("asked", ["spot", "on-demand"])
@pytest.mark.parametrize("criticality", ["exploratory", "normal", "critical"])
def test_what_the_user_asks_for_wins(asked, criticality):
    rule = purchase_rule(order(criticality=criticality, compute={"purchase": asked}), spot_fits=True)
    assert rule.admissible == {P(asked), P.LOCAL}
    assert rule.sentence == f"the workload asks for {asked}"
