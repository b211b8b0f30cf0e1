// Algorithm 1: a fixed number of matrix scalings from `f = 0`, for one balanced example.
//
// Because `f` is optimal for `g`, the shares computed for `f` are also those of the plan, and the
// column sums of the next iteration need no exponentials of their own.
#pragma once

#include "best_potential.hpp"
#include "newton.hpp"

namespace wassloss::WASSLOSS_ISA {

// `AlgorithmOne.solve`: write `newton.g`, evaluate `newton.dual` there, and return its value.
// `exponents` is scratch (padded labels).
template <class T>
double iterate(const wassloss_settings& settings, Newton<T>& newton, T* exponents) {
  SemiDual<T>& dual = newton.dual;
  const Example<T>& at = dual.example();
  // The table raises shares to at least e^negligible, which factors and sums may multiply. Of a
  // column with little more mass than that, most is due to raising.
  const double made_up = ::exp(Precision<T>::negligible + 2 * Shares<T>::reach);
  const double least = made_up / double(Precision<T>::eps) * at.mass_h;
  for (int64_t i = 0; i < at.labels; ++i) dual.f[i] = 0;
  for (int64_t j = 0; j < at.support; ++j) dual.mass[j] = 0;
  Evaluation found;
  for (int64_t iteration = 0; iteration < settings.max_iterations; ++iteration) {
    for (int64_t j = 0; j < at.support; ++j) {
      if (dual.mass[j] > least)
        newton.g[j] += settings.epsilon * (at.log_y[j] - ::log(dual.mass[j]));
      else
        newton.g[j] = best_potential(settings, at, j, dual.f, exponents);
    }
    found = dual.evaluate(newton.g, settings.epsilon);
  }
  return found.value;
}

}  // namespace wassloss::WASSLOSS_ISA
