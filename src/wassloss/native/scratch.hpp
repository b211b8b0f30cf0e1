// The scratch memory of one thread, and access to the arrays of a batch.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lanes.hpp"
#include "wassloss.h"

namespace wassloss::WASSLOSS_ISA {

// Allocates arrays one after another from a block of memory or, without one, counts their bytes.
class Room {
 public:
  explicit Room(void* memory) : memory_(static_cast<char*>(memory)) {}

  // Each array begins on a cache line of its own, with a gap before the next.
  template <class T>
  T* take(int64_t n) {
    T* found = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (size_t(n) * sizeof(T) + 2 * LINE - 1) / LINE * LINE;
    return found;
  }
  size_t used() const { return used_; }
  bool real() const { return memory_ != nullptr; }

 private:
  static constexpr size_t LINE = 64;
  char* memory_;
  size_t used_ = 0;
};

template <class T>
const T* row(const void* array, int64_t index, int64_t length) {
  return static_cast<const T*>(array) + index * length;
}

template <class T>
T* row(void* array, int64_t index, int64_t length) {
  return static_cast<T*>(array) + index * length;
}

// The costs from all labels to target `j` of example `b`.
template <class T>
const T* cost_row(const wassloss_batch& batch, int64_t b, int64_t j) {
  const int64_t at = b * batch.support + j;
  return row<T>(batch.cost, batch.tabulated ? batch.indices[at] : at, batch.labels);
}

// Write a loss and gradient of 0 for an ignored example, of NaN for an invalid one.
template <class T>
int write_without_loss(const wassloss_batch& batch, int64_t b, int status) {
  const T number = status == WASSLOSS_IGNORED ? T(0) : Precision<T>::nan;
  T* gradient = row<T>(batch.gradient, b, batch.labels);
  for (int64_t i = 0; i < batch.labels; ++i) gradient[i] = number;
  row<T>(batch.value, b, 1)[0] = number;
  return status;
}

}  // namespace wassloss::WASSLOSS_ISA
