"""The status that a fused kernel gives each example, in increasing order of severity."""

FINE = 0
IGNORED = 1  # does not count: its loss and gradient are 0
UNCONVERGED = 2  # the best result found, but not within the tolerance
INVALID = 3  # an invalid prediction or target: its loss and gradient are NaN
