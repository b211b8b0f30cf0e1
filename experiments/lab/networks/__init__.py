"""Train networks with different losses on the same data, and score their predictions."""
