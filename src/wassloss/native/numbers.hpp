// Constants of each precision, and of Newton's method.
//
// They equal those of transport/precision.py and kernels/newton_constants.py, which give the
// reasons; a test compares them.
#pragma once

#include <stdint.h>

#include <limits>

namespace wassloss::WASSLOSS_ISA {

constexpr double INF = std::numeric_limits<double>::infinity();
constexpr double LOG_2 = 0.69314718055994530942;

template <class T>
struct Precision {
  using Limits = std::numeric_limits<T>;
  static constexpr T eps = Limits::epsilon();
  static constexpr T tiny = Limits::min();
  static constexpr T inf = Limits::infinity();
  static constexpr T nan = Limits::quiet_NaN();
  static constexpr double log_tiny = (Limits::min_exponent - 1) * LOG_2;
  // The largest exponent of `lanes::exp`.
  static constexpr double log_largest = (Limits::max_exponent - 1) * LOG_2;
  // The stand-in for a mass of zero, and its logarithm.
  static constexpr double smallest_mass = 2.71828182845904523536 * double(Limits::min());
  static constexpr double lowest_log_mass = 1 + log_tiny;
  // The logarithm of a term that adds nothing to a sum whose largest term is 1. Smaller terms are
  // raised to it: times a mass, they would be denormal numbers, which are slow.
  static constexpr double negligible = 0.5 * log_tiny;
  // Masses below tiny^0.45 are negligible in sums over labels, and parts of a plan below tiny^0.5
  // in a Hessian. They are set to 0, because their products would be denormal.
  static constexpr T least_mass = sizeof(T) == 4 ? T(0x1p-57) : T(0x1p-460);
  static constexpr T least_part = sizeof(T) == 4 ? T(0x1p-63) : T(0x1p-511);
};

// The stand-in for log 0 in relaxed plans: beyond any difference of costs over epsilon.
constexpr double NO_LOG_MASS = -1e9;

constexpr double FIRST_EXPONENT = 20.0;
constexpr double STAGE_FACTOR = 4.0;
constexpr double STAGE_TOLERANCE = 0.3;
constexpr double LAST_STAGE_TOLERANCE = 1e-3;
constexpr double SUFFICIENT_INCREASE = 0.1;
constexpr double SHRINK = 0.25;
constexpr double SMALLEST_STEP = 1e-3;
constexpr double RIDGE = 1e-2;
constexpr double LONGEST_STEP = 20.0;

}  // namespace wassloss::WASSLOSS_ISA
