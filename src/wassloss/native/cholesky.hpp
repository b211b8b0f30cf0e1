// Solve small systems by Cholesky decomposition.
#pragma once

#include <math.h>

#include "lanes.hpp"

namespace wassloss::WASSLOSS_ISA {

// Solve `system x = x` in place for `n` unknowns, given the lower triangle. Overwrites `system`;
// returns false if it is not positive definite.
inline bool cholesky_solve(double* system, double* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double* __restrict line = system + j * n;
    for (int64_t k = 0; k <= j; ++k) {
      const double* other = system + k * n;
      const double rest =
          line[k] - sum<double>(k, [=](int64_t i) WASSLOSS_INLINED { return line[i] * other[i]; });
      if (k < j)
        line[k] = rest / other[k];
      else if (rest > 0)  // false for a NaN
        line[j] = ::sqrt(rest);
      else
        return false;
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    const double* line = system + j * n;
    for (int64_t i = 0; i < j; ++i) x[j] -= line[i] * x[i];
    x[j] /= line[j];
  }
  for (int64_t j = n - 1; j >= 0; --j) {
    const double* line = system + j * n;
    x[j] /= line[j];
    for (int64_t i = 0; i < j; ++i) x[i] -= line[i] * x[j];
  }
  return true;
}

}  // namespace wassloss::WASSLOSS_ISA
