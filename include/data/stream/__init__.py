"""Stream a dataset that does not fit into memory: shards from any store through a cache on a local disk."""
