// Loops that compilers vectorise, and the elementary functions that such loops need.
//
// A call to the C library's `exp` inside a loop is scalar. These are polynomials, accurate to about
// one unit in the last place, of which a loop over an array computes 4 to 16 at a time.
#pragma once

#include <stdint.h>
#include <string.h>

#include "numbers.hpp"

namespace wassloss::WASSLOSS_ISA {

#if defined(_MSC_VER) && !defined(__clang__)
#define WASSLOSS_INLINE __forceinline
#define WASSLOSS_INLINED
#else
#define WASSLOSS_INLINE inline __attribute__((always_inline))
#define WASSLOSS_INLINED __attribute__((always_inline))  // after the parameters of a lambda
#endif

constexpr int64_t BLOCK = 512;  // labels per block: a block of every array fits in the cache
constexpr int64_t WIDEST = 16;  // numbers in the widest vector

// Scratch arrays are padded to whole vectors, so that loops have no scalar remainder.
constexpr int64_t padded(int64_t n) { return (n + WIDEST - 1) / WIDEST * WIDEST; }

template <class N>
constexpr N smaller(N a, N b) {
  return b < a ? b : a;
}
template <class N>
constexpr N larger(N a, N b) {
  return a < b ? b : a;
}
template <class N>
constexpr N size_of(N x) {
  return x < 0 ? -x : x;
}

// Call `body(i)` for i = 0, …, n − 1; the calls must not depend on each other.
template <class Body>
WASSLOSS_INLINE void each(int64_t n, Body body) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) body(i);
}

// `Σ_i term(i)`, reordered for vectors within a block; blocks are added in double precision.
template <class T, class Term>
WASSLOSS_INLINE double sum(int64_t n, Term term) {
  double total = 0;
  for (int64_t first = 0; first < n; first += BLOCK) {
    const int64_t stop = smaller(first + BLOCK, n);
    T part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t i = first; i < stop; ++i) part += term(i);
    total += double(part);
  }
  return total;
}

// `max_i term(i)`, ignoring NaN. Several maxima are kept at once, which compilers vectorise without
// a flag that excludes NaN.
template <class T, class Term>
WASSLOSS_INLINE T maximum(int64_t n, Term term) {
  constexpr int64_t width = 2 * WIDEST;
  T top[width];
  for (T& one : top) one = -Precision<T>::inf;
  int64_t first = 0;
  const auto raise = [&](int64_t i) WASSLOSS_INLINED {
    const T x = term(first + i);
    top[i] = x > top[i] ? x : top[i];
  };
  for (; first + width <= n; first += width) each(width, raise);
  each(n - first, raise);
  for (int64_t half = width / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) top[i] = larger(top[i], top[i + half]);
  return top[0];
}

// Call `body(j, Rows<r>())` for rows `j` to `j + r − 1`, four at a time and then the rest.
template <int count>
struct Rows {
  static constexpr int n = count;
};

template <class Body>
WASSLOSS_INLINE void in_fours(int64_t n, Body body) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) body(j, Rows<4>());
  if (n - j == 3) body(j, Rows<3>());
  if (n - j == 2) body(j, Rows<2>());
  if (n - j == 1) body(j, Rows<1>());
}

namespace lanes {

template <class T>
WASSLOSS_INLINE T polynomial(T, T constant) {
  return constant;
}
template <class T, class... Rest>
WASSLOSS_INLINE T polynomial(T x, T constant, Rest... rest) {
  return polynomial(x, rest...) * x + constant;
}

template <class To, class From>
WASSLOSS_INLINE To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}

// Constants and polynomials of a floating-point type. The polynomials c and d interpolate at
// Chebyshev nodes. `ln2` is log 2 in two parts, the first short enough for n times it to be exact.
template <class T>
struct Format;

template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float ln2[2] = {0.693359375f, -2.12194440e-4f};
  static constexpr float magic = 0x1.8p23f;
  static constexpr Bits root_half = 0x3f3504f3;  // the bits of sqrt(1/2)
  static WASSLOSS_INLINE float c(float r) {
    return polynomial(r, 0.5f, 0.16666576989698775f, 0.041666554617204574f, 0.008363179052722578f,
                      0.0013926183587713494f);
  }
  static WASSLOSS_INLINE float d(float z) {
    return polynomial(z, 0.6666668515145278f, 0.39988734820244165f, 0.2958202356203656f);
  }
};

template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double ln2[2] = {0.6931471805598903, 5.497923018708371e-14};
  static constexpr double magic = 0x1.8p52;
  static constexpr Bits root_half = 0x3fe6a09e667f3bcd;
  static WASSLOSS_INLINE double c(double r) {
    return polynomial(r, 0.5, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062,
                      0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05,
                      2.7557268459997064e-06, 2.7620088445409746e-07, 2.510038549551032e-08);
  }
  static WASSLOSS_INLINE double d(double z) {
    return polynomial(z, 0.666666666666667, 0.3999999999989827, 0.2857142862653362,
                      0.22222211043776857, 0.18182895750119193, 0.1533150161114533,
                      0.1461916613488797);
  }
};

// `e^x = power (1 + rest)`: the integer n nearest to x / log 2 makes `power = 2^n`, and
// `rest = e^r − 1 = r + r² c(r)` of what remains.
template <class T>
struct Power {
  T power, rest;
};

template <class T>
WASSLOSS_INLINE Power<T> split(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  // Adding `magic` rounds to an integer, and leaves that integer in the lowest bits.
  const T shifted = x * T(1 / LOG_2) + F::magic;
  const T n = shifted - F::magic;
  const T r = (x - n * F::ln2[0]) - n * F::ln2[1];
  const Bits exponent = (bits_as<Bits>(shifted) + Bits(F::bias)) << F::mantissa;
  return {bits_as<T>(exponent), F::c(r) * r * r + r};
}

// `e^x`, for results from the smallest normal number to half the largest; NaN for a NaN.
template <class T>
WASSLOSS_INLINE T exp(T x) {
  const Power<T> e = split(x);
  return e.rest * e.power + e.power;
}

// `e^x − 1` with all its digits, in the same range.
template <class T>
WASSLOSS_INLINE T expm1(T x) {
  const Power<T> e = split(x);
  return e.rest * e.power + (e.power - T(1));
}

// The logarithm of a positive normal number: `n log 2 + log m` with m near 1 and, for
// `s = (m − 1)/(m + 1)`, `log m = 2s + s³ d(s²)`.
template <class T>
WASSLOSS_INLINE T log(T x) {
  using F = Format<T>;
  using Bits = typename F::Bits;
  constexpr Bits offset = 2 * Bits(F::bias);  // n + offset is positive: no arithmetic shift
  const Bits bits = bits_as<Bits>(x);
  const Bits raised = (bits - F::root_half + (offset << F::mantissa)) >> F::mantissa;
  const T m = bits_as<T>(bits - ((raised - offset) << F::mantissa));
  const T n = bits_as<T>(raised + bits_as<Bits>(F::magic)) - (F::magic + T(offset));
  const T s = (m - T(1)) / (m + T(1)), z = s * s;
  return n * T(LOG_2) + (T(2) * s + s * z * F::d(z));
}

}  // namespace lanes
}  // namespace wassloss::WASSLOSS_ISA
