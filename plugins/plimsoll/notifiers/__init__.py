"""Tells people what happened to rented capacity."""
