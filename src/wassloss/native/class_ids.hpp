// The loss of one label per example, to which all of `h` goes.
//
// `W = Σ h_i M_iκ`, plus `ε Σ h log h` with the regulariser "plan", and KL is `−log h_κ`.
#pragma once

#include "scratch.hpp"
#include "softened.hpp"

namespace wassloss::WASSLOSS_ISA {

template <class T>
struct LabelScratch {
  T *log_h, *h;  // (padded labels)

  LabelScratch(Room& room, const wassloss_batch& batch)
      : log_h(room.take<T>(padded(batch.labels))), h(room.take<T>(padded(batch.labels))) {}
};

// `Σ h (weight M + ε log h)`, from the outputs of `exponentials` and their sum `total`. Writes the
// softmax to `h`, and the second factor of each term to `slope`.
template <class T>
double cost_of_one(int64_t labels, const T* log_h, T* __restrict h, double total, const T* cost,
                   double weight, double epsilon, T* __restrict slope) {
  const T shift = T(::log(total)), share = T(1 / total), low = T(Precision<T>::lowest_log_mass);
  const T least = T(Precision<T>::smallest_mass), scale = T(weight), strength = T(epsilon);
  return sum<T>(labels, [=](int64_t i) WASSLOSS_INLINED {
    const T v = log_h[i] - shift, e = h[i] * share;
    h[i] = e < least ? least : e;
    slope[i] = scale * cost[i] + strength * (v < low ? low : v);
    return h[i] * slope[i];
  });
}

template <class T>
int class_id_row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b,
                 const LabelScratch<T>& scratch) {
  const int64_t label = batch.indices[b], labels = batch.labels;
  if (label == settings.ignore_index) return write_without_loss<T>(batch, b, WASSLOSS_IGNORED);
  const T* x = row<T>(batch.logits, b, labels);
  const Exponents found = exponentials(labels, x, scratch.log_h, scratch.h);
  if (!(found.total < INF) || label < 0 || label >= labels)
    return write_without_loss<T>(batch, b, WASSLOSS_INVALID);
  const T* cost = row<T>(batch.cost, batch.tabulated ? label : b, labels);
  T* gradient = row<T>(batch.gradient, b, labels);
  const double kl = settings.kl_weight;
  const double epsilon = settings.product ? 0 : settings.transport_weight * settings.epsilon;
  double loss = cost_of_one(labels, scratch.log_h, scratch.h, found.total, cost,
                            settings.transport_weight, epsilon, gradient);
  through_softmax(labels, scratch.h, kl - loss, gradient, gradient);
  if (kl > 0 && settings.per_softening > 0) {
    loss += kl * softened_kl(labels, cost, settings.per_softening, x, found, kl, scratch.log_h,
                             scratch.h, gradient);
  } else if (kl > 0) {
    gradient[label] -= T(kl);
    loss -= kl * (double(x[label]) - found.largest - ::log(found.total));
  }
  const T value = row<T>(batch.value, b, 1)[0] = T(loss);
  return size_of(value) < Precision<T>::inf ? WASSLOSS_FINE : WASSLOSS_INVALID;  // infinite cost
}

}  // namespace wassloss::WASSLOSS_ISA
