"""Measurements of artefacts, gates, the Pareto front and the choice among candidates."""
