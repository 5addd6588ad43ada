"""Links from a task to what it made."""
