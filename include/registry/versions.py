"""What the registry is told and what it answers, in plain types that need no MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from include.core.errors import PlimsollError

CHAMPION = "champion"
CHALLENGER = "challenger"
PREVIOUS = "previous"


class RegistryError(PlimsollError):
    """The registry cannot be read or does not hold what it should; whoever meant to delete must delete nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a version came from; every field becomes a tag of the version.

    Attributes:
        sha256: Digest of the ONNX file: the identity of the version.
        model_uri: Store URI of the ONNX file.
        manifest_uri: Store URI of the dataset manifest.
        data_fingerprint: Fingerprint of the dataset.
        code_version: Version of the code that made it.
        checkpoint_uri: Checkpoint that it was made from.
        weights_digest: Digest of that checkpoint's weights.
        recipe: Name of the recipe.
    """

    sha256: str
    model_uri: str
    manifest_uri: str
    data_fingerprint: str
    code_version: str
    checkpoint_uri: str
    weights_digest: str
    recipe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """The run that something belongs to.

    Attributes:
        workload: Name of the workload, which is the experiment.
        run_id: Airflow's run id.
    """

    workload: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """One point of a series in the registry's run.

    Attributes:
        name: Name of the series.
        value: The value.
        step: Where on the axis of steps.
        at_ms: When, milliseconds since 1970.
    """

    name: str
    value: float
    step: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What to register.

    Attributes:
        run: The run that made it.
        model_name: Registered model.
        model: Bytes of the ONNX file.
        input_shape: Shape of one encoded sample.
        classes: Number of classes.
        lineage: Where it came from.
        documents: File name -> content, kept with the run: recipe, verdict, scorecards, pictures.
        metrics: Figures of the chosen candidate, kept with the run.
    """

    run: RunKey
    model_name: str
    model: bytes
    input_shape: tuple[int, ...]
    classes: int
    lineage: Lineage
    documents: Mapping[str, bytes] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredVersion:
    """One version as the registry holds it.

    Attributes:
        model_name: Registered model.
        version: Its version.
        mlflow_run_id: MLflow run that holds the artefact.
        aliases: Aliases that point to it.
        lineage: Where it came from; None for a version that Plimsoll did not register.
    """

    model_name: str
    version: str
    mlflow_run_id: str
    aliases: tuple[str, ...]
    lineage: Lineage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Answer to a registration.

    Attributes:
        version: The version.
        created: False when the digest was registered before.
    """

    version: RegisteredVersion
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReference:
    """What one registered version still needs: nothing here may be deleted.

    Attributes:
        model_name: Registered model.
        version: Its version.
        sha256: Digest of its artefact.
        model_uri: Store URI of its artefact.
        checkpoint_uri: Store URI of the checkpoint that it was made from.
        manifest_uri: Store URI of its dataset's manifest.
    """

    model_name: str
    version: str
    sha256: str
    model_uri: str
    checkpoint_uri: str
    manifest_uri: str
