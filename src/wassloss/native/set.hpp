// The loss for a set of labels: each label's mass moves to the nearest label of the set.
//
// `W = Σ h_i m_i` for `m_i = min_{j ∈ S} M_ij`, plus `ε Σ h log h` with the regulariser "plan", and
// KL is `−log h(S)`. For one label, this is the loss of class_ids.hpp. losses/set_loss.py derives
// it.
#pragma once

#include <stdint.h>

#include "class_ids.hpp"
#include "nearest.hpp"

namespace wassloss::WASSLOSS_ISA {

// A table of costs is stored in strips of STRIP labels. Each strip is read for several examples in
// turn while it is in the cache.
constexpr int64_t STRIP = WASSLOSS_STRIP, EXAMPLES_AT_ONCE = 64;
constexpr int64_t in_strips(int64_t labels) { return (labels + STRIP - 1) / STRIP * STRIP; }

template <class T>
struct SetScratch {
  LabelScratch<T> softmax;
  T* nearest;     // (padded labels), or one such row per example at once
  T* powers;      // (padded labels)
  int64_t* seen;  // (labels,), the mark of the last set that listed each label

  SetScratch(Room& room, const wassloss_batch& batch)
      : softmax(room, batch),
        nearest(room.take<T>(in_strips(batch.labels) * (many(batch) ? EXAMPLES_AT_ONCE : 1))),
        powers(room.take<T>(padded(batch.labels))),
        seen(room.take<int64_t>(batch.members ? batch.labels : 0)) {
    if (room.real() && batch.members)
      for (int64_t i = 0; i < batch.labels; ++i) seen[i] = INT64_MIN;
  }
  // Whether sets need the cost rows of all members.
  static bool many(const wassloss_batch& batch) {
    return batch.tabulated && !batch.before && !batch.on_line;
  }
};

// The labels at places `first` to `last`, inclusive.
struct Members {
  const int64_t* labels;  // the label at each place; null if places are labels
  int64_t first, last;

  int64_t label(int64_t place) const { return labels ? labels[place] : place; }

  template <class Body>
  WASSLOSS_INLINE void each_label(Body body) const {
    if (labels == nullptr) {
      each(last + 1 - first, [&](int64_t p) WASSLOSS_INLINED { body(first + p); });
    } else {
      for (int64_t p = first; p <= last; ++p) body(labels[p]);
    }
  }

  template <class T, class Term>
  WASSLOSS_INLINE double sum_over(Term term) const {
    if (labels == nullptr)
      return sum<T>(last + 1 - first, [=](int64_t p) WASSLOSS_INLINED { return term(first + p); });
    double total = 0;
    for (int64_t p = first; p <= last; ++p) total += double(term(labels[p]));
    return total;
  }
};

// Whether all places and labels of a set are in range, and its labels distinct. `mark` must be
// unique to the call.
inline bool valid(const Members& set, const wassloss_batch& batch, int64_t mark, int64_t* seen) {
  if (set.first < 0 || set.first > set.last || set.last >= batch.places) return false;
  for (int64_t p = set.first; set.labels && p <= set.last; ++p) {
    const int64_t label = set.labels[p];
    if (label < 0 || label >= batch.labels || seen[label] == mark) return false;
    seen[label] = mark;
  }
  return set.labels || set.last < batch.labels;
}

inline bool is_ignored(const Members& set, const wassloss_batch& batch, int64_t ignore_index) {
  if (set.first != set.last) return false;
  const bool listed = set.labels && set.first >= 0 && set.first < batch.places;
  return (listed ? set.labels[set.first] : set.first) == ignore_index;
}

// Costs to a range in an order of the labels, from the cost rows of the labels nearest to all
// labels before it and after it.
template <class T>
void cost_to_range(const Members& set, const wassloss_batch& batch, const T* before, const T* after,
                   T* __restrict nearest) {
  const int64_t first = set.first, stop = set.last + 1, labels = batch.labels;
  if (set.labels && before != after) {
    for (int64_t p = 0; p < labels; ++p) {
      const int64_t i = set.labels[p];
      nearest[i] = p < first ? before[i] : after[i];
    }
  } else if (set.labels) {
    memcpy(nearest, before, size_t(labels) * sizeof(T));
  } else {
    memcpy(nearest, before, size_t(first) * sizeof(T));
    memcpy(nearest + stop, after + stop, size_t(labels - stop) * sizeof(T));
  }
  set.each_label([=](int64_t j) WASSLOSS_INLINED { nearest[j] = T(0); });
}

// Costs to a set on a line: between two neighbouring members, one of them is the nearest.
template <class T>
void cost_on_line(const Members& set, const wassloss_batch& batch, T* __restrict nearest) {
  bool in_order = true;
  for (int64_t p = set.first; set.labels && p < set.last; ++p)
    in_order = in_order && set.labels[p] < set.labels[p + 1];
  if (!in_order) {
    for (int64_t i = 0; i < batch.labels; ++i) nearest[i] = Precision<T>::inf;
    for (int64_t p = set.first; p <= set.last; ++p)
      lower_to(batch.labels, row<T>(batch.cost, set.label(p), batch.labels), nearest);
    return;
  }
  const T* before = nullptr;
  int64_t start = 0;
  for (int64_t p = set.first; p <= set.last + 1; ++p) {
    const int64_t stop = p <= set.last ? set.label(p) : batch.labels;
    const T* after = p <= set.last ? row<T>(batch.cost, stop, batch.labels) : before;
    if (before == nullptr) before = after;
    each(stop - start, [=](int64_t i) WASSLOSS_INLINED {
      const T one = before[start + i], other = after[start + i];
      nearest[start + i] = one < other ? one : other;
    });
    before = after, start = stop;
  }
}

// The least cost over the members of a set, for one strip of labels.
template <class T>
WASSLOSS_INLINE void least_of_strip(const Members& set, const T* strip, T* __restrict out) {
  T least[STRIP];
  for (T& one : least) one = Precision<T>::inf;
  for (int64_t p = set.first; p <= set.last; ++p) {
    const T* __restrict cost = strip + set.label(p) * STRIP;
    each(STRIP,
         [&](int64_t i) WASSLOSS_INLINED { least[i] = cost[i] < least[i] ? cost[i] : least[i]; });
  }
  memcpy(out, least, sizeof least);
}

// `log h(S)` from probabilities `h`. If they are too small to be exact, it is computed from the
// logits, and `h` is overwritten on S. Each member's share of S is `h_j / mass`.
template <class T>
double log_mass(const Members& set, const T* x, double log_total, T* __restrict h, double* mass) {
  *mass = set.sum_over<T>([=](int64_t j) WASSLOSS_INLINED { return h[j]; });
  if (*mass > (sizeof(T) == 4 ? 1e-20 : 1e-200)) return ::log(*mass);
  double largest = -INF;
  set.each_label([&](int64_t j) WASSLOSS_INLINED { largest = larger(largest, double(x[j])); });
  *mass = 0;
  for (int64_t p = set.first; p <= set.last; ++p) {
    const int64_t j = set.label(p);
    *mass += h[j] = T(::exp(double(x[j]) - largest));
  }
  return largest + ::log(*mass) - log_total;
}

// KL to labels softened by the distance to the set. Subtracts their mass outside of S from the
// gradient; `part` is their mass on S, whose distribution within S is free.
template <class T>
double softened_kl_to_set(const Members& set, const wassloss_settings& settings, int64_t labels,
                          const T* nearest, const T* x, const Exponents& found, double log_inside,
                          T* __restrict logs, T* __restrict powers, T* __restrict gradient,
                          double* part) {
  const double total = soften(labels, nearest, settings.per_softening, logs, powers);
  const double inside = set.sum_over<T>([=](int64_t j) WASSLOSS_INLINED { return powers[j]; });
  set.each_label([=](int64_t j) WASSLOSS_INLINED { powers[j] = T(0); });
  const T low = T(Precision<T>::lowest_log_mass), share = T(settings.kl_weight / total);
  const T largest = T(found.largest);  // subtracted first: large logits would cancel in the sum
  const double apart = sum<T>(labels, [=](int64_t i) WASSLOSS_INLINED {
    const T v = logs[i], e = powers[i];
    gradient[i] -= share * e;
    return e * ((v < low ? low : v) - (x[i] - largest));
  });
  *part = inside / total;
  return apart / total + (1 - *part) * (::log(found.total) - ::log(total)) +
         *part * (::log(*part) - log_inside);
}

inline Members set_of(const wassloss_batch& batch, int64_t b) {
  return {batch.members, batch.indices[b], batch.last[b]};
}

// Costs to the sets of examples `begin` to `end − 1`. Skips invalid sets.
template <class T>
void costs_to_members(const wassloss_batch& batch, int64_t begin, int64_t end,
                      const SetScratch<T>& scratch) {
  bool sound[EXAMPLES_AT_ONCE];
  for (int64_t b = begin; b < end; ++b)
    sound[b - begin] = valid(set_of(batch, b), batch, b, scratch.seen);
  const int64_t width = in_strips(batch.labels);
  for (int64_t start = 0; start < width; start += STRIP)
    for (int64_t b = begin; b < end; ++b)
      if (sound[b - begin])
        least_of_strip(set_of(batch, b), row<T>(batch.cost, start, batch.labels),
                       scratch.nearest + (b - begin) * width + start);
}

template <class T>
int set_row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b,
            T* nearest_costs, const SetScratch<T>& scratch) {
  const Members set = set_of(batch, b);
  const int64_t labels = batch.labels;
  if (is_ignored(set, batch, settings.ignore_index))
    return write_without_loss<T>(batch, b, WASSLOSS_IGNORED);
  T *log_h = scratch.softmax.log_h, *h = scratch.softmax.h;
  const T* x = row<T>(batch.logits, b, labels);
  const Exponents found = exponentials(labels, x, log_h, h);
  if (!(found.total < INF) || !valid(set, batch, ~b, scratch.seen))
    return write_without_loss<T>(batch, b, WASSLOSS_INVALID);
  const T* nearest = nearest_costs;
  if (!batch.tabulated)
    nearest = row<T>(batch.cost, b, labels);
  else if (batch.before)
    cost_to_range(set, batch, row<T>(batch.cost, batch.before[b], labels),
                  row<T>(batch.cost, batch.after[b], labels), nearest_costs);
  else if (batch.on_line)
    cost_on_line(set, batch, nearest_costs);
  T* gradient = row<T>(batch.gradient, b, labels);
  const double kl = settings.kl_weight;
  const double epsilon = settings.product ? 0 : settings.transport_weight * settings.epsilon;
  double loss = cost_of_one(labels, log_h, h, found.total, nearest, settings.transport_weight,
                            epsilon, gradient);
  through_softmax(labels, h, kl - loss, gradient, gradient);
  if (kl > 0) {
    const double log_total = found.largest + ::log(found.total);
    double mass, part = 1;  // mass of h and of the target on S
    const double inside = log_mass(set, x, log_total, h, &mass);
    if (settings.per_softening > 0)
      loss += kl * softened_kl_to_set(set, settings, labels, nearest, x, found, inside, log_h,
                                      scratch.powers, gradient, &part);
    else
      loss -= kl * inside;
    const T share = T(kl * part / mass);
    set.each_label([=](int64_t j) WASSLOSS_INLINED { gradient[j] -= share * h[j]; });
  }
  const T value = row<T>(batch.value, b, 1)[0] = T(loss);
  return size_of(value) < Precision<T>::inf ? WASSLOSS_FINE : WASSLOSS_INVALID;  // infinite cost
}

}  // namespace wassloss::WASSLOSS_ISA
