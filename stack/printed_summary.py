"""Prints the summary of a run."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from stack.last_run import LastRun, NextRun

_UNKNOWN = "unknown"
_LONGEST_ANSWER = 160


def print_summary(run: LastRun, console: Console) -> None:
    """Everything a person wants to know at the end of a run."""
    console.print()
    console.rule(f"{run.workload}: {run.state}", align="left")
    if run.candidates:
        console.print(candidate_table(run))
    for label, text in lines(run):
        console.print(f"{label:14} {text}", markup=False, highlight=False, soft_wrap=True)
    for problem in run.problems:
        console.print(f"PROBLEM        {problem}", style="bold red", markup=False, highlight=False, soft_wrap=True)


def candidate_table(run: LastRun) -> Table:
    """The candidates with what was measured of them."""
    title = "Candidates: measured on the test split at batch 1; front and choice were taken on validation"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("recipe", no_wrap=True)
    for name in ("accuracy", "95 % interval", "kB", "p50 ms", "p95 ms", "CPU ms", "peak MB"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for item in run.candidates:
        marks = [mark for mark, shown in (("chosen", item.chosen), ("on the front", item.on_front)) if shown]
        table.add_row(
            item.recipe,
            f"{item.accuracy:.4f}",
            f"{item.accuracy_low:.4f} - {item.accuracy_high:.4f}",
            f"{item.size_bytes / 1000:.1f}",
            *(_UNKNOWN if value is None else f"{value:.3f}" for value in (item.p50_ms, item.p95_ms, item.cpu_ms)),
            f"{item.peak_rss_bytes / 1e6:.0f}",
            ", ".join(marks),
            style="bold green" if item.chosen else None,
        )
    return table


def lines(run: LastRun) -> list[tuple[str, str]]:
    """Label and text of each line of the summary."""
    found = [*_plan_lines(run), *_result_lines(run), *_account_lines(run), *_learned_lines(run)]
    return [*found, *((name, url) for name, url in run.urls.items())]


def _plan_lines(run: LastRun) -> list[tuple[str, str]]:
    found = []
    if run.prepared:
        how = "found again, not prepared twice" if run.prepared.found else "prepared now"
        found.append(("Data", f"{run.prepared.fingerprint}, {how}"))
    if run.plan:
        plan = run.plan
        predicted = f"{_figure(plan.predicted_s, 's', '.3g')} and {_figure(plan.predicted_usd, 'USD', '.3g')} predicted"
        found += [
            ("Plan", f"{plan.offer}, {predicted}; {plan.rule}"),
            ("Alternatives", f"{plan.alternatives} could be taken, {plan.rejected} rejected, each with its reason"),
        ]
        found += [("  next best", text) for text in plan.best_alternatives]
        for label, text in (
            ("  anywhere", plan.best_anywhere),
            ("  unsized", plan.naive),
            ("  saving", plan.saving),
        ):
            found += [(label, text)] if text else []
    if run.attempts:
        lost = _UNKNOWN if run.steps_lost is None else str(run.steps_lost)
        found.append(
            ("Training", f"{len(run.attempts)} attempts, {run.interruptions} interruptions survived, {lost} steps lost")
        )
    if run.diagnosis:
        fix = f"; try: {run.diagnosis.fix}" if run.diagnosis.fix else ""
        found.append(("  verdict", f"{run.diagnosis.verdict}: {run.diagnosis.reason}{fix}"))
    return found


def _learned_lines(run: LastRun) -> list[tuple[str, str]]:
    known = [row for row in run.compared if row.ratio is not None]
    found = []
    if known:
        rows = ", ".join(f"{row.what} {row.ratio:.3g}" for row in known)
        found.append(("Measured", f"as a multiple of the prediction: {rows}"))
    if run.next_run:
        found += _next_run_lines(run.next_run)
    return found


def _next_run_lines(advice: NextRun) -> list[tuple[str, str]]:
    offer = f"{advice.instances} x {advice.instance_type}, {advice.purchase}"
    how = f"micro-batch {advice.micro_batch}, {advice.workers} workers"
    found = [("Next run", f"{advice.action}: {offer}, {how}; {advice.reason}")]
    if advice.fix:
        found.append(("  try", advice.fix))
    if advice.saving_usd is not None and advice.saving_share is not None:
        word = "saves" if advice.saving_usd >= 0 else "costs more:"
        share = f"{abs(advice.saving_usd):.3g} USD, {abs(advice.saving_share):.0%} of this training"
        found.append(("  money", f"{word} {share} ({advice.method})"))
    spread = "" if advice.spread is None else f", their spread is {advice.spread:.2g}"
    return [*found, ("  confidence", f"{advice.confidence}: {advice.runs} runs of this kind{spread}")]


def _result_lines(run: LastRun) -> list[tuple[str, str]]:
    found = []
    if run.chosen and run.size_ratio is not None and run.accuracy_drop is not None:
        smaller = f"{run.size_ratio:.2f} times smaller than fp32 ONNX"
        drop = f"accuracy drop {100 * run.accuracy_drop:.2f} points"
        found.append(("Chosen", f"{run.chosen}: accuracy {run.accuracy:.4f} on test, {smaller}, {drop}"))
    if run.registered:
        new = "new version" if run.registered.created else "version found again, nothing registered twice"
        found.append(("Registered", f"{run.registered.name} {run.registered.version} ({run.registered.alias}), {new}"))
    if run.deployment:
        agrees = "as" if run.endpoint_agrees else "NOT as"
        rows = run.deployment.agreement_rows
        found.append(("Endpoint", f"answers {rows} test rows {agrees} the registered version in a fresh process"))
    if run.prediction:
        answer = json.dumps(run.prediction.answer)[:_LONGEST_ANSWER]
        found.append(("Prediction", f"{run.prediction.status} in {run.prediction.latency_ms:.1f} ms: {answer}"))
    return found


def _account_lines(run: LastRun) -> list[tuple[str, str]]:
    found = [
        ("Cost", f"{_figure(run.cost.usd, 'USD', '.6f')} ({run.cost.method})"),
        ("Energy", f"{_figure(run.energy.kwh, 'kWh', '.6f')} ({run.energy.method})"),
        ("Carbon", f"{_figure(run.carbon.gco2e, 'gCO2e', '.4f')} ({run.carbon.method})"),
    ]
    if run.storage:
        deleted, aside = run.storage.deleted_bytes / 1e6, run.storage.quarantined_bytes / 1e6
        would = " (dry run: nothing was touched)" if run.storage.dry_run else ""
        found.append(("Storage", f"{deleted:.2f} MB reclaimed, {aside:.2f} MB moved to quarantine{would}"))
    found.append(("Leases left", str(run.leases_left)))
    taken = run.durations
    parts = [f"stack {taken.stack_s:.1f} s"]
    parts += [] if taken.setup_s is None else [f"set-up {taken.setup_s:.1f} s"]
    parts += [] if taken.run_s is None else [f"run {taken.run_s:.1f} s"]
    return [*found, ("Time", ", ".join(parts))]


def _figure(value: float | None, unit: str, form: str) -> str:
    return _UNKNOWN if value is None else f"{value:{form}} {unit}"
