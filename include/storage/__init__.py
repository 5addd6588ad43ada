"""Clean-up of the object store: inventory, plan (pure), limits, apply."""
