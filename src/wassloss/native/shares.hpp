// The share of each target in each label's mass, from a cached table of exponentials.
//
// At scalings `w_j = g_j/ε + β_j`, target j gets the share `softmax_j(w_j − M_ij/ε)` of label i. At
// reference scalings ŵ, the table holds
//
//     P_ij = exp(ŵ_j − M_ij/ε − top_i),    top_i = max_j (ŵ_j − M_ij/ε),
//
// and at any `w` near them, with factors `e_j = exp(w_j − ŵ_j)`,
//
//     Σ_j exp(w_j − M_ij/ε) = exp(top_i) Σ_j e_j P_ij,
//
// which needs no exponentials except the factors.
#pragma once

#include <math.h>

#include "scratch.hpp"

namespace wassloss::WASSLOSS_ISA {

// One prediction and its target. Arrays of labels have room for `padded(labels)`; in the padding,
// `h` is 0 and `log_h` stands for no mass.
template <class T>
struct Example {
  int64_t labels, support;
  const T *log_h, *h;       // (labels,)
  const double *log_y, *y;  // (support,)
  const T* const* cost;     // (support,), each (labels,)
  double mass_h, mass_y;
};

template <class T>
class Shares {
 public:
  // The largest distance of scalings from the reference. The table raises shares to at least
  // `negligible`. At a distance of `reach`, these grow to at most e^{2 reach} as much of their sum:
  // still less than the rounding of a sum over the largest support and, times the least mass that
  // counts, a normal number.
  static constexpr double reach = sizeof(T) == 4 ? 5.0 : 30.0;

  // The whole table or, for a single pass, one block of it.
  Shares(Room& room, int64_t labels, int64_t support, bool whole)
      : stride_(whole ? padded(labels) : BLOCK),
        whole_(whole),
        share_(room.take<T>(support * stride_)),
        top_(room.take<T>(stride_)),
        factor_(room.take<T>(support)),
        reference_(room.take<double>(support)) {}

  void forget() { epsilon_ = 0; }

  // Move to scalings `w` at `epsilon`. If they are too far, the table is rebuilt block by block.
  void move(const double* w, int64_t support, double epsilon) {
    fresh_ = whole_ && epsilon == epsilon_;
    for (int64_t j = 0; j < support; ++j) fresh_ = fresh_ && ::fabs(w[j] - reference_[j]) <= reach;
    epsilon_ = epsilon;
    for (int64_t j = 0; j < support; ++j) {
      if (!fresh_) reference_[j] = double(T(w[j]));
      const double off = w[j] - reference_[j];  // at least the rounding error of w
      // The rounding error of the log of no mass is beyond any exponential, and has no meaning.
      factor_[j] = ::fabs(off) <= reach ? T(::exp(off)) : T(1);
    }
  }

  // Load the block of `size` labels from `first` on into the table, for the functions below.
  void load(const Example<T>& at, int64_t first, int64_t size) {
    if (!fresh_) tabulate(at, first, size);
  }
  const T* share(int64_t j, int64_t first) const {
    return share_ + j * stride_ + (whole_ ? first : 0);
  }
  const T* top(int64_t first) const { return top_ + (whole_ ? first : 0); }
  T factor(int64_t j) const { return factor_[j]; }

 private:
  void tabulate(const Example<T>& at, int64_t first, int64_t size) {
    T* __restrict top = top_ + (whole_ ? first : 0);
    const T rate = T(1 / epsilon_), low = T(Precision<T>::negligible);
    const int64_t real = smaller(size, at.labels - first);  // padding has no costs
    for (int64_t i = 0; i < size; ++i) top[i] = i < real ? -Precision<T>::inf : T(0);
    for (int64_t j = 0; j < at.support; ++j) {
      const T* __restrict cost = at.cost[j] + first;
      T* __restrict out = share_ + j * stride_ + (whole_ ? first : 0);
      const T w = T(reference_[j]);
      each(real, [=](int64_t i) WASSLOSS_INLINED {
        const T v = w - rate * cost[i];
        out[i] = v;
        top[i] = top[i] > v ? top[i] : v;
      });
      for (int64_t i = real; i < size; ++i) out[i] = 0;
    }
    for (int64_t j = 0; j < at.support; ++j) {
      T* __restrict out = share_ + j * stride_ + (whole_ ? first : 0);
      each(size, [=](int64_t i) WASSLOSS_INLINED {
        const T v = out[i] - top[i];
        out[i] = lanes::exp(v < low ? low : v);  // keeps NaN
      });
    }
  }

  int64_t stride_;
  bool whole_, fresh_ = false;
  T *share_, *top_, *factor_;  // (support, stride), (stride,), (support,)
  double* reference_;          // (support,), ŵ
  double epsilon_ = 0;         // of the table; 0 if there is none
};

}  // namespace wassloss::WASSLOSS_ISA
