"""Triggers: wait for documents in the object store without blocking the event loop."""
