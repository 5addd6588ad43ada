import json
import math
import re
from decimal import Decimal

import pytest

from include.config.settings import REPO
from stack.ec2_double import Fault, Market
from stack.ec2_double.market_file import MarketFile

PAGE = REPO / "docs" / "how-to" / "try-ec2-without-an-account.md"
SPOT = {"instance_type": "g5.xlarge", "purchase": "spot", "zone": "us-east-1a"}


def examples():
    return re.findall(r"```json\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_examples_of_the_page_are_read(tmp_path):
    market, faults = examples()
    path = tmp_path / "market.json"
    path.write_text(market)
    read = Market.from_file(path)
    assert [read.capacity(**SPOT, at_s=second) for second in (0, 599, 600)] == [2, 2, 0]
    rules = [Fault.model_validate_json(line) for line in faults.splitlines()]
    assert [(rule.after, rule.code, rule.times) for rule in rules] == [
        (True, None, 1),
        (False, "InsufficientInstanceCapacity", None),
        (False, "RequestLimitExceeded", 2),
    ]


def test_the_last_rule_that_fits_holds_and_a_trace_stands_above_rules():
    market = Market.of(
        capacity=[{"instances": 7}, {"type": "g5.*", "from_s": 10, "until_s": 20, "instances": 3}],
        traces=[{"zone": "us-east-1b", "type": "g5.*", "gap_s": 100, "data": [0, 2], "instances": 4, "offset_s": 50}],
    )
    assert [market.capacity(**SPOT, at_s=second) for second in (0, 10, 19.9, 20)] == [7, 3, 3, 7]
    traced = {**SPOT, "zone": "us-east-1b"}
    assert [market.capacity(**traced, at_s=second) for second in (0, 49.9, 50, 1e6)] == [0, 0, 8, 8]
    assert market.capacity(**{**traced, "purchase": "on-demand"}, at_s=0) == 7
    assert market.capacity(**{**traced, "instance_type": "g6.xlarge"}, at_s=0) == 7
    assert [market.next_change_s(second) for second in (0, 10, 20, 50)] == [10, 20, 50, None]


def test_without_rules_everything_of_the_catalog_can_be_had():
    market = Market()
    assert market.capacity(**SPOT, at_s=0) == math.inf
    assert market.usd_per_h(**SPOT, at_s=0) == Decimal("0.3521")
    assert market.usd_per_h(**{**SPOT, "purchase": "on-demand"}, at_s=0) == Decimal("1.006")
    assert market.usd_per_h(**{**SPOT, "instance_type": "m7i.large"}, at_s=0) is None
    assert (market.knows("g5.xlarge"), market.knows("t2.micro")) == (True, False)
    assert market.next_change_s(0) is None


def test_a_tick_begins_exactly_at_its_time():
    data = [number % 2 for number in range(20_001)]
    market = Market.of(traces=[{"zone": "us-east-1a", "gap_s": 195.1, "data": data}])
    ticks = range(0, 20_000, 137)
    assert [market.capacity(**SPOT, at_s=tick * 195.1) > 0 for tick in ticks] == [tick % 2 == 1 for tick in ticks]


def test_the_file_names_its_mistakes():
    with pytest.raises(ValueError, match="instances"):
        MarketFile.model_validate_json(json.dumps({"capacity": [{"zone": "us-east-1a"}]}))
