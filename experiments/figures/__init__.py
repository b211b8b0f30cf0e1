"""One experiment per file; ``experiments.registry`` lists them all."""
