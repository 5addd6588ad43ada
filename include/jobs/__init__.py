"""Entry points of heavy work: one file per kind of job, one process per attempt."""
