"""Sums with the kernel `exp(−M/ε)`: as matrix products where numbers can hold them.

Every entropic solver needs two sums, `log Σ_j exp(log_v_j − M_ij/ε)` over the support for every
label, and the same over labels for the support. Four ways to take them, cheapest first:

================  ==========================================================================
`AxisProducts`    the cost is a sum over the axes of a grid, so that the kernel is a product over
                  them: one small matrix product per axis, `O(labels^{3/2})` in two dimensions
`Products`        one kernel for the whole batch: a matrix product
`AxisLogSums`     as `AxisProducts`, but term by term in the log domain, for any `M/ε`
`BlockLogSums`    term by term over each example's own block of costs
================  ==========================================================================

Only the last holds a number for every example, target and label; only `Products` one for every
pair of labels. Products can also be tried beyond their range, with the kernel cut off where it
would underflow, and what that neglects bounded afterwards: a steep cost, such as the paper's
`power=13`, has a wide range of which the plan only uses the lower end.
"""

from wassloss.transport.kernel_sums.base import KernelSums
from wassloss.transport.kernel_sums.choice import kernel_sums_of, neglected, shares_kernel
from wassloss.transport.kernel_sums.log_domain import AxisLogSums, BlockLogSums
from wassloss.transport.kernel_sums.products import AxisProducts, KernelProducts, Products

__all__ = [
    "AxisLogSums",
    "AxisProducts",
    "BlockLogSums",
    "KernelProducts",
    "KernelSums",
    "Products",
    "kernel_sums_of",
    "neglected",
    "shares_kernel",
]
