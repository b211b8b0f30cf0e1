// KL on softened labels: the metric spreads each label over its neighbours.
//
// A label κ becomes `softmax(−per_softening M_·κ)`, and a target the mixture of its labels.
#pragma once

#include "softmax.hpp"

namespace wassloss::WASSLOSS_ISA {

// Write the unnormalised softened label for these costs to `powers` and its logarithm to `logs`;
// return its sum.
template <class T>
WASSLOSS_INLINE double soften(int64_t labels, const T* cost, double per_softening, T* logs,
                              T* powers) {
  const auto argument = [=](int64_t i) WASSLOSS_INLINED { return -cost[i]; };
  return exponentials<T>(labels, T(per_softening), argument, logs, powers).total;
}

// `Σ s log(s / softmax(x))` for the softened label `s` with these costs, where `exponentials` of
// `x` gave `found`; subtracts `weight s` from the gradient. `logs` and `powers` are scratch (padded
// labels).
template <class T>
double softened_kl(int64_t labels, const T* cost, double per_softening, const T* x,
                   const Exponents& found, double weight, T* __restrict logs, T* __restrict powers,
                   T* __restrict gradient) {
  const double total = soften(labels, cost, per_softening, logs, powers);
  const T low = T(Precision<T>::lowest_log_mass), share = T(weight / total);
  const T largest = T(found.largest);  // subtracted first: large logits would cancel in the sum
  const double divergence = sum<T>(labels, [=](int64_t i) WASSLOSS_INLINED {
    const T v = logs[i], e = powers[i];
    gradient[i] -= share * e;
    return e * ((v < low ? low : v) - (x[i] - largest));
  });
  return divergence / total - ::log(total) + ::log(found.total);
}

// Add `weight softmax(−per_softening cost)` to `soft`.
template <class T>
void add_softened(int64_t labels, const T* cost, double weight, double per_softening,
                  T* __restrict logs, T* __restrict powers, T* __restrict soft) {
  const double total = soften(labels, cost, per_softening, logs, powers);
  const T share = T(weight / total);
  each(labels, [=](int64_t i) WASSLOSS_INLINED { soft[i] += share * powers[i]; });
}

// `Σ s log(s / softmax(x))` for shares `s` of any sum; adds `weight` times its gradient.
template <class T>
double kl_of_shares(int64_t labels, const T* soft, double mass, const T* x, double weight,
                    T* __restrict logs, T* __restrict powers, T* __restrict gradient) {
  const double total = exponentials(labels, x, logs, powers).total;
  const T shift = T(::log(total)), share = T(mass / total), kl = T(weight);
  const T least = T(Precision<T>::smallest_mass);
  return sum<T>(labels, [=](int64_t i) WASSLOSS_INLINED {
    const T s = soft[i];
    gradient[i] += kl * (share * powers[i] - s);
    return s * (lanes::log(s < least ? least : s) - (logs[i] - shift));
  });
}

}  // namespace wassloss::WASSLOSS_ISA
