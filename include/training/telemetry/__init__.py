"""Telemetry of a training: where the time of each step goes, and what the device and the machine did meanwhile.

Nothing here imports torch at its head, and what a machine cannot measure is None, never 0.
"""
