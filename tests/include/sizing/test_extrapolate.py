"""Deep models from two shallow ones, against the trace of the whole."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest

from include.core.contracts.plan import Layout
from include.parallel.layout import Execution
from include.sizing.demand_table import memory_of, work_of
from include.sizing.extrapolate import Repeats, extrapolated_states
from include.sizing.trace import StepShape, trace_states
from include.sizing.trace_cases import sharded_bytes, trace_case, trace_table
from include.training.models import transformer
from include.training.tasks.task import next_token_loss_sum
from tests.support.traced import demand_of


def language_model(*, length, vocabulary, **arguments):
    build = partial(transformer.build, (length,), vocabulary, dropout=0.0, **arguments)
    return StepShape(
        build=build, input_shape=(length,), classes=vocabulary, batch=1, optimizer="adamw",
        execution=Execution(micro_batch=1, precision="bf16"), loss_sum=next_token_loss_sum, target_shape=(length,),
    )  # fmt: skip


def repeated(shape, depth):
    return Repeats(build=lambda blocks: partial(shape.build, depth=blocks)(), depth=depth)


def assert_alike(whole, deep, layouts, tolerance):
    for layout in layouts:
        expected, found = memory_of(whole, layout).total_bytes, memory_of(deep, layout).total_bytes
        assert found == pytest.approx(expected, rel=tolerance), layout
        assert work_of(deep, layout).flop == pytest.approx(work_of(whole, layout).flop, rel=1e-6)
        assert work_of(deep, layout).ops == pytest.approx(work_of(whole, layout).ops, rel=0.01)


@pytest.mark.parametrize(("precision", "recompute"), [("fp32", "off"), ("bf16", "block")])
def test_a_deep_model_follows_from_two_shallow_ones(precision, recompute):
    shape = language_model(length=16, vocabulary=100, width=32, heads=2, depth=6)
    shape = replace(shape, execution=replace(shape.execution, precision=precision, recompute=recompute))
    whole, deep = (demand_of(trace_case(shape, repeats=repeats)) for repeats in (None, repeated(shape, 6)))
    layout = Layout(precision=precision, activation_checkpointing=recompute)
    layouts = [
        replace(layout, micro_batch=batch, accumulation=passes) for batch, passes in ((1, 1), (2, 1), (64, 1), (8, 3))
    ]
    assert_alike(whole, deep, layouts, 0.01)


@pytest.mark.parametrize("depth", [9, 10])
def test_states_are_those_of_the_whole_model(depth):
    shape = language_model(length=16, vocabulary=100, width=32, heads=2, depth=depth)
    repeats = repeated(shape, depth)
    shallow, deeper = (trace_states(replace(shape, build=repeats.builder(blocks))) for blocks in repeats.traced)
    states = extrapolated_states(shallow, deeper, repeats)
    assert sharded_bytes(states.learned, 1) == 4 * sum(p.numel() for p in shape.build().parameters())


@pytest.mark.long
@pytest.mark.timeout(2400)  # the whole model takes minutes of CPU, and many more beside other work
def test_a_model_of_a_billion_parameters_follows_from_two_shallow_ones():
    shape = language_model(length=1024, vocabulary=32_000, width=1792, heads=14, depth=24)
    started = time.process_time()
    deep = trace_table(shape, shards=(1, 2, 8), repeats=repeated(shape, 24))
    cpu_s = time.process_time() - started
    whole = trace_table(shape, shards=(1, 2, 8))
    assert 1.0e9 < sharded_bytes(whole.states.learned, 1) / 4 < 1.2e9
    assert cpu_s < 60
    layouts = [
        Layout(precision="bf16", activation_checkpointing=recompute, micro_batch=batch, shard=shard)
        for recompute in ("off", "block", "selective")
        for batch in (1, 8)
        for shard in (1, 2, 8)
    ]
    assert_alike(demand_of(*whole.cases), demand_of(*deep.cases), layouts, 0.02)
