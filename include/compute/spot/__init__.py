"""When to run on spot capacity, when on demand, when not at all: strategies, and a simulator on traces."""
