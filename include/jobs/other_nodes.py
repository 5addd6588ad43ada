"""How an attempt went on its other nodes: the first one tells it for all of them."""

from __future__ import annotations

import logging
import time

from include.core.errors import PlimsollError, PreemptedError, UserError
from include.core.node_place import NodePlace
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.train")
# A node whose worker failed has told it by then; one that is lost tells nothing.
PATIENCE_S = 5.0
_LOOK_EVERY_S = 0.2


def raise_outcome_elsewhere(store: ObjectStore, *, base: str, node: NodePlace, patience_s: float = PATIENCE_S) -> None:
    """Raise what another node failed of, or that it has left at a commit, where this one only saw its peers go away.

    Returns without an error where no node tells of one: then one of them was lost, which is nobody's mistake.

    Args:
        store: Where the nodes leave their outcomes.
        base: Store prefix of the attempt.
        node: This node; only the first one speaks for all.
        patience_s: Seconds to wait for an outcome.

    Raises:
        UserError: On another node a person must change something.
        PreemptedError: Another node has told of the commit at which all of them left.
        PlimsollError: The worker of another node failed.
    """
    if node.rank != 0:
        return
    end = time.monotonic() + patience_s
    while True:
        for rank in range(1, node.nodes):
            outcome = store.get_json(f"{base}/node-{rank}/outcome.json") or {}
            message = f"node {rank}: {outcome.get('error')}"
            if outcome.get("status") == "bad_input":
                raise UserError(message)
            if outcome.get("status") == "preempted":
                raise PreemptedError(step=int(outcome["step"]), checkpoint=str(outcome["checkpoint"]))
            if outcome.get("status") == "error":
                raise PlimsollError(message)
        if time.monotonic() > end:
            _log.warning("no other node tells of a failure: one was lost")
            return
        time.sleep(_LOOK_EVERY_S)
