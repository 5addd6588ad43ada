"""What a training learns: loss, metric and data of each task. Workload files may name functions of this package."""
