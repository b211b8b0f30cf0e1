// Newton's method on the semi-dual, as in transport/newton/lockstep.py, for one example.
//
// In the unit `w = g/ε`, with `c = Tᵀ1` and `r = T1`, the gradient is `wanted − c` and the Hessian
// `−[diag(c + (ε/γ_y) wanted) − ρ_h Pᵀ diag(r) P]`. ε decreases in stages to stay near the optimum.
// A step is kept if it raises the objective enough; a refused step is shortened, and one that stays
// refused gives way to a Sinkhorn update.
#pragma once

#include "cholesky.hpp"
#include "semi_dual.hpp"

namespace wassloss::WASSLOSS_ISA {

struct Solved {
  double value, error;
  int64_t n_iterations;
};

// The largest cost of the example's targets, which are never NaN.
template <class T>
double largest_cost(const Example<T>& at) {
  T largest = 0;
  for (int64_t j = 0; j < at.support; ++j) {
    const T* __restrict cost = at.cost[j];
    largest =
        larger(largest, maximum<T>(at.labels, [=](int64_t i) WASSLOSS_INLINED { return cost[i]; }));
  }
  return double(largest);
}

template <class T>
class Newton {
 public:
  double* g;  // (support,), initially 0
  SemiDual<T> dual;

  Newton(Room& room, int64_t labels, int64_t support, bool whole)
      : g(room.take<double>(support)),
        dual(room, labels, support, whole),
        trial_(room.take<double>(support)),
        mass_(room.take<double>(support)),
        direction_(room.take<double>(support)),
        coupling_(room.take<double>(support * support)) {}

  // Leaves `dual` at the potentials found.
  Solved solve(const wassloss_settings& settings) {
    const Example<T>& at = dual.example();
    const int64_t n = at.support;
    for (int64_t j = 0; j < n; ++j) g[j] = direction_[j] = 0;
    double reach = largest_cost(at);
    if (settings.unequal_price > 0)
      reach += settings.unequal_price * ::fabs(::log(at.mass_h / at.mass_y));
    double epsilon = larger(settings.epsilon, reach / FIRST_EXPONENT);
    double near_enough = STAGE_TOLERANCE, slope = 0, step = 0;
    Evaluation best;
    for (int64_t iteration = 0; iteration <= settings.max_iterations; ++iteration) {
      for (int64_t j = 0; j < n; ++j)
        trial_[j] = step > 0 ? double(T(g[j] + step * direction_[j])) : g[j];
      const Evaluation trial = dual.evaluate(trial_, epsilon);
      const double needed = SUFFICIENT_INCREASE * step * slope - best.noise;
      // False for a NaN or an infinite error: such a point is refused unless it is the first.
      const bool kept = trial.value >= best.value + needed && trial.error < INF;
      if (kept || iteration == 0) {
        best = trial;
        step = 1;
        for (int64_t j = 0; j < n; ++j) g[j] = trial_[j], mass_[j] = dual.mass[j];
        const bool at_last = epsilon <= settings.epsilon;
        // Half the tolerance, because a later check may sum in another order.
        if (at_last && best.error <= 0.5 * settings.tol && iteration > 0)
          return {best.value, best.error, iteration};
        if (at_last || best.error > near_enough || iteration == 0) {
          slope = find_direction(settings, best.error, epsilon);
          continue;
        }
        epsilon = larger(settings.epsilon, epsilon / STAGE_FACTOR);
        near_enough = larger(LAST_STAGE_TOLERANCE, near_enough / STAGE_FACTOR);
        step = 0;
      } else {
        step *= SHRINK;
        if (step >= SMALLEST_STEP) continue;
        sinkhorn_step(settings, epsilon);
        step = 1;
      }
      // Objectives are not comparable across stages or Sinkhorn updates, so accept the next point.
      slope = 0;
      best.value = -INF;
    }
    // Not converged: measure the point reached, at the last ε.
    best = dual.evaluate(g, settings.epsilon);
    return {best.value, best.error, settings.max_iterations};
  }

 private:
  // Write the Newton step from the last evaluation of `dual` or, if it has none, the Sinkhorn step.
  // Return its slope.
  double find_direction(const wassloss_settings& settings, double error, double epsilon) {
    const int64_t n = dual.example().support;
    const double ridge = RIDGE * smaller(error, 1.0) + 100 * 0x1p-52;
    const double share = damping(settings.gamma_h, epsilon);
    const double* wanted = dual.wanted;
    dual.couple(coupling_);
    for (int64_t j = 0; j < n; ++j) {
      double* line = coupling_ + j * n;
      for (int64_t k = 0; k <= j; ++k) line[k] *= -share;
      line[j] += mass_[j] + epsilon / settings.gamma_y * wanted[j];
      line[j] += ridge * (mass_[j] + wanted[j]);
      direction_[j] = wanted[j] - mass_[j];
    }
    bool usable = cholesky_solve(coupling_, direction_, n);
    double longest = LONGEST_STEP;
    for (int64_t j = 0; j < n; ++j) {
      usable = usable && ::fabs(direction_[j]) < INF;
      longest = larger(longest, ::fabs(direction_[j]));
    }
    double scale = epsilon * LONGEST_STEP / longest;
    if (!usable) {
      sinkhorn_step(settings, epsilon);
      scale = 1;
    }
    double slope = 0;
    for (int64_t j = 0; j < n; ++j) direction_[j] *= scale;
    remove_shift(settings);
    for (int64_t j = 0; j < n; ++j) slope += direction_[j] * (wanted[j] - mass_[j]);
    return slope;
  }

  // Keep the weighted mean of `g` where the objective is flat in it. Rounding alone would determine
  // that component, and potentials that drift far from 0 lose their digits in single precision.
  void remove_shift(const wassloss_settings& settings) {
    if (settings.gamma_h < INF || settings.gamma_y < INF) return;
    const int64_t n = dual.example().support;
    double total = 0, moved = 0;
    for (int64_t j = 0; j < n; ++j) {
      total += dual.wanted[j];
      moved += dual.wanted[j] * direction_[j];
    }
    for (int64_t j = 0; j < n; ++j) direction_[j] -= moved / total;
  }

  // Write the step from `g` to its Sinkhorn update.
  void sinkhorn_step(const wassloss_settings& settings, double epsilon) {
    const Example<T>& at = dual.example();
    const double tiny = double(Precision<T>::tiny), share = damping(settings.gamma_y, epsilon);
    for (int64_t j = 0; j < at.support; ++j) {
      const double best = epsilon * (at.log_y[j] - ::log(larger(mass_[j], tiny))) + g[j];
      direction_[j] = share * best - g[j];
    }
    remove_shift(settings);
  }

  double *trial_, *mass_;          // (support,), the latter Tᵀ1 at g
  double *direction_, *coupling_;  // (support,), (support, support)
};

}  // namespace wassloss::WASSLOSS_ISA
