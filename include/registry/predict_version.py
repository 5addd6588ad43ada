"""``python -m include.registry.predict_version``: score rows with a registered version, in a fresh process.

Nothing of the process that deploys, no cache and no object of it, can then have helped the version to its answers.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from include.core.process import die_with_parent
from include.registry.mlflow_registry import MlflowRegistry


def main(argv: list[str]) -> None:
    """Read rows from a ``.npy`` file and write logits to another."""
    parser = argparse.ArgumentParser(prog="python -m include.registry.predict_version", description=__doc__)
    parser.add_argument("--registry", required=True, help="tracking URI")
    parser.add_argument("--model", required=True, help="registered model")
    parser.add_argument("--version", required=True)
    parser.add_argument("--rows", type=Path, required=True, help="encoded rows, float32")
    parser.add_argument("--out", type=Path, required=True, help="where the logits go")
    arguments = parser.parse_args(argv)
    rows = np.load(arguments.rows, allow_pickle=False)
    score = MlflowRegistry(arguments.registry).load(arguments.model, arguments.version)
    # Row by row, as the endpoint is asked: kernels may round differently for another batch size.
    logits = np.concatenate([score(row[None]) for row in rows])
    np.save(arguments.out, logits, allow_pickle=False)


if __name__ == "__main__":
    die_with_parent()
    main(sys.argv[1:])
    # MLflow's teardown costs about a second and has nothing left to do.
    os._exit(0)
