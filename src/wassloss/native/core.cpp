// All passes, compiled for the instruction set that WASSLOSS_ISA names.
//
// Nothing here may call a function that other files share, such as a template of the standard
// library: the linker keeps one version of it, possibly one that other processors cannot run.
#ifndef WASSLOSS_ISA
#define WASSLOSS_ISA baseline
#endif

#include "class_ids.hpp"
#include "maximize.hpp"
#include "passes.hpp"
#include "set.hpp"
#include "sparse.hpp"

namespace wassloss::WASSLOSS_ISA {
namespace {

template <class T>
struct ClassIds {
  LabelScratch<T> scratch;
  ClassIds(Room& room, const wassloss_settings&, const wassloss_batch& batch)
      : scratch(room, batch) {}
  int row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b) {
    return batch.status[b] = uint8_t(class_id_row(settings, batch, b, scratch));
  }
};

template <class T>
struct Sets {
  SetScratch<T> scratch;
  int64_t last = 0, begin = 0, end = 0;  // examples whose costs are known
  Sets(Room& room, const wassloss_settings&, const wassloss_batch& batch) : scratch(room, batch) {}
  int row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b) {
    T* nearest = scratch.nearest;
    if (scratch.many(batch)) {
      if (b >= end) {
        begin = b, end = smaller(b + EXAMPLES_AT_ONCE, last);
        costs_to_members(batch, begin, end, scratch);
      }
      nearest += (b - begin) * in_strips(batch.labels);
    }
    return batch.status[b] = uint8_t(set_row(settings, batch, b, nearest, scratch));
  }
};

template <class T>
struct Sparse {
  SolverScratch<T> scratch;
  Sparse(Room& room, const wassloss_settings& settings, const wassloss_batch& batch)
      : scratch(room, batch, takes_one_pass(settings)) {}
  int row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b) {
    return batch.status[b] = uint8_t(sparse_row(settings, batch, b, scratch));
  }
};

template <class T>
struct Maximize {
  SolverScratch<T> scratch;
  Maximize(Room& room, const wassloss_settings&, const wassloss_batch& batch)
      : scratch(room, batch, false) {}
  int row(const wassloss_settings& settings, const wassloss_batch& batch, int64_t b) {
    return maximize_row(settings, batch, b, scratch);
  }
};

template <class Rows>
size_t bytes(const wassloss_settings& settings, const wassloss_batch& batch) {
  Room room(nullptr);
  Rows(room, settings, batch);
  return room.used();
}

template <class Rows>
void announce(Rows&, int64_t) {}
template <class T>
void announce(Sets<T>& pass, int64_t last) {
  pass.last = last;
}

template <class Rows>
int rows(const wassloss_settings& settings, const wassloss_batch& batch, int64_t first,
         int64_t last, void* memory) {
  Room room(memory);
  Rows pass(room, settings, batch);
  announce(pass, last);
  int worst = WASSLOSS_FINE;
  for (int64_t b = first; b < last; ++b) worst = larger(worst, pass.row(settings, batch, b));
  return worst;
}

template <class Rows>
constexpr Pass pass() {
  return {bytes<Rows>, rows<Rows>};
}

template <class T>
void constants(double* values) {
  const double all[WASSLOSS_CONSTANTS] = {Precision<T>::smallest_mass,
                                          Precision<T>::lowest_log_mass,
                                          Precision<T>::negligible,
                                          NO_LOG_MASS,
                                          FIRST_EXPONENT,
                                          STAGE_FACTOR,
                                          STAGE_TOLERANCE,
                                          LAST_STAGE_TOLERANCE,
                                          SUFFICIENT_INCREASE,
                                          SHRINK,
                                          SMALLEST_STEP,
                                          RIDGE,
                                          LONGEST_STEP};
  for (int k = 0; k < WASSLOSS_CONSTANTS; ++k) values[k] = all[k];
}

}  // namespace

const Core core = {{pass<ClassIds<float>>(), pass<ClassIds<double>>()},
                   {pass<Sets<float>>(), pass<Sets<double>>()},
                   {pass<Sparse<float>>(), pass<Sparse<double>>()},
                   {pass<Maximize<float>>(), pass<Maximize<double>>()},
                   {constants<float>, constants<double>}};

}  // namespace wassloss::WASSLOSS_ISA
