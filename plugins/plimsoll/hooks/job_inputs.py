"""Requests of jobs from the results of earlier tasks: what each kind of job is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from include.config.recipes import contract_recipes
from include.config.run_record import RunRecord
from include.core.contracts.plan import Plan
from include.core.json_codec import to_json
from plimsoll import task_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the fields of a request come from.

    Attributes:
        run: Record of the run.
        pull: Result of a task by its id: a dict; a list of dicts for a mapped task, unless it was mapped over one item.
        item: What distinguishes mapped jobs: the recipe.
        plan: Plan of the run, None before it was made.
    """

    run: RunRecord
    pull: Callable[[str], Any]
    item: str
    plan: Plan | None

    def dataset(self) -> dict[str, Any]:
        """The prepared dataset."""
        return {"dataset": self.pull(task_ids.PREPARE)["dataset"]}

    def mapped(self, task_id: str) -> list[dict[str, Any]]:
        """Results of a mapped task, however many there are: of a single one Airflow gives back no list."""
        found = self.pull(task_id)
        return [result for result in (found if isinstance(found, list) else [found]) if result]

    def candidate(self, recipe: str) -> dict[str, Any]:
        """The artefact that a recipe made."""
        results = [result["candidate"] for result in self.mapped(task_ids.COMPRESS)]
        return dict(next(candidate for candidate in results if candidate["recipe"] == recipe))

    def chosen(self) -> dict[str, Any]:
        """The verdict and the artefact it chose."""
        verdict = self.pull(task_ids.SELECT)["verdict"]
        return {**self.dataset(), "verdict": verdict, "candidate": self.candidate(verdict["chosen"])}


def _train(sources: Sources) -> dict[str, Any]:
    plan = sources.plan
    assert plan is not None
    wanted = sources.run.workload.training.checkpoint_every_steps
    return {
        **sources.dataset(),
        "layout": to_json(plan.layout),
        "fallback_layouts": to_json(plan.fallback_layouts),
        "predicted_peak_bytes": plan.prediction.peak_device_bytes,
        "checkpoint_every_steps": wanted or plan.checkpoint_every_steps,
        # What a person has asked for stays as it is.
        "interruptions_per_h": None if wanted else plan.interruptions_per_h,
        "inputs": {"profile_steps": sources.run.options.profile_steps},
    }


def _compress(sources: Sources) -> dict[str, Any]:
    trained = sources.pull(task_ids.TRAIN)
    recipe = next(r for r in contract_recipes(sources.run.workload.compression) if r.name == sources.item)
    return {
        **sources.dataset(),
        "checkpoint_uri": trained["checkpoint_uri"],
        "recipe": to_json(recipe),
        "inputs": {"weights_uri": trained["weights_uri"], "weights_digest": trained["weights_digest"]},
    }


def _evaluate(sources: Sources) -> dict[str, Any]:
    return {**sources.dataset(), "candidate": sources.candidate(sources.item)}


def _select(sources: Sources) -> dict[str, Any]:
    scorecards = [result["scorecard"] for result in sources.mapped(task_ids.EVALUATE)]
    return {**sources.dataset(), "scorecards": scorecards}


def _register(sources: Sources) -> dict[str, Any]:
    trained, selected = sources.pull(task_ids.TRAIN), sources.pull(task_ids.SELECT)
    return {
        **sources.chosen(),
        "checkpoint_uri": trained["checkpoint_uri"],
        "inputs": {
            "weights_digest": trained["weights_digest"],
            "weights_uri": trained["weights_uri"],
            "picture_uri": selected["picture_uri"],
            "interactive_uri": selected["interactive_uri"],
            "plan": sources.pull(task_ids.PLAN),
        },
    }


def _serve(sources: Sources) -> dict[str, Any]:
    return {**sources.chosen(), "inputs": {"registered": sources.pull(task_ids.REGISTER)}}


_BUILDERS: dict[str, Callable[[Sources], dict[str, Any]]] = {
    "prepare": lambda _: {},
    "validate": Sources.dataset,
    "profile": Sources.dataset,
    "train": _train,
    "compress": _compress,
    "evaluate": _evaluate,
    "select": _select,
    "register": _register,
    "loadtest": _serve,
    "deploy": _serve,
}


def build_inputs(kind: str, sources: Sources) -> dict[str, Any]:
    """Fields of a `JobRequest` that depend on earlier tasks."""
    return _BUILDERS[kind](sources)
