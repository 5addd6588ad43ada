"""Foundations shared by every room: ids, clock, errors, processes, the object store port and plain contract types."""
