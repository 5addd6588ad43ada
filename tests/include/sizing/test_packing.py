"""Packing: rules that every answer keeps, the best answer by trying all, and what people are told."""

from pathlib import Path

import pytest
import yaml

from include.core.errors import UserError
from include.sizing import packing
from include.sizing.packing import assign, pack
from include.sizing.packing_bound import lower_bound
from include.sizing.packing_file import load_packing
from include.sizing.packing_items import ISOLATIONS
from tests.support.packing_rules import broken_rules, fewest, random_order

HEAD = "name: x\ndevices: [{name: g, count: 1, accelerator: T4, memory_gib: 16}]\n"
EXAMPLE = Path(__file__).resolve().parents[3] / "include/packing/ten_models.yaml"


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("seed", [1, 3, 4])
def test_both_solvers_keep_all_rules_and_the_exact_one_is_never_worse(isolation, seed):
    order = random_order(seed, isolation=isolation)
    simple, exact = (assign(order, isolation, exact=value) for value in (False, True))
    bound = lower_bound(order.items(), order.all_devices(), order.terms(isolation))
    for found in (simple, exact):
        assert broken_rules(found, order, order.terms(isolation)) == []
        assert found.left_out == ()
    assert bound <= exact.devices <= simple.devices


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("seed", range(100, 104))
def test_of_few_models_the_answer_is_the_best_there_is(isolation, seed):
    order = random_order(seed, isolation=isolation, models=4, devices=12)
    items, device = order.items()[:6], order.all_devices()[0]
    kept = {item.model for item in items}
    models = [m.model_copy(update={"replicas": sum(i.model == m.name for i in items)}) for m in order.models]
    order = order.model_copy(update={"models": tuple(m for m in models if m.name in kept)})
    best = fewest(order.items(), device, order.terms(isolation))
    found = assign(order, isolation, exact=True)
    assert (found.devices, found.proven) == (best, True)
    assert lower_bound(order.items(), order.all_devices(), order.terms(isolation)) <= best


def test_replicas_of_a_model_are_apart_unless_told_otherwise(order):
    model = {"memory_gib": 4, "compute": 0.1, "replicas": 3}
    assert pack(order(model, isolation="time-slicing")).devices == 3
    assert pack(order({**model, "spread": False}, isolation="time-slicing")).devices == 1


def test_a_promised_latency_keeps_its_margin_free(order):
    models = [{"memory_gib": 4, "compute": 0.5}, {"memory_gib": 4, "compute": 0.4}]
    assert pack(order(*models, isolation="time-slicing")).devices == 1
    models[0]["slo"] = True
    promised = pack(order(*models, isolation="time-slicing"))
    assert promised.devices == 2
    assert "what is promised of m0 rests on the margin alone" in promised.notes[0]
    assert pack(order(*models, isolation="time-slicing", slo_margin=0.05)).devices == 1


@pytest.mark.parametrize("solver", ["cp-sat", "first-fit"])
def test_memory_heavy_models_share_with_compute_heavy_ones(order, solver):
    memory, compute = {"memory_gib": 40, "compute": 0.1}, {"memory_gib": 5, "compute": 0.55}
    found = pack(order(memory, memory, compute, compute, isolation="time-slicing", solver=solver))
    assert sorted(load.models for load in found.loads) in (
        [("m0/0", "m2/0"), ("m1/0", "m3/0")],
        [("m0/0", "m3/0"), ("m1/0", "m2/0")],
    )


@pytest.mark.parametrize("solver", ["cp-sat", "first-fit"])
def test_where_not_all_fit_the_higher_priority_goes_first(order, solver):
    models = [{"memory_gib": 60, "compute": 0.1}, {"memory_gib": 50, "compute": 0.1, "priority": 9}]
    found = pack(order(*models, count=1, isolation="process", solver=solver))
    assert [(p.model, p.device) for p in found.placements] == [("m1", "a100-0")]
    [left] = found.left_out
    assert left.model == "m0"
    assert "no room on the 1 devices" in left.reason
    assert "at least 2 devices" in left.reason


@pytest.mark.parametrize(
    ("model", "isolation", "reason"),
    [
        (
            {"memory_gib": 76, "compute": 0.1},
            "time-slicing",
            "needs 76.0 GiB, the largest device within its margins has",
        ),
        ({"memory_gib": 77, "compute": 0.1}, "mig", "needs 77.0 GiB, the largest partition has 76.0"),
        ({"memory_gib": 4, "compute": 0.9, "slo": True}, "mps", "needs 0.90 of a device's compute"),
        ({"memory_gib": 4, "compute": 0.1, "replicas": 5}, "process", "its 5 replicas go on different devices"),
    ],
)
def test_what_does_not_fit_is_named_with_the_reason(order, model, isolation, reason):
    found = pack(order(model, {"memory_gib": 1, "compute": 0.01}, isolation=isolation))
    assert len(found.left_out) == 1
    assert reason in found.left_out[0].reason
    assert any(placement.model == "m1" for placement in found.placements)


def test_mps_splits_a_device_equally(order):
    large, small = {"memory_gib": 30, "compute": 0.1}, {"memory_gib": 4, "compute": 0.1}
    assert pack(order(large, small, isolation="mps")).devices == 1
    assert pack(order(large, small, small, isolation="mps")).devices == 2, "a third client leaves 24.5 GiB for each"
    assert pack(order(large, small, small, isolation="time-slicing")).devices == 1


def test_a_process_of_its_own_needs_its_own_context(order):
    models = [{"memory_gib": 18, "compute": 0.1}] * 4
    assert pack(order(*models, isolation="process", context_gib=1)).devices == 1
    assert pack(order(*models, isolation="time-slicing", context_gib=1)).devices == 2


def test_nothing_that_fits_is_an_answer_too(order):
    found = pack(order({"memory_gib": 500, "compute": 0.1}))
    assert (found.devices, found.placements, found.configurations, found.before) == (0, (), (), None)
    assert [left.model for left in found.left_out] == ["m0"]


def test_too_many_for_the_exact_search_are_packed_all_the_same(order, monkeypatch):
    monkeypatch.setattr(packing, "MOST_PLACES", 3)
    found = pack(order(*[{"memory_gib": 10, "compute": 0.1}] * 3, isolation="process"))
    assert (found.solver, found.devices) == ("first-fit decreasing", 1)
    assert "too many" in found.notes[0]


def test_without_or_tools_first_fit_answers_and_says_so(order, monkeypatch):
    monkeypatch.setattr(packing, "is_available", lambda: False)
    found = pack(order({"memory_gib": 4, "compute": 0.1}))
    assert (found.solver, found.devices) == ("first-fit decreasing", 1)
    assert "requirements/packing.txt" in found.notes[0]
    with pytest.raises(UserError, match="not installed"):
        pack(order({"memory_gib": 4, "compute": 0.1}, solver="cp-sat"))


def test_a_card_that_cannot_be_cut_is_not(order):
    model = {"memory_gib": 4, "compute": 0.1}
    assert pack(order(model, device={"accelerator": "L4", "memory_gib": 24})).isolation == "mps"
    with pytest.raises(UserError, match="can be cut into partitions"):
        pack(order(model, device={"accelerator": "L4", "memory_gib": 24}, isolation="mig"))


@pytest.fixture(scope="module")
def ten():
    return pack(load_packing(EXAMPLE))


def test_ten_models_need_three_of_four_gpus(ten):
    assert (ten.isolation, ten.devices, ten.at_least, ten.proven) == ("mig", 3, 3, True)
    assert ten.left_out == ()
    assert len({p.device for p in ten.placements if p.model == "fraud"}) == 2
    assert (ten.before.devices, ten.after.devices) == (11, 3)
    assert ten.after.memory / ten.before.memory == pytest.approx(11 / 3)
    assert all(p.keeps_apart and p.does_not and p.profile for p in ten.placements)


def test_the_files_that_make_it_are_what_the_tools_read(ten):
    cut, plugin = ten.configurations
    wanted = yaml.safe_load(cut.text)["mig-configs"]["ten-models"]
    for entry in wanted:
        [index] = entry["devices"]
        here = [p.profile for p in ten.placements if p.device == f"a100-{index}"]
        assert entry["mig-enabled"] is True
        assert sorted(here) == sorted(name for name, count in entry["mig-devices"].items() for _ in range(count))
    assert yaml.safe_load(plugin.text)["flags"]["migStrategy"] == "mixed"


@pytest.mark.parametrize(("isolation", "key"), [("mps", "mps"), ("time-slicing", "timeSlicing")])
def test_shared_devices_have_as_many_places_as_models(order, isolation, key):
    found = pack(order(*[{"memory_gib": 10, "compute": 0.1}] * 3, isolation=isolation))
    [configuration] = found.configurations
    assert yaml.safe_load(configuration.text)["sharing"][key]["resources"] == [
        {"name": "nvidia.com/gpu", "replicas": 3}
    ]
    assert "a100-0" in configuration.applies_to


def test_different_kinds_of_devices(order):
    file = order({"memory_gib": 60, "compute": 0.2}, {"memory_gib": 10, "compute": 0.4}, isolation="time-slicing")
    small = file.devices[0].model_copy(update={"name": "l4", "memory_gib": 24, "accelerator": "L4", "speed": 0.3})
    found = pack(file.model_copy(update={"devices": (small, *file.devices)}))
    assert {p.device.rpartition("-")[0] for p in found.placements} == {"a100"}
    assert found.devices == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ndevices: []\nmodels: []\n", "2 mistakes"),
        ("- a\n", "is a mapping"),
        ("name: [\n", "cannot read"),
        (f"{HEAD}models: [{{name: m}}]\n", "memory_gib"),
        (
            f"{HEAD}models: [{{name: m, memory_gib: 1, compute: 1}}, {{name: m, memory_gib: 1, compute: 1}}]\n",
            "twice: m",
        ),
        (f"{HEAD}models: [{{name: m, memory_gib: .inf, compute: 0.1}}]\n", "not a finite number"),
    ],
)
def test_mistakes_of_a_file_are_told(tmp_path, text, said):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        load_packing(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="cannot read the packing file"):
        load_packing(tmp_path / "no.yaml")


@pytest.mark.parametrize(
    ("model", "accelerator", "profile"),
    [
        ({"compute": 0.12}, "A100-80GB", "1g.10gb"),
        ({"compute": 0.12, "slo": True}, "A100-80GB", "2g.20gb"),  # 0.8 of an eighth is 0.1
        ({"compute": 0.1, "slo": True}, "A100-80GB", "1g.10gb"),
        ({"compute": 0.124}, "A100-80GB", "1g.10gb"),
        ({"compute": 0.124}, "H100", "2g.20gb"),  # a slice has 16 of 132 multiprocessors
    ],
)
def test_a_partition_has_the_compute_that_its_model_needs_with_the_margin_of_a_promise(
    order, model, accelerator, profile
):
    made = pack(order({"memory_gib": 4, **model}, device={"accelerator": accelerator}, isolation="mig"))
    assert [place.profile for place in made.placements] == [profile]
