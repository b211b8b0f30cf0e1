/* The compiled core of wassloss: losses of a batch with their gradients, for CPUs.
 *
 * Plain C, so that any language can call it. No state is kept between calls, and nothing throws: an
 * example that cannot be computed is marked in its status.
 */
#ifndef WASSLOSS_H
#define WASSLOSS_H

#include <stdint.h>

#if defined(_WIN32)
#define WASSLOSS_API __declspec(dllexport)
#else
#define WASSLOSS_API __attribute__((visibility("default")))
#endif

#define WASSLOSS_ABI 2

/* The status of an example, in increasing order of severity. */
enum {
  WASSLOSS_FINE = 0,
  WASSLOSS_IGNORED = 1,     /* does not count: its loss and gradient are 0 */
  WASSLOSS_UNCONVERGED = 2, /* the best result found, but not within the tolerance */
  WASSLOSS_INVALID = 3      /* an invalid prediction or target: its loss and gradient are NaN */
};

/* Returned instead of the worst status if scratch memory cannot be allocated. */
#define WASSLOSS_NO_MEMORY (-1)

#define WASSLOSS_STRIP 64

#ifdef __cplusplus
extern "C" {
#endif

/* The settings of a loss: one record for all functions. */
typedef struct {
  double epsilon;          /* strength of the entropy; 0 only with gamma_y = 0 */
  double gamma_h, gamma_y; /* strengths of the marginal penalties; infinity is a constraint */
  double unequal_price;    /* Objective.price_of_unequal_masses */
  double transport_weight; /* the loss is transport_weight W + kl_weight KL */
  double kl_weight;
  double per_softening;       /* the factor of costs in softened labels; 0: not softened */
  double tol, mass_tolerance; /* relative error of marginals; error of a sum of weights from 1 */
  int64_t max_iterations, ignore_index;
  int32_t product;   /* regulariser: 1 for KL(T | h y'), 0 for the entropy of the plan */
  int32_t fixed;     /* run max_iterations of Algorithm 1, exactly */
  int32_t normalize; /* divide weights by their sum */
  int32_t threads;   /* the largest number of threads */
} wassloss_settings;

/* A batch. Arrays are dense, row-major and of the precision that the function is named after. */
typedef struct {
  int64_t examples, labels, support;
  const void* logits;     /* (examples, labels); log h for maximize */
  const int64_t* indices; /* (examples, support); class ids (examples); for sets, the first place of
                             each (examples) */
  const void* weights;    /* (examples, support), 0 for padding; log y, or -inf, for maximize */
  const void* cost;       /* rows (any number, labels) */
  int32_t tabulated;      /* whether target j of example b has row indices[b, j], as always in
                             maximize; if not, it has row b * support + j */
  void* value;            /* (examples) */
  void* gradient;         /* (examples, labels), in the logits; the potentials f for maximize */
  uint8_t* status;        /* (examples); not written by maximize, the only one to write these: */
  void* g;                /* (examples, support), the targets' potentials; 0 for padding */
  int64_t* n_iterations;  /* (examples) */
  void* error;            /* (examples), of the target's marginal, relative to the mass moved */
  const int64_t* last;    /* (examples), for sets: the last place of each, inclusive */
  const int64_t* members; /* (places), for sets: the label at each place, or null if places are
                             labels */
  int64_t places;
  /* Costs to sets. Without a table, row b of the costs is that of set b. With a table:
   * - `before` and `after` (examples), for ranges in an order of the labels: the rows of costs for
   *   labels before and after the range;
   * - `on_line`: labels are on a line in numerical order; sets in that order are faster;
   * - otherwise the table is stored in strips, (strips, labels, WASSLOSS_STRIP). */
  const int64_t *before, *after;
  int32_t on_line;
} wassloss_batch;

/* Losses and gradients of targets: class ids, sets of labels, or a few weighted labels. These
 * return the worst status of the batch. */
WASSLOSS_API int wassloss_class_ids_f32(const wassloss_settings*, const wassloss_batch*);
WASSLOSS_API int wassloss_class_ids_f64(const wassloss_settings*, const wassloss_batch*);
WASSLOSS_API int wassloss_sets_f32(const wassloss_settings*, const wassloss_batch*);
WASSLOSS_API int wassloss_sets_f64(const wassloss_settings*, const wassloss_batch*);
WASSLOSS_API int wassloss_sparse_f32(const wassloss_settings*, const wassloss_batch*);
WASSLOSS_API int wassloss_sparse_f64(const wassloss_settings*, const wassloss_batch*);

/* Potentials that maximise the dual of entropic transport. These return 0. */
WASSLOSS_API int wassloss_maximize_f32(const wassloss_settings*, const wassloss_batch*);
WASSLOSS_API int wassloss_maximize_f64(const wassloss_settings*, const wassloss_batch*);

/* The instruction set in use: "avx512", "avx2" or "baseline". The environment variable
 * WASSLOSS_INSTRUCTIONS may select an older one. */
WASSLOSS_API const char* wassloss_instructions(void);

/* WASSLOSS_ABI of the library: changes with the records above. */
WASSLOSS_API int wassloss_abi(void);

/* The constants of a precision ("float" or "double"), for tests: smallest mass, its log, negligible
 * exponent, log of no mass, then the constants of Newton's method in the order of their file. */
enum { WASSLOSS_CONSTANTS = 13 };
WASSLOSS_API void wassloss_constants(int double_precision, double* values);

#ifdef __cplusplus
}
#endif

#endif
