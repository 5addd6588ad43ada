"""The whole diagnosis: the bench's series, and what holds for any of them."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.core.contracts.diagnosis import Diagnosis, Slowness
from include.core.json_codec import from_json, to_json
from include.training.diagnosis import RULES, diagnose
from include.training.telemetry import facts
from include.training.telemetry.facts import GPU_BUSY, MachineFacts, RankTelemetry
from include.training.telemetry.step_facts import PARTS
from tests.support.diagnosis_cases import first_half, second_half
from tests.support.diagnosis_series import GIB, Case, device_series, gpu, square, step_facts
from tests.support.series import series_of

CASES = [*first_half(), *second_half()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_gets_its_verdict(case: Case) -> None:
    found = diagnose(case.ranks)
    assert found.verdict == case.expected, found
    if found.verdict not in (Slowness.OK, Slowness.UNKNOWN):
        assert found.fix
        assert found.findings[0].evidence
        assert any(character.isdigit() for character in found.reason)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_utilisation_alone_never_decides(case: Case) -> None:
    bare = [RankTelemetry(series={GPU_BUSY: rank.series[GPU_BUSY]}) for rank in case.ranks if GPU_BUSY in rank.series]
    if bare:
        assert diagnose(bare[:1]).verdict == Slowness.UNKNOWN


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule_without_its_series_is_named_with_what_is_missing(case: Case) -> None:
    bare = [dataclasses.replace(rank, series={}, steps=None, machine=MachineFacts()) for rank in case.ranks]
    found = diagnose(bare)
    assert (found.verdict, found.findings) == (Slowness.UNKNOWN, ())
    assert set(found.not_judged) == {kind.value for kind in RULES}
    assert all(found.not_judged.values())


def test_no_telemetry_is_unknown() -> None:
    assert diagnose([]).verdict == Slowness.UNKNOWN


def test_the_largest_loss_of_time_is_the_verdict_and_all_are_listed() -> None:
    steps = step_facts(step_s=0.2, data_wait=0.15, h2d=0.12, save=0.3, compute=0.4)
    found = diagnose([RankTelemetry(steps=steps)])
    assert [finding.kind for finding in found.findings] == ["save stall", "data-bound", "copy-bound"]
    assert found.verdict == "save stall"


def test_waste_does_not_hide_a_loss_of_time() -> None:
    rank = RankTelemetry(
        steps=step_facts(step_s=0.2, data_wait=0.5, compute=0.5),
        series=device_series(seed=1, gpu_busy=0.3, sm_active=0.3, gpu_memory_used_bytes=5 * GIB),
        machine=gpu(peak=0.06),
    )
    assert [finding.kind for finding in diagnose([rank]).findings] == ["data-bound", "oversized"]


def test_first_steps_are_no_evidence() -> None:
    steps = dataclasses.replace(step_facts(step_s=0.2, data_wait=0.5, compute=0.5), steps=5)
    found = diagnose([RankTelemetry(steps=steps)])
    assert found.verdict == Slowness.UNKNOWN
    assert "steps" in found.not_judged["data-bound"]


def test_verdict_survives_the_wire() -> None:
    found = diagnose(CASES[0].ranks)
    assert from_json(Diagnosis, to_json(found)) == found


NAMES = [getattr(facts, name) for name in dir(facts) if name.isupper()]
VALUES = st.one_of(st.none(), st.floats(0, 1), st.floats(0, 1e12))
SERIES = st.dictionaries(st.sampled_from(NAMES), st.lists(VALUES, max_size=90).map(lambda v: series_of(v, every_s=1.0)))
SHARES = st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1))
MACHINES = st.builds(
    MachineFacts,
    device_memory_bytes=st.one_of(st.none(), st.integers(0, 10**12)),
    device_peak_bytes=st.one_of(st.none(), st.integers(0, 10**12)),
    allocation_retries=st.one_of(st.none(), st.integers(0, 5)),
    pcie_bytes_per_s=st.one_of(st.none(), st.floats(0, 1e12)),
    host_memory_bytes=st.one_of(st.none(), st.integers(0, 10**12)),
    checkpoint_every_s=st.one_of(st.none(), st.floats(0, 1e4)),
)


@given(
    worlds=st.lists(st.tuples(SERIES, st.one_of(st.none(), SHARES), MACHINES), min_size=1, max_size=3),
    rates=st.lists(st.floats(0, 1e6), min_size=1, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_any_telemetry_gets_a_verdict_that_survives_the_wire(worlds: list, rates: list[float]) -> None:
    ranks = [
        RankTelemetry(
            rank=rank,
            world=len(worlds),
            series=series,
            machine=machine,
            steps=None if shares is None else step_facts(step_s=0.5, rate=rates, rank=rank, world=3, **shares),
        )
        for rank, (series, shares, machine) in enumerate(worlds)
    ]
    found = diagnose(ranks)
    assert from_json(Diagnosis, json.loads(json.dumps(to_json(found)))) == found
    judged = {finding.kind for finding in found.findings}
    assert judged.isdisjoint(found.not_judged)


@pytest.mark.parametrize("seed", range(8))
def test_healthy_stays_healthy_whatever_the_noise(seed: int) -> None:
    rank = RankTelemetry(
        steps=step_facts(step_s=0.3, data_wait=0.04, h2d=0.03, compute=0.9, save=0.01),
        machine=gpu(peak=0.7, checkpoint_every_s=45),
        series=device_series(
            seed=100 * seed,
            noise=0.2,
            gpu_busy=square(0.9, 0.05, period_s=45, low_s=3),
            gpu_power_w=square(300, 100, period_s=45, low_s=3),
            sm_active=square(0.75, 0.03, period_s=45, low_s=3),
            tensor_active=0.3,
            dram_active=0.35,
        ),
    )
    found = diagnose([rank])
    assert found.verdict == Slowness.OK, found.findings
