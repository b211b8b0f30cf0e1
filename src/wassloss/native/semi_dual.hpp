// The semi-dual `F(g) = max_f D(f, g)` of one example, the marginals there, and its curvature.
//
// The mathematics is that of transport/conditions.py and transport/newton/lockstep.py. Arrays of
// the size of the support are in double precision.
#pragma once

#include "shares.hpp"

namespace wassloss::WASSLOSS_ISA {

// See `Objective.damping`.
inline double damping(double gamma, double epsilon) {
  if (gamma == INF) return 1;
  return gamma / (gamma + epsilon);
}

struct Evaluation {
  double value = -INF;  // of the dual objective
  double noise = 0;     // its rounding error
  double error = 0;     // ℓ1 violation of the target's marginal, relative to the mass moved
};

// Contributions of the labels, or of the targets, to the dual.
struct DualTerms {
  double dual = 0, rounding = 0, mass = 0;
};

template <class T>
class SemiDual {
 public:
  T* f;          // (padded labels), optimal for the g of the last evaluation
  double* mass;  // (support,), Tᵀ1 there, and what it should be:
  double* wanted;

  SemiDual(Room& room, int64_t labels, int64_t support, bool whole)
      : f(room.take<T>(padded(labels))),
        mass(room.take<double>(support)),
        wanted(room.take<double>(support)),
        shares_(room, labels, support, whole),
        curve_(room.take<T>(padded(labels))),
        weight_(room.take<T>(BLOCK)),
        total_(room.take<T>(BLOCK)),
        parts_(room.take<T>(support * BLOCK)),
        scaling_(room.take<double>(support)) {}

  void start(const wassloss_settings& settings, const Example<T>& example) {
    terms_ = &settings;
    at_ = example;
    shares_.forget();
  }

  const Example<T>& example() const { return at_; }

  // Compute value, `f`, `mass` and `wanted` at the potentials `g (support,)`.
  Evaluation evaluate(const double* g, double epsilon) {
    const int64_t n = at_.support;
    for (int64_t j = 0; j < n; ++j) {
      scaling_[j] = g[j] / epsilon + (terms_->product ? at_.log_y[j] : -1);
      mass[j] = 0;
    }
    shares_.move(scaling_, n, epsilon);
    DualTerms labels;
    for (int64_t first = 0; first < padded(at_.labels); first += BLOCK) {
      const int64_t size = smaller(BLOCK, padded(at_.labels) - first);
      shares_.load(at_, first, size);
      add_up(first, size);
      const DualTerms part = terms_->gamma_h == INF ? label_terms<true>(first, size, epsilon)
                                                    : label_terms<false>(first, size, epsilon);
      labels.dual += part.dual;
      labels.rounding += part.rounding;
      labels.mass += part.mass;
      // A free target has no marginal to meet.
      if (terms_->gamma_y > 0) add_products(weight_, n, first, size, mass);
    }
    for (int64_t j = 0; j < n; ++j) mass[j] *= double(shares_.factor(j));
    return conclude(labels, g, epsilon);
  }

  // Write the lower triangle of `Pᵀ diag(T1) P`, `(support, support)`, at the last evaluation.
  void couple(double* coupling) {
    const int64_t n = at_.support;
    for (int64_t j = 0; j < n * n; ++j) coupling[j] = 0;
    for (int64_t first = 0; first < padded(at_.labels); first += BLOCK) {
      const int64_t size = smaller(BLOCK, padded(at_.labels) - first);
      weigh_shares(first, size);
      int64_t j = 0;
      for (; j + 4 <= n; j += 4)
        for (int64_t k = 0; k < j + 4; k += 2)
          add_four_products(parts_ + j * BLOCK, k, first, size, coupling + j * n);
      for (; j < n; ++j) add_products(parts_ + j * BLOCK, j + 1, first, size, coupling + j * n);
    }
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k <= j; ++k)
        coupling[j * n + k] *= double(shares_.factor(j)) * double(shares_.factor(k));
  }

 private:
  // Shares of four targets from `j` on; those past the last target must not be read.
  struct Four {
    const T *a, *b, *c, *d;
  };
  WASSLOSS_INLINE Four shares_from(int64_t j, int64_t first) const {
    return {shares_.share(j, first), shares_.share(j + 1, first), shares_.share(j + 2, first),
            shares_.share(j + 3, first)};
  }

  // `total_i = Σ_j e_j P_ij` of a block.
  WASSLOSS_INLINE void add_up(int64_t first, int64_t size) {
    T* __restrict total = total_;
    each(size, [=](int64_t i) WASSLOSS_INLINED { total[i] = 0; });
    in_fours(at_.support, [&](int64_t j, auto rows) {
      constexpr int n = decltype(rows)::n;
      const Four share = shares_from(j, first);
      const auto factor = [&](int k) { return k < n ? shares_.factor(j + k) : T(0); };
      const T a = factor(0), b = factor(1), c = factor(2), d = factor(3);
      each(size, [=](int64_t i) WASSLOSS_INLINED {
        T part = a * share.a[i];
        if constexpr (n > 1) part += b * share.b[i];
        if constexpr (n > 2) part += c * share.c[i];
        if constexpr (n > 3) part += d * share.d[i];
        total[i] += part;
      });
    });
  }

  // Add to `sums` the block's part of `Σ_i x_i P_ij` for the first `count` targets.
  WASSLOSS_INLINE void add_products(const T* __restrict x, int64_t count, int64_t first,
                                    int64_t size, double* sums) {
    in_fours(count, [&](int64_t j, auto rows) {
      constexpr int n = decltype(rows)::n;
      const Four share = shares_from(j, first);
      T a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
      for (int64_t i = 0; i < size; ++i) {
        a += x[i] * share.a[i];
        if constexpr (n > 1) b += x[i] * share.b[i];
        if constexpr (n > 2) c += x[i] * share.c[i];
        if constexpr (n > 3) d += x[i] * share.d[i];
      }
      const T found[4] = {a, b, c, d};
      for (int k = 0; k < n; ++k) sums[j + k] += double(found[k]);
    });
  }

  // Write `f`, `weight = T1 / total` and `curve = T1 / total²` of a block; its part of the dual.
  template <bool constrained>
  WASSLOSS_INLINE DualTerms label_terms(int64_t first, int64_t size, double epsilon) {
    const double gamma_h = terms_->gamma_h;
    const T low = T(Precision<T>::log_tiny), high = T(Precision<T>::log_largest);
    const T no_mass = T(NO_LOG_MASS), floor = Precision<T>::least_mass, half = T(0.5);
    const T lead = terms_->product ? T(0) : T(1);  // log h − α
    const T gamma = T(gamma_h), rate = T(-1 / gamma_h);
    const T unit = T(damping(gamma_h, epsilon) * epsilon);
    const T* __restrict log_h = at_.log_h + first;
    const T* __restrict h = at_.h + first;
    const T* __restrict top = shares_.top(first);
    const T* __restrict total = total_;
    T* __restrict f_ = f + first, * __restrict curve = curve_ + first, * __restrict weight = weight_;
    T dual = 0, rounding = 0, moved = 0;
#pragma omp simd reduction(+ : dual, rounding, moved)
    for (int64_t i = 0; i < size; ++i) {
      const T best = unit * (lead * log_h[i] - (top[i] + lanes::log(total[i])));
      T r = h[i];
      if (constrained) {
        dual += r * best;
      } else {
        const T x = rate * best, z = log_h[i] + x;
        r = lanes::exp(z < low ? low : z > high ? high : z);
        r = z > high ? Precision<T>::inf : r;
        r = log_h[i] > no_mass ? r : T(0);  // z has no digits there
        const bool near = size_of(x) < half;
        const T change = lanes::expm1(near ? x : T(0));
        dual += gamma * (near ? -h[i] * change : h[i] - r);
      }
      rounding += size_of(r * best);
      moved += r;
      const T inverse = T(1) / total[i], some = r < floor ? T(0) : r;
      f_[i] = best;
      weight[i] = some * inverse;
      curve[i] = some * inverse * inverse;
    }
    return {double(dual), double(rounding), double(moved)};
  }

  Evaluation conclude(const DualTerms& labels, const double* g, double epsilon) {
    const double gamma_y = terms_->gamma_y;
    DualTerms targets;
    double wrong = 0;
    for (int64_t j = 0; j < at_.support; ++j) {
      const double y = at_.y[j];
      if (gamma_y == INF) {
        wanted[j] = y;
        targets.dual += y * g[j];
      } else if (gamma_y > 0) {
        const double x = -g[j] / gamma_y;
        wanted[j] = ::exp(at_.log_y[j] + x);
        targets.dual += gamma_y * (::fabs(x) < 0.5 ? -y * ::expm1(x) : y - wanted[j]);
      } else {
        wanted[j] = mass[j];
      }
      targets.rounding += ::fabs(wanted[j] * g[j]);
      targets.mass += wanted[j];
      wrong += ::fabs(mass[j] - wanted[j]);
    }
    Evaluation found;
    found.value = labels.dual + targets.dual - epsilon * labels.mass;
    if (terms_->product) found.value += epsilon * at_.mass_h * at_.mass_y;
    found.error = wrong / larger(targets.mass, smaller(at_.mass_h, at_.mass_y));
    const double size =
        labels.rounding + targets.rounding + epsilon * labels.mass + ::fabs(found.value);
    found.noise = 8 * double(Precision<T>::eps) * size;
    return found;
  }

  // Write `parts_j = P_j curve` of a block, whose products with shares are entries of the coupling.
  WASSLOSS_INLINE void weigh_shares(int64_t first, int64_t size) {
    const T* __restrict curve = curve_ + first;
    const T floor = Precision<T>::least_part;
    for (int64_t j = 0; j < at_.support; ++j) {
      const T* __restrict share = shares_.share(j, first);
      T* __restrict part = parts_ + j * BLOCK;
      each(size, [=](int64_t i) WASSLOSS_INLINED {
        const T p = share[i] * curve[i];
        part[i] = p < floor ? T(0) : p;
      });
    }
  }

  // The sums of `add_products` for four rows and two targets at once, so that each load is used
  // several times. `sums` has rows of `support`.
  WASSLOSS_INLINE void add_four_products(const T* __restrict x, int64_t j, int64_t first,
                                         int64_t size, double* sums) {
    const T *a = x, *b = x + BLOCK, *c = x + 2 * BLOCK, *d = x + 3 * BLOCK;
    const T *p = shares_.share(j, first), *q = shares_.share(j + 1, first);
    T ap = 0, aq = 0, bp = 0, bq = 0, cp = 0, cq = 0, dp = 0, dq = 0;
#pragma omp simd reduction(+ : ap, aq, bp, bq, cp, cq, dp, dq)
    for (int64_t i = 0; i < size; ++i) {
      ap += a[i] * p[i];
      aq += a[i] * q[i];
      bp += b[i] * p[i];
      bq += b[i] * q[i];
      cp += c[i] * p[i];
      cq += c[i] * q[i];
      dp += d[i] * p[i];
      dq += d[i] * q[i];
    }
    const T found[4][2] = {{ap, aq}, {bp, bq}, {cp, cq}, {dp, dq}};
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t k = 0; k < 2; ++k) sums[row * at_.support + j + k] += double(found[row][k]);
  }

  const wassloss_settings* terms_ = nullptr;
  Example<T> at_{};
  Shares<T> shares_;
  T* curve_;                     // (padded labels)
  T *weight_, *total_, *parts_;  // (block,), (block,), (support, block)
  double* scaling_;              // (support,), g/ε + β
};

}  // namespace wassloss::WASSLOSS_ISA
