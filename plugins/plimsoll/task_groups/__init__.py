"""Task groups that several DAGs or stages share."""
