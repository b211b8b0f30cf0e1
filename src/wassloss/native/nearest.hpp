// The cost from each label to its nearest target: exact transport with a free target marginal.
#pragma once

#include "lanes.hpp"

namespace wassloss::WASSLOSS_ISA {

// Lower `least` to the costs to one more target, where these are smaller.
template <class T>
void lower_to(int64_t labels, const T* __restrict cost, T* __restrict least) {
  each(labels,
       [=](int64_t i) WASSLOSS_INLINED { least[i] = cost[i] < least[i] ? cost[i] : least[i]; });
}

template <class T>
void least_cost(int64_t labels, int64_t support, const T* const* cost, T* least) {
  for (int64_t i = 0; i < labels; ++i) least[i] = Precision<T>::inf;
  for (int64_t j = 0; j < support; ++j) lower_to(labels, cost[j], least);
}

}  // namespace wassloss::WASSLOSS_ISA
