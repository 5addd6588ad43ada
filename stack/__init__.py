"""The laptop stack: everything behind ``make run``, ``make stop`` and ``make test``."""
