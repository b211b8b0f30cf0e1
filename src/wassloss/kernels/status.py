"""What a fused kernel says of each example, in the order of how much it matters."""

FINE = 0
IGNORED = 1  # does not count: its loss and gradient are 0
UNCONVERGED = 2  # the best that was found, but not within the tolerance
INVALID = 3  # a prediction or target that makes no sense: its loss and gradient are NaN
