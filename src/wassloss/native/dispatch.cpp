// The functions of wassloss.h: choose the processor's best instruction set, and start threads.
#include <cstdlib>
#include <cstring>

#include "passes.hpp"
#include "threads.hpp"

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
#endif

namespace wassloss {
namespace {

struct Choice {
  const char* name;
  const Core* core;
};

#if defined(__x86_64__) || defined(_M_X64)

#if defined(_MSC_VER) && !defined(__clang__)
// The processor must have the registers, and the operating system must save them.
bool has_registers(unsigned long long which) {
  int words[4];
  __cpuid(words, 1);
  return (words[2] >> 27 & 1) && (_xgetbv(0) & which) == which;
}
bool has_avx2() {
  int basic[4], extended[4];
  __cpuid(basic, 1);
  __cpuidex(extended, 7, 0);
  return has_registers(0x6) && (basic[2] >> 12 & 1) && (extended[1] >> 5 & 1);
}
bool has_avx512() {
  int words[4];
  __cpuidex(words, 7, 0);
  const int wanted = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;  // F, DQ, BW, VL
  return has_registers(0xe6) && (words[1] & wanted) == wanted;
}
#else
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

Choice choose() {
  const char* most = std::getenv("WASSLOSS_INSTRUCTIONS");
  const bool plain = most && std::strcmp(most, "baseline") == 0;
  const bool narrow = plain || (most && std::strcmp(most, "avx2") == 0);
  if (!narrow && has_avx512()) return {"avx512", &avx512::core};
  if (!plain && has_avx2()) return {"avx2", &avx2::core};
  return {"baseline", &baseline::core};
}

#else

Choice choose() { return {"baseline", &baseline::core}; }

#endif

const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

int class_ids(int precision, const wassloss_settings* settings, const wassloss_batch* batch) {
  const int64_t most = 1 + batch->examples * batch->labels / WORTH_PASSING;
  return spread(chosen().core->class_ids[precision], *settings, *batch, most);
}

int sets(int precision, const wassloss_settings* settings, const wassloss_batch* batch) {
  const int64_t most = 1 + batch->examples * batch->labels / WORTH_PASSING;
  return spread(chosen().core->sets[precision], *settings, *batch, most);
}

int sparse(int precision, const wassloss_settings* settings, const wassloss_batch* batch) {
  const bool one_pass = settings->gamma_y == 0 || settings->transport_weight == 0;
  const int64_t costs = batch->examples * batch->labels * batch->support;
  const int64_t most = 1 + costs / (one_pass ? WORTH_PASSING : WORTH_SOLVING);
  return spread(chosen().core->sparse[precision], *settings, *batch, most);
}

int maximize(int precision, const wassloss_settings* settings, const wassloss_batch* batch) {
  const int64_t costs = batch->examples * batch->labels * batch->support;
  return spread(chosen().core->maximize[precision], *settings, *batch, 1 + costs / WORTH_SOLVING);
}

}  // namespace
}  // namespace wassloss

#define WASSLOSS_FUNCTIONS(name)                                                              \
  int wassloss_##name##_f32(const wassloss_settings* settings, const wassloss_batch* batch) { \
    return wassloss::name(0, settings, batch);                                                \
  }                                                                                           \
  int wassloss_##name##_f64(const wassloss_settings* settings, const wassloss_batch* batch) { \
    return wassloss::name(1, settings, batch);                                                \
  }
WASSLOSS_FUNCTIONS(class_ids)
WASSLOSS_FUNCTIONS(sets)
WASSLOSS_FUNCTIONS(sparse)
WASSLOSS_FUNCTIONS(maximize)

const char* wassloss_instructions(void) { return wassloss::chosen().name; }
int wassloss_abi(void) { return WASSLOSS_ABI; }
void wassloss_constants(int double_precision, double* values) {
  wassloss::chosen().core->constants[double_precision != 0](values);
}
