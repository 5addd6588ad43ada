"""Operators: validate, derive a deterministic id, submit or re-attach, defer. No policy, no heavy import."""
