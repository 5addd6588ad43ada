"""Capacity: the engine port, its adapters, the agent that runs jobs on leased capacity, and recovery decisions."""
