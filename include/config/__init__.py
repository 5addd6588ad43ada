"""Workload files, settings and the wire formats of jobs: the pydantic edge of the engine."""
