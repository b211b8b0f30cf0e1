// Potentials that maximise the dual of an entropic problem, by Newton's method.
#pragma once

#include "sparse.hpp"

namespace wassloss::WASSLOSS_ISA {

template <class T>
int maximize_row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b,
                 SolverScratch<T>& scratch) {
  const int64_t labels = batch.labels;
  const T* log_h = row<T>(batch.logits, b, labels);
  const T* log_y = row<T>(batch.weights, b, batch.support);
  const T low = T(Precision<T>::log_tiny);
  T *h = scratch.h, *log_h_ = scratch.log_h;
  const double mass_h = sum<T>(labels, [=](int64_t i) WASSLOSS_INLINED {
    log_h_[i] = log_h[i];
    return h[i] = lanes::exp(log_h[i] < low ? low : log_h[i]);
  });
  double mass_y = 0;
  int64_t n = 0;
  for (int64_t j = 0; j < batch.support; ++j) {
    if (!(log_y[j] > -Precision<T>::inf)) continue;
    scratch.cost[n] = cost_row<T>(batch, b, j);
    scratch.log_y[n] = double(log_y[j]);
    mass_y += ::exp(scratch.log_y[n]);
    ++n;
  }
  const Example<T> example = scratch.example(labels, n, mass_h, mass_y);
  Newton<T>& newton = scratch.newton;
  newton.dual.start(settings, example);
  const Solved solved = newton.solve(settings);

  T* f = row<T>(batch.gradient, b, labels);
  T* g = row<T>(batch.g, b, batch.support);
  for (int64_t i = 0; i < labels; ++i) f[i] = newton.dual.f[i];
  // The error hardly depends on targets of little mass, so their potential is computed from f.
  const double little = ::sqrt(settings.tol) * smaller(mass_h, mass_y);
  n = 0;
  for (int64_t j = 0; j < batch.support; ++j) {
    g[j] = 0;
    if (!(log_y[j] > -Precision<T>::inf)) continue;
    const bool follows = scratch.y[n] <= little;
    g[j] = T(follows ? best_potential(settings, example, n, f, scratch.logs) : newton.g[n]);
    ++n;
  }
  row<T>(batch.value, b, 1)[0] = T(solved.value);
  row<T>(batch.error, b, 1)[0] = T(solved.error);
  batch.n_iterations[b] = solved.n_iterations;
  return WASSLOSS_FINE;
}

}  // namespace wassloss::WASSLOSS_ISA
