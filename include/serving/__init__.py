"""Serving: the model server that follows desired state, and how it is loaded until it breaks its objective."""
