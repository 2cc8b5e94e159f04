// Elements of tensors of any type, and the four numbers that they are computed with. They convert as
// `reef_op::tensor::Stored` says: floats lose their fraction on the way to integers, and integers that are too
// large wrap.

#pragma once

#include "element.h"

typedef long long i64;

namespace tensor {

// In the order of `Element` in reef_op::tensor.
enum Element : u32 { F32, F16, BF16, F64, I64, I32, I16, I8, U64, U32, U16, U8, BOOL };

#if REEF_AMD
__device__ inline u64 bits_of(double value) { return __builtin_bit_cast(u64, value); }
__device__ inline u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
__device__ inline double of_bits(u64 bits) { return __builtin_bit_cast(double, bits); }
__device__ inline float single_of_bits(u32 bits) { return __builtin_bit_cast(float, bits); }
#else
__device__ inline u64 bits_of(double value) { return (u64)__double_as_longlong(value); }
__device__ inline u32 bits_of(float value) { return __float_as_uint(value); }
__device__ inline double of_bits(u64 bits) { return __longlong_as_double((i64)bits); }
__device__ inline float single_of_bits(u32 bits) { return __uint_as_float(bits); }
#endif

// Numbers whose bits stand in words, the low half first.
__device__ inline void from_words(const u32 *words, float &to) { to = single_of_bits(words[0]); }
__device__ inline void from_words(const u32 *words, u64 &to) { to = (u64)words[1] << 32 | words[0]; }
__device__ inline void from_words(const u32 *words, i64 &to) { to = (i64)((u64)words[1] << 32 | words[0]); }
__device__ inline void from_words(const u32 *words, double &to) {
    to = of_bits((u64)words[1] << 32 | words[0]);
}

__device__ inline double infinity() { return of_bits(0x7ff0000000000000ull); }
__device__ inline double none() { return of_bits(0x7ff8000000000000ull); }

// The nearest integer towards zero that the type holds; 0 for what is no number.
__device__ inline i64 to_signed(double x) {
    if (x != x) return 0;
    if (x >= 9223372036854775808.0) return 0x7fffffffffffffffll;
    if (x < -9223372036854775808.0) return -0x7fffffffffffffffll - 1;
    return (i64)x;
}

__device__ inline u64 to_unsigned(double x) {
    if (!(x > 0)) return 0;
    if (x >= 18446744073709551616.0) return ~0ull;
    return (u64)x;
}

// The low 64 bits of the integer that a float is without its fraction, cut off at 127 bits and a sign.
__device__ inline u64 low_bits(double x) {
    const double RANGE = 18446744073709551616.0; // 2^64
    if (x != x) return 0;
    if (x >= 170141183460469231731687303715884105728.0) return ~0ull;
    if (x < -170141183460469231731687303715884105728.0) return 0;
    x = trunc(x);
    if (x >= -9223372036854775808.0 && x < 9223372036854775808.0) return (u64)(i64)x;
    return (u64)(x - floor(x / RANGE) * RANGE);
}

__device__ inline u64 low_bits(float x) { return low_bits((double)x); }
__device__ inline u64 low_bits(i64 x) { return (u64)x; }
__device__ inline u64 low_bits(u64 x) { return x; }

// Numbers from what elements are, one by one.
template <class T> struct As;

template <> struct As<float> {
    template <class From> __device__ static float of(From x) { return (float)x; }
};

template <> struct As<double> {
    template <class From> __device__ static double of(From x) { return (double)x; }
};

template <> struct As<i64> {
    template <class From> __device__ static i64 of(From x) { return (i64)x; }
    __device__ static i64 of(float x) { return to_signed(x); }
    __device__ static i64 of(double x) { return to_signed(x); }
};

template <> struct As<u64> {
    template <class From> __device__ static u64 of(From x) { return (u64)(i64)x; }
    __device__ static u64 of(u64 x) { return x; }
    __device__ static u64 of(float x) { return to_unsigned(x); }
    __device__ static u64 of(double x) { return to_unsigned(x); }
};

// The upper half of a single, as BF16 is stored.
__device__ inline u16 brain(float x) {
    u32 bits = bits_of(x);
    if (x != x) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Element number `at`, as the number that is computed with.
template <class T> __device__ inline T load(const char *from, u32 element, u32 at) {
    switch (element) {
    case F32: return As<T>::of(((const float *)from)[at]);
    case F16: return As<T>::of(to_float(((const Half *)from)[at]));
    case BF16: return As<T>::of(single_of_bits((u32)((const u16 *)from)[at] << 16));
    case F64: return As<T>::of(((const double *)from)[at]);
    case I64: return As<T>::of(((const i64 *)from)[at]);
    case I32: return As<T>::of(((const int *)from)[at]);
    case I16: return As<T>::of((int)((const short *)from)[at]);
    case I8: return As<T>::of((int)((const signed char *)from)[at]);
    case U64: return As<T>::of(((const u64 *)from)[at]);
    case U32: return As<T>::of((i64)((const u32 *)from)[at]);
    case U16: return As<T>::of((int)((const u16 *)from)[at]);
    case U8: return As<T>::of((int)((const unsigned char *)from)[at]);
    default: return As<T>::of((int)(((const unsigned char *)from)[at] != 0));
    }
}

// Puts a number in the place of element number `at`.
template <class T> __device__ inline void store(char *to, u32 element, u32 at, T x) {
    switch (element) {
    case F32: ((float *)to)[at] = (float)x; return;
    case F16: set(((Half *)to)[at], (float)x); return;
    case BF16: ((u16 *)to)[at] = brain((float)x); return;
    case F64: ((double *)to)[at] = (double)x; return;
    case I64:
    case U64: ((u64 *)to)[at] = low_bits(x); return;
    case I32:
    case U32: ((u32 *)to)[at] = (u32)low_bits(x); return;
    case I16:
    case U16: ((u16 *)to)[at] = (u16)low_bits(x); return;
    case I8:
    case U8: ((unsigned char *)to)[at] = (unsigned char)low_bits(x); return;
    default: ((unsigned char *)to)[at] = x != 0; return;
    }
}

} // namespace tensor
