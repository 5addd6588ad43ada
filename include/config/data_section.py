"""The ``data`` section of a workload file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from include.config.schedule import Edge


class DigitsSource(Edge):
    """The 1,797 handwritten digits that ship with scikit-learn: columns pixel_0..pixel_63 and the label ``digit``."""

    kind: Literal["digits"]


class PackageSource(Edge):
    """A data file that an installed library ships."""

    kind: Literal["package"]
    package: str = Field(description="Import name of the installed package.", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    path: str = Field(description="Path of the file inside the package.")

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        if value.startswith("/") or ".." in value.split("/"):
            raise ValueError("path must stay inside the package: relative, without '..'")
        return value


class UriSource(Edge):
    """A CSV, JSONL, Parquet, ORC or Feather file, a folder of images per class, or WebDataset archives."""

    kind: Literal["uri"]
    uri: str = Field(description="Path under a data root, or an object-store URI (s3://, gs://, az://, file://).")
    image_size: int | None = Field(default=None, ge=4, le=512, description="Side in pixels to scale images to.")

    @field_validator("uri")
    @classmethod
    def _no_escape(cls, value: str) -> str:
        scheme, sep, rest = value.partition("://")
        if ".." in (rest if sep else value).split("/"):
            raise ValueError("path leaves the data roots: '..' is not allowed")
        if sep and scheme not in {"s3", "gs", "az", "file"}:
            raise ValueError(f"scheme {scheme!r} is not allowed; allowed: s3, gs, az, file")
        if sep and "@" in rest.split("/")[0]:
            raise ValueError("a URI carries no credentials; they come from the environment or a connection")
        return value


Source = Annotated[DigitsSource | PackageSource | UriSource, Field(discriminator="kind")]


class Split(Edge):
    """Shares of rows, assigned by a stable hash of each row; the rest is the training split."""

    validation: float = Field(default=0.15, gt=0, lt=0.5)
    test: float = Field(default=0.2, gt=0, lt=0.5)

    @model_validator(mode="after")
    def _leaves_training(self) -> Split:
        if self.validation + self.test > 0.7:  # noqa: PLR2004 - at least 30 % must remain
            raise ValueError("validation + test must leave at least 0.3 of the rows for training")
        return self


class Expectation(Edge):
    """One Great Expectations expectation by its type name, with its arguments."""

    type: str = Field(pattern=r"^expect_[a-z0-9_]+$", description="For example expect_column_values_to_be_between.")
    arguments: dict[str, Any] = Field(default_factory=dict)


class DataSection(Edge):
    """Where the rows come from, what is predicted, and what must hold of them."""

    source: Source
    label: str = Field(min_length=1, description="Name of the column to predict.")
    drop: tuple[str, ...] = Field(default=(), description="Columns that are not inputs.")
    image_shape: tuple[int, int, int] | None = Field(
        default=None, description="Channels, height, width: reshape the numeric columns to an image."
    )
    split: Split = Split()
    max_null_share: float = Field(default=0.5, ge=0, le=1, description="Largest share of nulls in an input column.")
    min_class_share: float = Field(default=0.01, ge=0, le=1, description="Smallest share of rows of a class.")
    max_duplicate_share: float = Field(default=0.05, ge=0, le=1, description="Largest share of repeated rows.")
    expectations: tuple[Expectation, ...] = ()
