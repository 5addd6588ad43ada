"""One rule per criticality."""

from __future__ import annotations

import pytest

from include.core.contracts.offer import PurchaseOption as P
from include.sizing.purchase import purchase_rule
from tests.support.offers import order


@pytest.mark.parametrize(
    ("criticality", "options", "word"),
    [
        ("exploratory", {P.SPOT}, "waits"),
        ("normal", {P.SPOT, P.ON_DEMAND, P.RESERVED}, "best by cost"),
        ("critical", {P.ON_DEMAND, P.RESERVED}, "critical"),
    ],
)
def test_auto_follows_the_criticality(criticality, options, word):
    rule = purchase_rule(order(criticality=criticality))
    assert rule.admissible == {*options, P.LOCAL}
    assert word in rule.sentence


@pytest.mark.parametrize("asked", ["spot", "on-demand"])
@pytest.mark.parametrize("criticality", ["exploratory", "normal", "critical"])
def test_what_the_user_asks_for_wins(asked, criticality):
    rule = purchase_rule(order(criticality=criticality, compute={"purchase": asked}))
    assert rule.admissible == {P(asked), P.LOCAL}
    assert rule.sentence == f"the workload asks for {asked}"
