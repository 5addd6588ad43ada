"""From raw sources to prepared datasets: reading, splitting, sharding, encoding and what must hold of the rows."""
