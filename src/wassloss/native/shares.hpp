// How each label's mass is shared among the targets: a table of exponentials, kept.
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
// which takes no exponentials but those of the factors.
#pragma once

#include <math.h>

#include "scratch.hpp"

namespace wassloss::WASSLOSS_ISA {

// One prediction and its target, all arrays of labels with room for `padded(labels)`: there `h` is
// 0 and its log that of no mass.
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
  // How far scalings may be from the reference. Shares below `negligible` are raised to it in the
  // table: at a distance of `reach` they become at most e^{2 reach} as much of their sum, which
  // still is below the rounding of a sum over the largest support, and stays a normal number times
  // the least mass that counts.
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

  // Move to scalings `w` at `epsilon`; the table is made again, block by block, if it is too far.
  void move(const double* w, int64_t support, double epsilon) {
    fresh_ = whole_ && epsilon == epsilon_;
    for (int64_t j = 0; j < support; ++j) fresh_ = fresh_ && ::fabs(w[j] - reference_[j]) <= reach;
    epsilon_ = epsilon;
    for (int64_t j = 0; j < support; ++j) {
      if (!fresh_) reference_[j] = double(T(w[j]));
      const double off = w[j] - reference_[j];  // what rounding took from w, if nothing else
      // That of the log of no mass is beyond any exponential, and without a meaning.
      factor_[j] = ::fabs(off) <= reach ? T(::exp(off)) : T(1);
    }
  }

  // Have the block of `size` labels from `first` on in the table, for the functions below.
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
    const int64_t real = smaller(size, at.labels - first);  // padding costs nothing
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
        out[i] = lanes::exp(v < low ? low : v);  // a NaN stays one
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
