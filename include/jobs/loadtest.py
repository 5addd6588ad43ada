"""Job ``loadtest``: how many requests a second the chosen artefact serves within its objective, and what that costs.

A private server, the same program as the supervised one, is loaded from this process. Generator and server share the
machine, so the rate is a floor; a generator that lags makes a failed probe invalid instead of failed. Inputs:
``registered`` (result of register) and ``usd_per_h`` (decimal string, or null where the price is not known).
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
from dataclasses import replace
from decimal import Decimal

from include.config.job_messages import LoadPoint, LoadTestResult, RegisterResult
from include.data.encoding import load_split, read_manifest
from include.jobs.chosen_artefact import chosen_scorecard, required_dataset
from include.jobs.context import JobContext
from include.serving.cost import cost_per_1000
from include.serving.desired import ServedVersion
from include.serving.knee import Knee, Probe, SearchSettings, find_knee
from include.serving.loadgen import LoadSettings, send_load
from include.serving.private_server import PrivateServer, private_server

_BODIES = 64


def run(context: JobContext) -> LoadTestResult:
    """Raise the rate until the p99 latency exceeds the objective of the workload.

    Raises:
        UserError: The request lacks something.
    """
    request = context.request
    slo_p99_ms = request.workload.serving.slo_p99_ms
    bodies = _bodies(context)
    with private_server(
        store=context.store,
        settings=context.settings,
        prefix=f"{request.base}/server",
        endpoint=request.workload.endpoint,
        served=_served(context),
        log=context.job_dir / "model-server.log",
    ) as server:
        load = LoadSettings(timeout_s=max(1.0, 5 * slo_p99_ms / 1000))
        prober = _Prober(context, server, bodies, load)
        knee = find_knee(prober.probe, slo_p99_ms=slo_p99_ms, settings=SearchSettings())
    result = _result(context, knee, load)
    context.store.put_json(
        f"{request.run_prefix}/serving/loadtest-{request.attempt}.json", result.model_dump(mode="json")
    )
    return result


def _served(context: JobContext) -> ServedVersion:
    request = context.request
    scorecard, dataset = chosen_scorecard(request), required_dataset(request)
    registered = request.inputs.get("registered")
    version = RegisterResult.model_validate(registered).version if registered else scorecard.recipe_hash
    return ServedVersion(
        model_name=request.workload.registry.model_name,
        version=version,
        model_uri=scorecard.model_uri,
        sha256=scorecard.sha256,
        manifest_uri=dataset.uri,
    )


def _bodies(context: JobContext) -> list[bytes]:
    """One row of the test split per request: the traffic of a client that asks about one thing at a time."""
    manifest = read_manifest(context.store, required_dataset(context.request).uri)
    rows, _ = load_split(context.store, manifest, "test")
    return [json.dumps({"inputs": [row.round(6).tolist()]}).encode() for row in rows[:_BODIES]]


class _Prober:
    """Runs probes, each with other arrival times, and reads the server's CPU time around them."""

    def __init__(self, context: JobContext, server: PrivateServer, bodies: list[bytes], load: LoadSettings) -> None:
        self._context = context
        self._server = server
        self._bodies = bodies
        self._load = load
        self._count = 0

    def probe(self, rate_per_s: float) -> Probe:
        self._count += 1
        settings = replace(self._load, seed=self._count)
        before = self._server.cpu_s()
        probe = asyncio.run(send_load(self._server.url, self._bodies, rate_per_s=rate_per_s, settings=settings))
        used = self._server.cpu_s() - before
        limit = SearchSettings().max_probes
        self._context.progress(fraction=self._count / limit, rate_per_s=round(rate_per_s), p99_ms=probe.p99_ms)
        return replace(probe, cpu_ms_per_request=1000 * used / probe.sent) if probe.sent else probe


def _result(context: JobContext, knee: Knee, load: LoadSettings) -> LoadTestResult:
    price = context.request.inputs.get("usd_per_h")
    usd_per_h = None if price is None else Decimal(str(price))
    best = knee.last_good
    usd = cost_per_1000(usd_per_h=usd_per_h, rate_per_s=best.rate_per_s if best else None)
    return LoadTestResult(
        slo_p99_ms=context.request.workload.serving.slo_p99_ms,
        last_good_rate_per_s=best.rate_per_s if best else None,
        upper_side=knee.upper_side,
        curve=tuple(
            LoadPoint(
                rate_per_s=probe.rate_per_s,
                p99_ms=probe.p99_ms,
                errors=probe.errors,
                requests=probe.requests,
                generator_lag_p99_ms=probe.generator_lag_p99_ms,
                verdict=verdict,
            )
            for probe, verdict in knee.curve
        ),
        cpu_ms_per_request=best.cpu_ms_per_request if best else None,
        usd_per_1000=None if usd is None else float(usd),
        method=_method(usd_per_h, load, len(knee.curve)),
    )


def _method(usd_per_h: Decimal | None, load: LoadSettings, probes: int) -> str:
    rate = (
        f"rate measured: {probes} open-loop Poisson probes of {load.duration_s:g} s, one row per request, generator on "
        f"the same machine ({os.cpu_count()} CPUs, {platform.machine()})"
    )
    if usd_per_h is None:
        return f"{rate}; cost unknown: no price for this capacity"
    return f"{rate}; cost computed from {usd_per_h} USD per hour at full use of the last good rate, which is a floor"
