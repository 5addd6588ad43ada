"""Model factories that workload files may name: ``build(input_shape, classes, **arguments)``."""
