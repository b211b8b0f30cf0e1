// What dispatch.cpp calls in core.cpp, which is compiled once per instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wassloss.h"

namespace wassloss {

// A pass over examples: `bytes` of scratch memory per thread, and `rows`, which computes examples
// `first` to `last − 1` and returns their worst status.
struct Pass {
  size_t (*bytes)(const wassloss_settings&, const wassloss_batch&);
  int (*rows)(const wassloss_settings&, const wassloss_batch&, int64_t first, int64_t last,
              void* memory);
};

struct Core {
  Pass class_ids[2], sets[2], sparse[2], maximize[2];  // in single and in double precision
  void (*constants[2])(double*);
};

namespace baseline {
extern const Core core;
}
namespace avx2 {
extern const Core core;
}
namespace avx512 {
extern const Core core;
}

}  // namespace wassloss
