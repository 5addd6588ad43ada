import hashlib

import pytest

from include.compression.prefix_cache import PrefixCache, prefix_key
from include.core.contracts.recipe import DistillStep, ExportStep, PruneStep

ORIGIN = {"weights": "w", "dataset": "d", "seed": 7}
KEY = prefix_key(origin=ORIGIN, steps=(ExportStep(),))


@pytest.fixture
def cache(any_store):
    return PrefixCache(store=any_store)


def damage(store, key=KEY):
    name = store.get_json(f"prefixes/{key}/manifest.json")["payload"]
    content = bytearray(store.get(name))
    content[3] ^= 1
    store.put(name, bytes(content))


def test_an_entry_is_found_again_with_its_facts(cache):
    assert cache.find(KEY) is None
    cache.commit(KEY, b"model bytes", suffix=".onnx", facts={"parameters": 12})
    found = cache.find(KEY)
    assert (found.payload, found.facts) == (b"model bytes", {"parameters": 12})


def test_a_payload_without_its_manifest_does_not_exist(cache, any_store):
    any_store.put(f"prefixes/{KEY}/{hashlib.sha256(b'half').hexdigest()}.onnx", b"half")
    assert cache.find(KEY) is None


def test_the_first_writer_wins_and_the_second_works_with_its_bytes(cache):
    cache.commit(KEY, b"first bytes", suffix=".onnx", facts={"parameters": 1})
    second = cache.commit(KEY, b"other bytes", suffix=".onnx", facts={"parameters": 2})
    assert (second.payload, second.facts) == (b"first bytes", {"parameters": 1})
    assert cache.find(KEY) == second


def test_a_damaged_payload_is_not_used(cache, any_store, caplog):
    cache.commit(KEY, b"model bytes", suffix=".onnx", facts={})
    damage(any_store)
    assert cache.find(KEY) is None
    assert "damaged" in caplog.text


def test_a_lost_payload_is_not_used(cache, any_store):
    cache.commit(KEY, b"model bytes", suffix=".onnx", facts={})
    any_store.delete(any_store.get_json(f"prefixes/{KEY}/manifest.json")["payload"])
    assert cache.find(KEY) is None


@pytest.mark.parametrize("again", [b"model bytes", b"newer bytes"])
def test_a_damaged_entry_is_repaired_by_the_next_writer(cache, any_store, again):
    cache.commit(KEY, b"model bytes", suffix=".onnx", facts={"parameters": 1})
    damage(any_store)
    assert cache.commit(KEY, again, suffix=".onnx", facts={"parameters": 1}).payload == again
    assert cache.find(KEY).payload == again


def test_everything_that_shapes_the_result_is_in_the_key():
    keys = {
        KEY,
        prefix_key(origin={**ORIGIN, "weights": "other"}, steps=(ExportStep(),)),
        prefix_key(origin={**ORIGIN, "dataset": "other"}, steps=(ExportStep(),)),
        prefix_key(origin=ORIGIN, steps=(ExportStep(opset=21),)),
        prefix_key(origin=ORIGIN, steps=(PruneStep(), ExportStep())),
        prefix_key(origin=ORIGIN, steps=(PruneStep(ratio=0.4), ExportStep())),
        prefix_key(origin=ORIGIN, steps=(PruneStep(), DistillStep(), ExportStep())),
        prefix_key(origin=ORIGIN, steps=(PruneStep(), DistillStep())),
    }
    assert len(keys) == 8
    assert prefix_key(origin=dict(reversed(ORIGIN.items())), steps=(ExportStep(),)) == KEY
