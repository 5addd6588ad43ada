"""Which capacity to try now: candidates from the plan, what is known of them, and strategies by name."""
