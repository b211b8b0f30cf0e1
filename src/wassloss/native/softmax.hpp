// The softmax of one row and its logarithm.
#pragma once

#include <math.h>

#include "lanes.hpp"

namespace wassloss::WASSLOSS_ISA {

// The result of `exponentials`; `total` is NaN if there is no softmax.
struct Exponents {
  double largest, total;
};

// Write `scale (x_i − max x)` and its `exp`, with exponents raised to at least the lowest log-mass,
// for `x_i = argument(i)`. The sum is NaN if some `x_i` is NaN or infinite, or all are −infinite.
// Both outputs have room for `padded(labels)`; the padding adds nothing to sums.
template <class T, class Argument>
WASSLOSS_INLINE Exponents exponentials(int64_t labels, T scale, Argument argument,
                                       T* __restrict logs, T* __restrict powers) {
  const int64_t whole = labels / WIDEST * WIDEST;
  T largest = maximum<T>(whole, [=](int64_t i) WASSLOSS_INLINED {
    const T x = argument(i);
    logs[i] = x;
    return x;
  });
  // The rest is stored as a whole vector: the loads below would wait for narrower stores, which
  // takes as long as everything else where there are few labels.
  if (whole < labels) {
    T last[WIDEST];
    each(WIDEST, [=, &last](int64_t i) WASSLOSS_INLINED {
      const T x = whole + i < labels ? argument(whole + i) : -Precision<T>::inf;
      logs[whole + i] = x;
      last[i] = x > -Precision<T>::inf ? x : -Precision<T>::inf;  // a NaN is passed over
    });
    for (int64_t half = WIDEST / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i) last[i] = larger(last[i], last[i + half]);
    largest = larger(largest, last[0]);
  }
  const T low = T(Precision<T>::lowest_log_mass);
  const double total = sum<T>(padded(labels), [=](int64_t i) WASSLOSS_INLINED {
    const T v = scale * (logs[i] - largest);
    const T e = lanes::exp(v < low ? low : v);  // keeps NaN
    logs[i] = v;
    powers[i] = e;
    return e;
  });
  return {double(largest), total};
}

template <class T>
WASSLOSS_INLINE Exponents exponentials(int64_t labels, const T* x, T* logs, T* powers) {
  return exponentials<T>(
      labels, T(1), [=](int64_t i) WASSLOSS_INLINED { return x[i]; }, logs, powers);
}

struct Softmax {
  double mass;       // the rounded sum of the masses; negative if there is no softmax
  double log_total;  // log Σ exp(x), for log-masses without a lower bound
};

// Write the masses `softmax(x)`, at least the smallest mass, and their logarithms, at least
// `lowest`. Both outputs have room for `padded(labels)`.
template <class T>
Softmax softmax(int64_t labels, const T* x, double lowest, T* __restrict log_h, T* __restrict h) {
  const Exponents found = exponentials(labels, x, log_h, h);
  if (!(found.total < INF)) return {-1, 0};
  const T shift = T(::log(found.total)), share = T(1 / found.total), low = T(lowest);
  const T least = T(Precision<T>::smallest_mass);
  const double mass = sum<T>(labels, [=](int64_t i) WASSLOSS_INLINED {
    const T v = log_h[i] - shift, e = h[i] * share;
    log_h[i] = v < low ? low : v;
    return h[i] = e < least ? least : e;
  });
  return {mass, found.largest + ::log(found.total)};
}

// Convert slopes in `h` to the gradient in the logits; `shift` is minus their mean under `h`, plus
// the weight of KL.
template <class T>
WASSLOSS_INLINE void through_softmax(int64_t labels, const T* h, double shift, const T* slope,
                                     T* gradient) {
  const T s = T(shift);
  each(labels, [=](int64_t i) WASSLOSS_INLINED { gradient[i] = h[i] * (slope[i] + s); });
}

}  // namespace wassloss::WASSLOSS_ISA
