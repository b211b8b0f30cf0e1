// The loss of a few labels per example, and its gradient in the logits.
#pragma once

#include "algorithm_one.hpp"
#include "nearest.hpp"
#include "softened.hpp"

namespace wassloss::WASSLOSS_ISA {

// Whether one pass over the labels is enough, so that the table of shares need not be kept.
inline bool takes_one_pass(const wassloss_settings& settings) {
  return settings.gamma_y == 0 || settings.transport_weight == 0;
}

template <class T>
struct SolverScratch {
  T *log_h, *h;       // (padded labels)
  double *log_y, *y;  // (support,)
  const T** cost;     // (support,)
  Newton<T> newton;
  T* logs;  // (padded labels)

  SolverScratch(Room& room, const wassloss_batch& batch, bool one_pass)
      : log_h(room.take<T>(padded(batch.labels))),
        h(room.take<T>(padded(batch.labels))),
        log_y(room.take<double>(batch.support)),
        y(room.take<double>(batch.support)),
        cost(room.take<const T*>(batch.support)),
        newton(room, batch.labels, batch.support, !one_pass),
        logs(room.take<T>(padded(batch.labels))) {}

  // The prediction in `log_h` and `h` with a target on the first `support` of the arrays above.
  Example<T> example(int64_t labels, int64_t support, double mass_h, double mass_y) {
    for (int64_t i = labels; i < padded(labels); ++i) log_h[i] = T(2 * NO_LOG_MASS), h[i] = 0;
    for (int64_t j = 0; j < support; ++j) y[j] = ::exp(log_y[j]);
    return {labels, support, log_h, h, log_y, y, cost, mass_h, mass_y};
  }
};

// The result of `read_target`: the number of labels with mass (0 if the target is invalid), and the
// mass.
struct Target {
  int64_t support = 0;
  double mass = 0;
};

// Read the log-weights and the costs of example `b` into `log_y` and `cost`.
template <class T>
Target read_target(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b,
                   SolverScratch<T>& scratch) {
  const T* weights = row<T>(batch.weights, b, batch.support);
  const int64_t* indices = batch.indices + b * batch.support;
  Target found;
  for (int64_t j = 0; j < batch.support; ++j) {
    const double weight = double(weights[j]);
    const int64_t label = indices[j];
    if (weight == 0) continue;
    if (!(weight > 0 && weight < INF) || label < 0 || label >= batch.labels) return {};
    for (int64_t k = 0; k < j; ++k)
      if (indices[k] == label && weights[k] > 0) return {};
    const bool some = weight > Precision<T>::smallest_mass;
    scratch.log_y[found.support] = some ? ::log(weight) : Precision<T>::lowest_log_mass;
    scratch.cost[found.support] = cost_row<T>(batch, b, j);
    found.mass += weight;
    ++found.support;
  }
  const bool near_one = ::fabs(found.mass - 1) <= settings.mass_tolerance;
  return settings.normalize || near_one ? found : Target{};
}

// Write the derivative of the dual in `h` to `slope`, given potentials `f`; return its mean under
// `h`.
//
// Balanced, it is `f`; relaxed, `γ (1 − e^{−f/γ})`. With the regulariser "product" the reference
// changes with `h`, which cancels in the logits if the marginal of `h` is a constraint.
template <class T>
double write_slope(const wassloss_settings& settings, const Example<T>& at, const T* __restrict f,
                   T* __restrict slope) {
  const T* __restrict h = at.h;
  if (settings.gamma_h == INF)
    return sum<T>(at.labels, [=](int64_t i) WASSLOSS_INLINED { return h[i] * (slope[i] = f[i]); });
  const T gamma = T(settings.gamma_h), rate = T(-1 / settings.gamma_h);
  const T low = T(Precision<T>::log_tiny), high = T(Precision<T>::log_largest);
  const T moves = settings.product ? T(settings.epsilon) : T(0), mass_y = T(at.mass_y);
  return sum<T>(at.labels, [=](int64_t i) WASSLOSS_INLINED {
    const T x = rate * f[i], change = lanes::expm1(x < low ? low : x > high ? high : x);
    slope[i] = -gamma * change - moves * (change + T(1) - mass_y);
    return h[i] * slope[i];
  });
}

struct Transport {
  double value = 0, mean = 0, error = 0;  // `mean` is that of the slopes under h
};

// Transport from the prediction to the target; writes its slopes to `slope`.
template <class T>
Transport transport(const wassloss_settings& settings, const Example<T>& example,
                    SolverScratch<T>& scratch, T* __restrict slope) {
  Newton<T>& newton = scratch.newton;
  Transport found;
  if (settings.epsilon == 0) {
    least_cost(example.labels, example.support, example.cost, slope);
    const T* h = example.h;
    found.mean =
        sum<T>(example.labels, [=](int64_t i) WASSLOSS_INLINED { return h[i] * slope[i]; });
    found.value = found.mean;
    return found;
  }
  newton.dual.start(settings, example);
  if (settings.gamma_y == 0) {  // a free target has potentials of 0
    for (int64_t j = 0; j < example.support; ++j) newton.g[j] = 0;
    found.value = newton.dual.evaluate(newton.g, settings.epsilon).value;
  } else if (settings.fixed) {
    found.value = iterate(settings, newton, scratch.logs);
  } else {
    const Solved solved = newton.solve(settings);
    found.value = solved.value;
    found.error = solved.error;
  }
  found.mean = write_slope(settings, example, newton.dual.f, slope);
  return found;
}

// KL on softened labels (of each label, or of the nearest); adds to the gradient.
template <class T>
double softened_divergence(const wassloss_settings& settings, const wassloss_batch& batch,
                           int64_t b, SolverScratch<T>& scratch, double mass, T* gradient) {
  const T* weights = row<T>(batch.weights, b, batch.support);
  const int64_t labels = batch.labels;
  const bool nearest = settings.gamma_y == 0;
  const double share = settings.normalize || nearest ? mass : 1;
  T *soft = scratch.newton.dual.f, *powers = scratch.h, *logs = scratch.logs;
  for (int64_t i = 0; i < labels; ++i) soft[i] = 0;
  if (nearest) {
    T* least = scratch.log_h;
    for (int64_t i = 0; i < labels; ++i) least[i] = Precision<T>::inf;
    for (int64_t j = 0; j < batch.support; ++j)
      if (weights[j] > 0) lower_to(labels, cost_row<T>(batch, b, j), least);
    add_softened(labels, least, 1.0, settings.per_softening, logs, powers, soft);
  } else {
    for (int64_t j = 0; j < batch.support; ++j)
      if (weights[j] > 0)
        add_softened(labels, cost_row<T>(batch, b, j), double(weights[j]) / share,
                     settings.per_softening, logs, powers, soft);
  }
  const T* x = row<T>(batch.logits, b, labels);
  return kl_of_shares(labels, soft, mass / share, x, settings.kl_weight, logs, powers, gradient);
}

// KL on the labels themselves; subtracts their part from the gradient.
template <class T>
double divergence(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b,
                  double share, double log_total, T* gradient) {
  const T* weights = row<T>(batch.weights, b, batch.support);
  const T* x = row<T>(batch.logits, b, batch.labels);
  double found = 0;
  for (int64_t j = 0; j < batch.support; ++j) {
    const double weight = double(weights[j]) / share;
    if (!(weight > 0)) continue;
    const int64_t label = batch.indices[b * batch.support + j];
    const double log_h = double(x[label]) - log_total;
    found += weight * (::log(larger(weight, Precision<T>::smallest_mass)) - log_h);
    gradient[label] -= T(settings.kl_weight * weight);
  }
  return found;
}

template <class T>
int sparse_row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b,
               SolverScratch<T>& scratch) {
  const int64_t labels = batch.labels;
  const bool balanced = settings.gamma_h == INF && settings.gamma_y == INF;
  const bool free = settings.gamma_y == 0, idle = settings.transport_weight == 0;
  const Target target = read_target(settings, batch, b, scratch);
  // A relaxed plan may depend on masses far below those of the dtype; see `log_of_no_mass`.
  const double lowest = settings.gamma_h == INF ? Precision<T>::lowest_log_mass : NO_LOG_MASS;
  const T* x = row<T>(batch.logits, b, labels);
  const Softmax found = softmax(labels, x, lowest, scratch.log_h, scratch.h);
  if (target.support == 0 || found.mass < 0)
    return write_without_loss<T>(batch, b, WASSLOSS_INVALID);

  const double share = settings.normalize ? target.mass : 1;
  // Balanced masses are equal to the last digit.
  const double to_total = balanced || free ? ::log(found.mass / target.mass) : -::log(share);
  for (int64_t j = 0; j < target.support; ++j) scratch.log_y[j] += to_total;
  const double mass_y = balanced || free ? found.mass : target.mass / share;
  const Example<T> example = scratch.example(labels, target.support, found.mass, mass_y);
  T* gradient = row<T>(batch.gradient, b, labels);
  Transport plan;
  if (idle)
    for (int64_t i = 0; i < labels; ++i) gradient[i] = 0;
  else
    plan = transport(settings, example, scratch, gradient);
  // The rounding of a table is checked beforehand, but not that of costs computed for this batch.
  double rounding = 0;
  if (!(batch.tabulated || free || settings.fixed || idle))
    rounding = 0.5 * double(Precision<T>::eps) * largest_cost(example);

  const double weight = settings.transport_weight, kl = settings.kl_weight;
  const bool softens = kl > 0 && settings.per_softening > 0;
  const double mean = weight * plan.mean, kl_mass = kl > 0 && !softens ? target.mass / share : 0;
  const T scale = T(weight), shift = T(kl * kl_mass - mean);
  const T* h = scratch.h;
  each(labels,
       [=](int64_t i) WASSLOSS_INLINED { gradient[i] = h[i] * (scale * gradient[i] + shift); });
  double loss = weight * plan.value;
  // False for NaN.
  const bool converged = plan.error <= settings.tol && rounding <= settings.tol * settings.epsilon;
  if (softens && converged && ::fabs(loss) < INF)
    loss += kl * softened_divergence(settings, batch, b, scratch, target.mass, gradient);
  else if (kl > 0 && !softens)
    loss += kl * divergence(settings, batch, b, share, found.log_total, gradient);
  const T value = row<T>(batch.value, b, 1)[0] = T(loss);
  if (!converged) return WASSLOSS_UNCONVERGED;
  // The slopes must be finite too, not only their sum.
  const bool held = size_of(value) < Precision<T>::inf && ::fabs(mean) < INF;
  return held ? WASSLOSS_FINE : WASSLOSS_INVALID;
}

}  // namespace wassloss::WASSLOSS_ISA
