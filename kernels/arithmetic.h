// Functions of one and of two numbers, as `Unary` and `Binary` in reef_op::tensor have them.

#pragma once

#include "functions.h"

namespace tensor {

// In the order of `Unary` and `Binary` there.
enum Unary : u32 {
    ABS, ACOS, ACOSH, ASIN, ASINH, ATAN, ATANH, CEIL, COS, COSH, ERF, EXP, FLOOR, IS_INF, IS_NAN, LOG, NEG, NOT,
    COMPLEMENT, ROUND, SIGN, SIN, SINH, SQRT, TAN, TANH, TRUNC, SINGLE
};
enum Binary : u32 {
    ADD, SUB, MUL, DIV, MOD, REM, POW, MIN, MAX, LESS, LESS_OR_EQUAL, EQUAL, BIT_AND, BIT_OR, BIT_XOR, SHIFT_LEFT,
    SHIFT_RIGHT
};

__device__ inline bool is_none(float x) { return x != x; }
__device__ inline bool is_none(double x) { return x != x; }
__device__ inline bool is_none(i64) { return false; }
__device__ inline bool is_none(u64) { return false; }

// Sums and products of integers wrap.
template <class T> __device__ inline T sum_of(T a, T b) { return a + b; }
template <class T> __device__ inline T difference(T a, T b) { return a - b; }
template <class T> __device__ inline T product(T a, T b) { return a * b; }
__device__ inline i64 sum_of(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
__device__ inline i64 difference(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
__device__ inline i64 product(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }

template <class T> __device__ inline T quotient(T a, T b) { return a / b; }
__device__ inline u64 quotient(u64 a, u64 b) { return b == 0 ? 0 : a / b; }
__device__ inline i64 quotient(i64 a, i64 b) {
    return b == 0 ? 0 : b == -1 ? difference((i64)0, a) : a / b;
}

__device__ inline float rest(float x, float y) { return (float)rest((double)x, (double)y); }
__device__ inline u64 rest(u64 a, u64 b) { return b == 0 ? 0 : a % b; }
__device__ inline i64 rest(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }

__device__ inline u64 modulo(u64 a, u64 b) { return rest(a, b); }
template <class T> __device__ inline T modulo(T a, T b) {
    T left = rest(a, b);
    return left != 0 && (left < 0) != (b < 0) ? sum_of(left, b) : left;
}

template <class T> __device__ inline T smaller_of(T x, T y) { return y < x || is_none(y) ? y : x; }
template <class T> __device__ inline T larger_of(T x, T y) { return y > x || is_none(y) ? y : x; }

// By multiplication where the exponent is a small integer, which is exact where the result is.
__device__ inline double power(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (x != x || y != y) return none();
    double a = magnitude(x), half = 0.5 * y;
    bool whole = y == trunc(y), odd = whole && half != trunc(half) && magnitude(y) < infinity();
    if (x < 0 && !whole && a < infinity() && magnitude(y) < infinity()) return none();
    double result = 1;
    if (whole && magnitude(y) <= 64) {
        for (int n = (int)magnitude(y); n > 0; n--) result *= a;
        if (y < 0) result = 1 / result;
    } else if (a != 1) {
        double exponent = y * logarithm(a);
        result = exponential(exponent);
    }
    return odd ? with_sign(result, x) : result;
}
__device__ inline float power(float x, float y) { return (float)power((double)x, (double)y); }

// Wraps; exponents that are no 32-bit numbers go by way of doubles, whose result is cut off.
__device__ inline u64 power_wrapping(u64 x, u64 n) {
    u64 result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) result *= x;
    return result;
}
__device__ inline u64 power(u64 x, u64 y) {
    if (y >> 32 == 0) return power_wrapping(x, y);
    return x < 2 ? x : ~0ull;
}
__device__ inline i64 power(i64 x, i64 y) {
    if (y >= 0 && y >> 32 == 0) return (i64)power_wrapping((u64)x, (u64)y);
    if (x == 1) return 1;
    bool odd = y & 1 && magnitude((double)y) < 9007199254740992.0;
    if (x == -1) return odd ? -1 : 1;
    if (x == 0) return y < 0 ? 0x7fffffffffffffffll : 0;
    if (y < 0) return 0;
    return x < 0 && odd ? -0x7fffffffffffffffll - 1 : 0x7fffffffffffffffll;
}

// Bits of what is not an integer are those of the nearest towards zero.
template <class T> __device__ inline u64 pattern(T x) { return (u64)As<i64>::of(x); }
template <class T> __device__ inline T of_pattern(u64 bits) { return As<T>::of((i64)bits); }

__device__ inline u64 sign_of(u64 x) { return x > 0; }
template <class T> __device__ inline T sign_of(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }

__device__ inline u64 absolute(u64 x) { return x; }
template <class T> __device__ inline T absolute(T x) { return x < 0 ? difference(T(0), x) : sum_of(x, T(0)); }

// Functions that are computed in doubles whatever the domain, and exist for integers.
__device__ inline double stepped(u32 function, double x) {
    switch (function) {
    case CEIL: return ceil(x);
    case FLOOR: return floor(x);
    case ROUND: return rint(x);
    case SQRT: return sqrt(x);
    case SINGLE: return (double)(float)x;
    default: return trunc(x);
    }
}

// Those that exist for floats alone come from one exponential, one logarithm and one angle: the code is a fourth of
// what it would be with one for each, and its constants fit the scalar registers of gfx906.
__device__ inline double of_exponential(u32 function, double x) {
    double a = magnitude(x);
    if (function == ERF && !(a > 0.5)) return short_error_function(x);
    if (function == ERF && a > 6.2) return with_sign(1, x);
    double of = function == EXP ? x : function == ERF ? -x * x : function == TANH ? 2 * a : 0.5 * a;
    double grown = exponential(of), half = 0.5 * grown;
    switch (function) {
    case EXP: return grown;
    case ERF: return with_sign(1 - grown * scaled_complement(a), x);
    case COSH: return half * grown + 0.25 / (half * grown);
    }
    double sine = short_hyperbolic_sine(x);
    if (function == SINH) return a > 0.5 ? with_sign(half * grown - 0.25 / (half * grown), x) : sine;
    return a > 0.5 ? with_sign(1 - 2 / (grown + 1), x) : sine / sqrt(1 + sine * sine);
}

__device__ inline double of_logarithm(u32 function, double x) {
    double a = magnitude(x), above = 0; // the logarithm is that of 1 + above
    switch (function) {
    case ASINH: above = a + a * a / (1 + sqrt(1 + a * a)); break;
    case ACOSH: above = x - 1 + sqrt((x - 1) * (x + 1)); break;
    case ATANH: above = 2 * a / (1 - a); break;
    }
    bool far = a > 1e150 && function != ATANH;
    double whole = function == LOG || far ? x : 1 + above;
    if (far && function == ASINH) whole = a;
    double result = logarithm(function == ACOSH && !(x >= 1) ? -1.0 : whole);
    if (function == LOG) return result;
    if (far) result += LN2;
    // What was lost by adding 1.
    else if (whole < infinity()) result -= ((whole - 1) - above) / whole;
    if (function == ATANH) result *= 0.5;
    return function == ACOSH || x != x ? result : with_sign(result, x);
}

__device__ inline double of_angle(u32 function, double x) {
    double root = sqrt(function == ACOS ? (1 - x) / (1 + x) : (1 - x) * (1 + x));
    if (function == ACOS && x == -1) root = infinity();
    double angle = arc_tangent(function == ATAN ? x : function == ACOS ? root : x / root);
    return function == ACOS ? 2 * angle : angle;
}

__device__ inline double transcendental(u32 function, double x) {
    switch (function) {
    case SIN: return circular(0, x);
    case COS: return circular(1, x);
    case TAN: return circular(2, x);
    case ACOS:
    case ASIN:
    case ATAN: return of_angle(function, x);
    case LOG:
    case ACOSH:
    case ASINH:
    case ATANH: return of_logarithm(function, x);
    default: return of_exponential(function, x);
    }
}

template <class T> struct IsWhole { static const bool YES = false; };
template <> struct IsWhole<i64> { static const bool YES = true; };
template <> struct IsWhole<u64> { static const bool YES = true; };

template <class T> __device__ inline T unary(u32 function, T x) {
    switch (function) {
    case ABS: return absolute(x);
    case NEG: return product(x, T(-1));
    case NOT: return x == 0;
    case COMPLEMENT: return of_pattern<T>(~pattern(x));
    case IS_NAN: return is_none(x);
    case IS_INF: return magnitude((double)x) == infinity();
    case SIGN: return sign_of(x);
    case CEIL:
    case FLOOR:
    case ROUND:
    case SQRT:
    case SINGLE:
    case TRUNC: return As<T>::of(stepped(function, (double)x));
    default: return IsWhole<T>::YES ? x : As<T>::of(transcendental(function, (double)x));
    }
}

template <class T> __device__ inline T binary(u32 function, T a, T b) {
    switch (function) {
    case ADD: return sum_of(a, b);
    case SUB: return difference(a, b);
    case MUL: return product(a, b);
    case DIV: return quotient(a, b);
    case MOD: return modulo(a, b);
    case REM: return rest(a, b);
    case POW: return power(a, b);
    case MIN: return smaller_of(a, b);
    case MAX: return larger_of(a, b);
    case LESS: return a < b;
    case LESS_OR_EQUAL: return a <= b;
    case EQUAL: return a == b;
    case BIT_AND: return of_pattern<T>(pattern(a) & pattern(b));
    case BIT_OR: return of_pattern<T>(pattern(a) | pattern(b));
    case BIT_XOR: return of_pattern<T>(pattern(a) ^ pattern(b));
    case SHIFT_LEFT: {
        u32 by = (u32)pattern(b);
        return of_pattern<T>(by < 64 ? pattern(a) << by : 0);
    }
    default: {
        u32 by = (u32)pattern(b);
        return of_pattern<T>(by < 64 ? pattern(a) >> by : 0);
    }
    }
}

} // namespace tensor
