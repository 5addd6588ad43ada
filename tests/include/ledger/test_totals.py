from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.core.json_codec import to_json
from include.ledger.charges import Charge
from include.ledger.totals import run_totals


def row(key="k", **figures):
    known = {"useful_s": 900.0, "lost_s": 60.0, "idle_s": 40.0, "paid_s": 1000.0, "kwh": 0.5, "gco2e": 200.0}
    known |= {"effective_cost_usd": Decimal("0.10"), "list_cost_usd": Decimal("0.30"), "cost_method": "estimated: a"}
    names = {"dag_id": "d", "run_id": "r", "lease_id": "l", "period_start": "s", "period_end": "e"}
    return Charge(key=key, **names, **(known | figures))


def test_sums_and_the_figures_that_follow_from_them():
    totals = run_totals([row("a", energy_method="measured"), row("b", energy_method="estimated: peak watts")])
    assert (totals.charges, totals.usd, totals.list_usd, totals.kwh, totals.gco2e) == (
        2,
        Decimal("0.20"),
        Decimal("0.60"),
        1.0,
        400.0,
    )
    assert (totals.useful_s, totals.lost_s, totals.idle_s, totals.paid_s) == (1800.0, 120.0, 80.0, 2000.0)
    assert totals.utilisation == pytest.approx(0.9)
    assert totals.usd_per_useful_h == Decimal("0.400000")
    assert totals.cost_methods == ("estimated: a",)
    assert totals.energy_methods == ("measured", "estimated: peak watts")
    assert totals.unknown == {}


def test_a_sum_with_an_unknown_part_is_unknown_beside_its_known_part():
    totals = run_totals([row("a"), row("b", effective_cost_usd=None, kwh=None), row("c", kwh=None, useful_s=None)])
    assert (totals.usd, totals.kwh, totals.useful_s) == (None, None, None)
    assert (totals.utilisation, totals.usd_per_useful_h) == (None, None)
    assert totals.unknown == {"usd": 1, "kwh": 2, "useful_s": 1}
    assert (totals.known_part.usd, totals.known_part.kwh, totals.known_part.useful_s) == (Decimal("0.20"), 0.5, 1800.0)
    assert totals.gco2e == 600.0


def test_no_charge_at_all_means_unknown_not_free():
    totals = run_totals([])
    assert (totals.charges, totals.usd, totals.kwh, totals.utilisation, totals.usd_per_useful_h) == (0, *[None] * 4)


def test_a_run_without_useful_time_has_no_price_per_useful_hour():
    totals = run_totals([row(useful_s=0.0, lost_s=960.0)])
    assert (totals.utilisation, totals.usd_per_useful_h) == (0.0, None)


def test_gpu_figures_are_means_over_the_charges_with_a_gpu():
    gpu = {"gpu_utilisation": 0.8, "tensor_activity": 0.0, "gpu_peak_memory_share": 0.5}
    more = {"gpu_utilisation": 0.2, "tensor_activity": 0.4, "gpu_peak_memory_share": 0.7, "paid_s": 3000.0}
    totals = run_totals([row("a", **gpu), row("b", **more), row("c")])
    assert totals.gpu_utilisation == pytest.approx(0.35)
    assert totals.tensor_activity == pytest.approx(0.3)
    assert totals.gpu_peak_memory_share == 0.7
    assert run_totals([row("c")]).gpu_utilisation is None


@given(st.lists(st.decimals("0", "100", places=8) | st.none(), min_size=1, max_size=8))
def test_money_adds_up_exactly(costs):
    totals = run_totals([row(str(n), effective_cost_usd=cost) for n, cost in enumerate(costs)])
    known = sum((cost for cost in costs if cost is not None), Decimal(0))
    assert totals.known_part.usd == known
    assert totals.usd == (None if None in costs else known)
    assert to_json(totals)["usd"] == (None if totals.usd is None else str(totals.usd))
