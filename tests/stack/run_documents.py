"""Writes the documents of a run into a store, as the jobs and operators do."""

from include.core.contracts.scorecard import Latency, Scorecard, Verdict
from include.core.json_codec import to_json

PREFIX = "runs/digits/manual-1"
PRICE = {"usd_per_h": "0.1", "as_of": "2026-01-01", "source": "s", "method": "quoted"}


def offer(name, purchase="local"):
    return {
        "instance_type": name,
        "engine": "local",
        "purchase": purchase,
        "region": "local",
        "zone": None,
        "accelerator": None,
        "accelerators": 0,
        "accelerator_memory_bytes": None,
        "accelerator_tflops": {},
        "memory_bandwidth_bytes_per_s": None,
        "vcpus": 2,
        "ram_bytes": 1,
        "local_ssd_bytes": None,
        "network": None,
        "idle_w": None,
        "peak_w": None,
        "price": PRICE,
        "facts_as_of": "2026-01-01",
        "facts_source": "s",
    }


PREDICTION = {"time_s": 9.0, "usd": 0.5, "kwh": None, "gco2e": None, "peak_device_bytes": 1, "method": "estimated"}
PLAN = {
    "offer": offer("this-machine"),
    "layout": {},
    "prediction": PREDICTION,
    "checkpoint_every_steps": 40,
    "objective": "cost",
    "rule": "the only offer",
    "alternatives": [
        {"offer": offer("g6.xlarge", "spot"), "prediction": PREDICTION, "rejected": None},
        {"offer": offer("p5.48xlarge", "on-demand"), "prediction": None, "rejected": "over the budget"},
    ],
    "naive": None,
}


def scorecard(recipe, *, accuracy, size):
    return Scorecard(
        recipe=recipe,
        recipe_hash="h",
        model_uri="file:///m",
        sha256="s",
        size_bytes=size,
        rows=360,
        accuracy=accuracy,
        accuracy_low=accuracy - 0.01,
        accuracy_high=accuracy + 0.01,
        validation_accuracy=accuracy,
        latencies=(Latency(batch=1, p50_ms=0.1, p95_ms=0.2, cpu_ms=0.15, calls=100),),
        peak_rss_bytes=50_000_000,
        runtime="r",
    )


def verdict():
    return Verdict(
        chosen="static-int8",
        reason="smallest within the limits",
        front=("onnx-fp32", "static-int8"),
        checks=(),
        scorecards=(
            scorecard("onnx-fp32", accuracy=0.98, size=400_000),
            scorecard("static-int8", accuracy=0.975, size=100_000),
        ),
    )


KNOWN = {"usd": "0.000125", "list_usd": "0", "kwh": 0.0004, "gco2e": 0.0, "useful_s": 1, "lost_s": 0, "idle_s": 0}
TOTALS = {
    "usd": "0.000125",
    "kwh": 0.0004,
    "gco2e": None,
    "cost_methods": ["estimated: tariff"],
    "energy_methods": ["estimated: power model", "measured: counter"],
    "known_part": KNOWN,
}


COMPARED = [
    {"what": "step", "unit": "s", "predicted": 0.01, "measured": 0.02, "ratio": 2.0, "method": "median of 300 steps"},
    {"what": "memory", "unit": "bytes", "predicted": 1.0, "measured": None, "ratio": None, "method": "not measured"},
]
ADVICE = {
    "action": "smaller GPU",
    "reason": "30 % of the memory is used",
    "fix": "a slice of it",
    "instance_type": "g6.xlarge",
    "instances": 1,
    "purchase": "spot",
    "micro_batch": 64,
    "workers": 1,
    "saving_usd": 0.3,
    "saving_share": 0.6,
    "price_now": "1.0 USD/h as of 2026-01-01",
    "price_then": "0.4 USD/h as of 2026-01-01",
    "method": "two predictions",
    "confidence": {"level": "medium", "runs": 4, "spread": 1.2},
}
TRAINED = {
    "checkpoint_uri": "file:///c",
    "weights_uri": "file:///w",
    "weights_digest": "d",
    "steps": 300,
    "resumed_step": 135,
    "metrics": {"validation_accuracy": 0.98},
    "samples_per_s": 900.0,
    "checkpoint_save_s": 0.1,
    "useful_s": 2.5,
    "diagnosis": {"verdict": "data-bound", "reason": "40 % of the time the loop waits for data", "fix": "more workers"},
}


def attempt(store, number, *, resumed=None, executed=None, exit_code=0):
    base = f"{PREFIX}/jobs/train-{number}"
    store.put_json(f"{base}/heartbeat.json", {"sequence": 1, "at": "t", "state": "exited", "exit_code": exit_code})
    if resumed is not None:
        store.put_json(f"{base}/steps.json", {"resumed_step": resumed, "last_executed_step": executed})


def whole_run(store, *, url="http://127.0.0.1:1/digits/invocations", agrees=True):
    """All documents of a run that went well, with one interruption."""
    attempt(store, 1, resumed=0, executed=135, exit_code=75)
    attempt(store, 2, resumed=135, executed=300)
    store.put_json(f"{PREFIX}/jobs/train-2/result.json", TRAINED)
    store.put_json(f"{PREFIX}/plan.json", PLAN)
    store.put_json(f"{PREFIX}/selection/verdict.json", to_json(verdict()))
    store.put_json(f"{PREFIX}/report.json", {"totals": TOTALS})
    store.put_json(f"{PREFIX}/learned.json", {"outcome": "done", "compared": COMPARED, "recommendation": ADVICE})
    cleanup = {"dry_run": False, "quarantined_bytes": 10, "deleted_bytes": 20, "kept": 1}
    store.put_json(f"{PREFIX}/cleanup.json", cleanup)
    dataset = {"uri": "file:///d", "fingerprint": "f00", "rows": {"train": 1000, "test": 360}}
    store.put_json(f"{PREFIX}/jobs/prepare-1/result.json", {"dataset": dataset, "found": True})
    registered = {"model_name": "digits", "version": "3", "created": False, "mlflow_run_id": "r"}
    registered |= {"alias": "challenger", "sha256": "s"}
    store.put_json(f"{PREFIX}/jobs/register-1/result.json", registered)
    deployed = {"endpoint": "digits", "url": url, "version": "3", "previous": "2", "rolled_back": False}
    deployed |= {"sample": {"request": {"inputs": [[1]]}}, "agreement_rows": 200, "agrees": agrees}
    store.put_json(f"{PREFIX}/jobs/deploy-1/result.json", deployed)
