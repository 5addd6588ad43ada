"""Adapters of the engine port: the only files of this room that start agents or talk to a cloud."""
