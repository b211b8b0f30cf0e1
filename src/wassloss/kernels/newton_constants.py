"""The constants of Newton's method on the semi-dual, shared by its torch and compiled versions."""

# The largest M/ε of the first stage, at which hardly any share is negligible. It includes the shift
# of potentials due to unequal masses, which would otherwise take too many steps of size ε.
FIRST_EXPONENT = 20.0
STAGE_FACTOR = 4.0  # how much ε shrinks from one stage to the next
STAGE_TOLERANCE = 0.3  # the first stage only has to bring g near enough for the next one
# The tolerance shrinks with ε. Once ε is below the gaps between costs, the objective is almost
# piecewise linear, and an error left to the next stage may take many steps of size ε.
LAST_STAGE_TOLERANCE = 1e-3
SUFFICIENT_INCREASE = 0.1  # Armijo's constant: large enough to refuse overshooting zigzags
SHRINK = 0.25  # factor of a refused step
SMALLEST_STEP = 1e-3  # below it, take a Sinkhorn update instead
RIDGE = 1e-2  # relative to the error
LONGEST_STEP = 20.0  # in units of ε: exponentials make longer steps meaningless
# The stand-in for log 0 in relaxed plans: beyond any difference of costs over ε.
NO_LOG_MASS = -1e9
