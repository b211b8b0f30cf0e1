// Spread examples over threads that live as long as the call.
//
// The threads of a pool would be missing after a fork, and would outlive the interpreter.
#pragma once

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "passes.hpp"

namespace wassloss {

// The number of costs from which one more thread pays off: in a solve, and in a closed form, which
// takes less than a nanosecond per cost.
constexpr int64_t WORTH_SOLVING = int64_t(1) << 14;
constexpr int64_t WORTH_PASSING = int64_t(1) << 18;
constexpr int64_t PORTIONS = 8;  // per thread: examples differ in iterations, and so in time

// Run `pass` on all examples with at most `most` threads. Return the worst status, or
// WASSLOSS_NO_MEMORY.
inline int spread(const Pass& pass, const wassloss_settings& settings, const wassloss_batch& batch,
                  int64_t most) {
  const size_t bytes = pass.bytes(settings, batch) + 64;
  int64_t threads = most < settings.threads ? most : settings.threads;
  if (threads > batch.examples) threads = batch.examples;
  const int64_t portion = threads > 1 ? 1 + batch.examples / (PORTIONS * threads) : batch.examples;
  std::atomic<int64_t> next{0};
  std::atomic<int> worst{0};
  const auto work = [&]() noexcept {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) return false;
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(memory) + 63) / 64 * 64;
    for (;;) {
      const int64_t first = next.fetch_add(portion);
      if (first >= batch.examples) break;
      const int64_t last = first + portion < batch.examples ? first + portion : batch.examples;
      const int found = pass.rows(settings, batch, first, last, reinterpret_cast<void*>(aligned));
      int before = worst.load();
      while (before < found && !worst.compare_exchange_weak(before, found)) {
      }
    }
    std::free(memory);
    return true;
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  } catch (...) {
    // No more threads, or no memory for them: continue with those that have started.
  }
  const bool worked = work();
  for (std::thread& helper : helpers) helper.join();
  // A thread that has memory works until no examples are left.
  return worked || next.load() >= batch.examples ? worst.load() : WASSLOSS_NO_MEMORY;
}

}  // namespace wassloss
