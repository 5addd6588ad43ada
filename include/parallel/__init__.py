"""Applying a layout to a model. Sizing traces with it and training runs with it, so both speak of the same step."""
