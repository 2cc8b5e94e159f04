// Functions of one double, the same on all GPUs: AMD's compiler has no library of them. They err by a few units of the
// last place (docs/models.md says by how many); rounded to single they are the nearest but for few arguments.

#pragma once

#include "number.h"

namespace tensor {

const double LN2_HIGH = 0.693147180369123816490, LN2_LOW = 1.90821492927058770002e-10;
const double LN2 = 0.69314718055994530942, PI = 3.14159265358979323846;

// 2 to an exponent from -1022 to 1023.
__device__ inline double two_to(int exponent) { return of_bits((u64)(exponent + 1023) << 52); }

// x * 2^exponent, for exponents from -3000 to 3000.
__device__ inline double scaled(double x, int exponent) {
    int third = exponent / 3;
    return x * two_to(third) * two_to(third) * two_to(exponent - 2 * third);
}

__device__ inline double magnitude(double x) { return of_bits(bits_of(x) & ~(1ull << 63)); }

__device__ inline double with_sign(double x, double sign) {
    return of_bits((bits_of(x) & ~(1ull << 63)) | (bits_of(sign) & 1ull << 63));
}

// x = k ln 2 + r; the series of e^r, and 2^k.
__device__ inline double exponential(double x) {
    if (x != x) return x;
    x = x > 800 ? 800 : x < -800 ? -800 : x;
    double k = rint(x * 1.44269504088896340736);
    double r = fma(-k, LN2_LOW, fma(-k, LN2_HIGH, x));
    double sum = 1;
#pragma unroll
    for (int n = 14; n > 0; n--) sum = fma(sum, r * (1.0 / n), 1.0);
    return scaled(sum, (int)k);
}

// x = 2^k (1 + f), with 1 + f between the root of 1/2 and that of 2; the series of log(1 + f) in f / (2 + f).
__device__ inline double logarithm(double x) {
    if (x != x || x == infinity()) return x;
    if (x < 0) return none();
    if (x == 0) return -infinity();
    bool tiny = x < 2.2250738585072014e-308;
    if (tiny) x *= 18014398509481984.0; // 2^54
    int k = (int)(bits_of(x) >> 52) - 1023 - (tiny ? 54 : 0);
    double m = of_bits((bits_of(x) & 0xfffffffffffffull) | 0x3ff0000000000000ull);
    if (m > 1.41421356237309504880) m *= 0.5, k++;
    double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double sum = 0;
#pragma unroll
    for (int n = 11; n > 0; n--) sum = fma(sum, z, 2.0 / (2 * n + 1));
    double low = fma(s, half + sum * z, k * LN2_LOW);
    return k * LN2_HIGH - ((half - low) - f);
}

// The exponent of a number above 0.
__device__ inline int exponent_of(double x) {
    bool tiny = x < 2.2250738585072014e-308;
    return (int)(bits_of(tiny ? x * 18014398509481984.0 : x) >> 52) - (tiny ? 54 : 0); // 2^54
}

// What a division leaves, with the sign of the dividend. Each step takes off the largest b * 2^k, exactly.
__device__ inline double rest(double x, double y) {
    double a = magnitude(x), b = magnitude(y);
    if (!(a < infinity()) || b != b || b == 0) return none();
    while (a >= b) {
        int by = exponent_of(a) - exponent_of(b);
        double large = scaled(b, by);
        if (large > a) large = scaled(b, by - 1);
        a -= large;
    }
    return with_sign(a, x);
}

// Of x: the sine (shift 0), the cosine (1), or else the tangent. x = n pi/2 + r. From 1e15 on the next double is as far
// as a turn, or farther, and the result is of some angle.
__device__ inline double circular(u32 shift, double x) {
    if (!(magnitude(x) < infinity())) return none();
    if (magnitude(x) > 1e15) x = rest(x, 2 * PI);
    double n = rint(x * 0.63661977236758134308);
    double r = fma(-n, 1.5707963267948965580, x);
    r = fma(-n, 6.1232339957367660359e-17, r);
    r = fma(-n, -1.4973849048591833e-33, r);
    double z = r * r, sine = 1, cosine = 1;
#pragma unroll
    for (int n = 9; n > 0; n--) {
        sine = fma(sine, -z * (1.0 / (2 * n * (2 * n + 1))), 1.0);
        cosine = fma(cosine, -z * (1.0 / (2 * n * (2 * n - 1))), 1.0);
    }
    sine *= x == 0 ? x : r;
    u32 quarter = (u32)(int)(n - 4 * floor(n * 0.25));
    if (shift > 1) return quarter & 1 ? -cosine / sine : sine / cosine;
    double value = (quarter + shift) & 1 ? cosine : sine;
    return (quarter + shift) & 2 ? -value : value;
}

// The angle of a tangent, halved twice, so that the series is short.
__device__ inline double arc_tangent(double x) {
    if (x != x) return x;
    double a = magnitude(x);
    bool steep = a > 1;
    if (steep) a = 1 / a;
    a = a / (1 + sqrt(1 + a * a));
    a = a / (1 + sqrt(1 + a * a));
    double z = a * a, sum = 0;
#pragma unroll
    for (int n = 13; n >= 0; n--) sum = fma(sum, -z, 1.0 / (2 * n + 1));
    double angle = 4 * a * sum;
    return with_sign(steep ? PI / 2 - angle : angle, x);
}

// Where e^x and e^-x would cancel, the series of the hyperbolic sine.
__device__ inline double short_hyperbolic_sine(double x) {
    double z = x * x, sum = 1;
#pragma unroll
    for (int n = 9; n > 0; n--) sum = fma(sum, z * (1.0 / (2 * n * (2 * n + 1))), 1.0);
    return x * sum;
}

// e^(x^2) times what the error function lacks to 1: a fit at Chebyshev's points, for x from 0.5 to 6.2.
__device__ inline double scaled_complement(double x) {
    double u = fma((x - 2) / (x + 2), 1.7982456140350878, 0.07894736842105263);
    double sum = 5.876474306648431e-13;
    sum = fma(sum, u, -2.380137950296885e-12);
    sum = fma(sum, u, -1.8389717951467726e-11);
    sum = fma(sum, u, -1.1128978824393656e-11);
    sum = fma(sum, u, 2.0577236756250066e-10);
    sum = fma(sum, u, 7.880486324731917e-10);
    sum = fma(sum, u, -3.188778240907899e-10);
    sum = fma(sum, u, -1.2376837466961209e-08);
    sum = fma(sum, u, -3.1651049976112836e-08);
    sum = fma(sum, u, 1.1043631468928337e-07);
    sum = fma(sum, u, 8.117733803025208e-07);
    sum = fma(sum, u, -2.0661372863769213e-07);
    sum = fma(sum, u, -1.6207204859952226e-05);
    sum = fma(sum, u, -1.6094911962748162e-05);
    sum = fma(sum, u, 0.00038187753341885583);
    sum = fma(sum, u, 0.0002080275085933542);
    sum = fma(sum, u, -0.013671269003654915);
    sum = fma(sum, u, 0.07795975089137058);
    sum = fma(sum, u, -0.24961129925291675);
    sum = fma(sum, u, 0.27462265054804663);
    return sum;
}

// The series of the error function, for x up to 0.5.
__device__ inline double short_error_function(double x) {
    double z = x * x, sum = 0, factorial = 6227020800.0; // 13!
#pragma unroll
    for (int n = 13; n >= 0; factorial /= n > 0 ? n : 1, n--)
        sum = fma(sum, z, (n & 1 ? -1.0 : 1.0) / (factorial * (2 * n + 1)));
    return x * sum * 1.12837916709551257390; // 2 / sqrt(pi)
}

} // namespace tensor
