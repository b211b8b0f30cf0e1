"""The constants of Newton's method on the semi-dual, shared by its torch and compiled versions."""

# The largest M/ε of the first stage, where hardly a share is negligible; also the largest
# potential caused by unequal masses that is not too far to go in steps of ε.
FIRST_EXPONENT = 20.0
STAGE_FACTOR = 4.0  # how much ε shrinks from one stage to the next
STAGE_TOLERANCE = 0.3  # the first stage only has to bring g near enough for the next one
# The tolerance shrinks with ε. Once ε is below the gaps between costs, the objective is almost
# piecewise linear, and an error left to the next stage may be a long way to go in steps of ε.
LAST_STAGE_TOLERANCE = 1e-3
SUFFICIENT_INCREASE = 0.1  # Armijo's constant: large enough to refuse overshooting zigzags
SHRINK = 0.25  # factor for a step that was refused
SMALLEST_STEP = 1e-3  # below it, take a Sinkhorn update instead
RIDGE = 1e-2  # relative to the error
LONGEST_STEP = 20.0  # in units of ε: exponentials make longer steps meaningless
# The log of no mass to a relaxed plan: beyond any difference of costs over ε.
NO_LOG_MASS = -1e9
