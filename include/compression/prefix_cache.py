"""Cache of recipe prefixes in the object store: ``prefixes/<key>/``.

An entry is a payload named by its own digest and a manifest that is written last, only if absent. Writers of the same
key never disturb each other: payloads with different bytes have different names, and the first manifest wins.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import Any

from include.core.contracts.recipe import RecipeStep
from include.core.ids import content_digest
from include.core.json_codec import to_json
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compression")
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrefix:
    """An entry that was found and whose digest is right.

    Attributes:
        payload: Bytes of the model or of its weights.
        facts: Small facts stored beside it.
    """

    payload: bytes
    facts: dict[str, Any]


def prefix_key(*, origin: dict[str, Any], steps: tuple[RecipeStep, ...]) -> str:
    """Key of a step prefix.

    Args:
        origin: Everything else that shapes the result: weights, data, model, seed, libraries.
        steps: The prefix.
    """
    return content_digest({"format": FORMAT, "origin": origin, "steps": [to_json(step) for step in steps]}, length=32)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCache:
    """Read and write entries.

    Attributes:
        store: Where the entries live.
    """

    store: ObjectStore

    def find(self, key: str) -> CachedPrefix | None:
        """The entry, or None where there is none or its payload is missing or damaged."""
        manifest = self.store.get_json(_manifest_key(key))
        if manifest is None:
            return None
        payload = self.store.get(str(manifest["payload"]))
        if payload is None or hashlib.sha256(payload).hexdigest() != manifest["sha256"]:
            _log.warning("cached prefix %s is damaged and will be made again", key)
            return None
        return CachedPrefix(payload=payload, facts=manifest["facts"])

    def commit(self, key: str, payload: bytes, *, suffix: str, facts: dict[str, Any]) -> CachedPrefix:
        """Store an entry.

        Args:
            key: From `prefix_key`.
            payload: Bytes to keep.
            suffix: File suffix of the payload.
            facts: Small JSON facts.

        Returns:
            The entry that holds from now on: an earlier writer's where there was one, so that all users of a key
            work with the same bytes.
        """
        sha256 = hashlib.sha256(payload).hexdigest()
        payload_key = f"prefixes/{key}/{sha256}{suffix}"
        manifest = {
            "format": FORMAT, "payload": payload_key, "sha256": sha256, "size_bytes": len(payload), "facts": facts,
        }  # fmt: skip
        self.store.put(payload_key, payload)
        if not self.store.create_json(_manifest_key(key), manifest):
            winner = self.find(key)
            if winner is not None:
                return winner
            # The entry in place is damaged. Readers tolerate its absence, so replacing it needs no lock.
            self.store.delete(_manifest_key(key))
            self.store.create_json(_manifest_key(key), manifest)
        return CachedPrefix(payload=payload, facts=facts)


def _manifest_key(key: str) -> str:
    return f"prefixes/{key}/manifest.json"
