"""The model registry: versions, aliases and where each version came from."""
