// The optimal potential of one target, given the potentials of the labels.
#pragma once

#include "semi_dual.hpp"

namespace wassloss::WASSLOSS_ISA {

// `g_j = ρ_y ε (log y_j − β_j − log Σ_i exp(α_i + (f_i − M_ij)/ε))`, without the table of shares.
// `exponents` is scratch (padded labels).
template <class T>
double best_potential(const wassloss_settings& settings, const Example<T>& at, int64_t j,
                      const T* f, T* __restrict exponents) {
  const double epsilon = settings.epsilon;
  const T rate = T(1 / epsilon), low = T(Precision<T>::negligible);
  const T follow = settings.product ? T(1) : T(0);
  const T *cost = at.cost[j], *log_h = at.log_h;
  const T top = maximum<T>(at.labels, [=](int64_t i) WASSLOSS_INLINED {
    return exponents[i] = rate * (f[i] - cost[i]) + follow * log_h[i];
  });
  const double total = sum<T>(at.labels, [=](int64_t i) WASSLOSS_INLINED {
    const T v = exponents[i] - top;
    return lanes::exp(v < low ? low : v);
  });
  const double beta = settings.product ? at.log_y[j] : -1;
  const double log_sum = double(top) + ::log(total);
  return damping(settings.gamma_y, epsilon) * epsilon * (at.log_y[j] - beta - log_sum);
}

}  // namespace wassloss::WASSLOSS_ISA
