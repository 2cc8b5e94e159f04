// Common to tests of kernels of tensors: plan.h and number.h as they are, tensors of any element, and blocks that
// are stopped at each of their preemption points.

#pragma once

#define WHOLE_PLAN
#include "device.h"
#define __shared__ static
inline long long __double_as_longlong(double value) { long long bits; memcpy(&bits, &value, 8); return bits; }
inline double __longlong_as_double(long long bits) { double value; memcpy(&value, &bits, 8); return value; }
inline u32 atomicOr(u32 *to, u32 bits) { u32 old = *to; *to |= bits; return old; }
inline u32 atomicAnd(u32 *to, u32 bits) { u32 old = *to; *to &= bits; return old; }
inline int __ffs(u32 bits) { return __builtin_ffs(bits); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline u32 atomicMax(u32 *to, u32 value) { u32 old = *to; *to = max(old, value); return old; }
#include "number.h"
#include "plan.h"
#include "functions.h"
#include "arithmetic.h"
#include "random.h"

using tensor::THREADS;

// Its elements lie between bytes that aren't its own.
struct Array {
    static const u32 MARGIN = 64;
    u32 element, count, size;
    std::vector<char> bytes;

    Array(u32 element, u32 count) : element(element), count(count) {
        const u32 sizes[] = {4, 2, 2, 8, 8, 4, 2, 1, 8, 4, 2, 1, 1};
        size = sizes[element];
        bytes.assign(2 * MARGIN + count * size, 0x5a);
    }
    char *data() { return bytes.data() + MARGIN; }
    bool is_float() const { return element <= tensor::F64; }
    template <class T> T at(u32 n) { return tensor::load<T>(data(), element, n); }
    template <class T> void set(u32 n, T value) { tensor::store<T>(data(), element, n, value); }
    void fill_bytes() {
        for (u32 n = 0; n < count * size; n++) data()[n] = (char)any(0, 255);
    }
};

template <class T> u32 any_element();
template <> u32 any_element<float>() { return any(tensor::F32, tensor::BF16); }
template <> u32 any_element<double>() { const u32 all[] = {tensor::F64, tensor::F32, tensor::I32}; return all[any(0, 2)]; }
template <> u32 any_element<u64>() { return any(0, 1) ? tensor::U64 : tensor::U16; }
template <> u32 any_element<i64>() { return any(tensor::I64, tensor::BOOL); }

inline void add_input(std::vector<u32> &plan, Array &array) {
    const u64 address = (u64)array.data();
    plan.insert(plan.end(), {(u32)address, (u32)(address >> 32), array.element, 0});
}

inline void add_divisor(std::vector<u32> &plan, u32 by) {
    u32 shift = 31;
    by = max(by, 1u);
    while (1ull << (shift - 31) < by) shift++;
    plan.insert(plan.end(), {(u32)(((1ull << shift) + by - 1) / by), shift});
}

// Runs all blocks in any order. Some are stopped at each of their preemption points, have written nothing then, and run again
// behind the others. Says whether that was so.
template <class Kernel> bool run_blocks(u32 blocks, Array &output, const std::vector<u32> &plan, Kernel kernel) {
    const tensor::Job job = {output.data(), plan.data(), output.count, output.element, 0, 0};
    struct Turn { u32 block; bool guarded; u32 point; };
    std::vector<Turn> turns;
    for (u32 block = 0; block < blocks; block++) {
        const bool guarded = any(0, 2) > 0;
        turns.push_back({block, guarded, guarded ? any(0, 1) : 0});
        std::swap(turns[any(0, block)], turns[block]);
    }
    bool clean = true;
    for (u32 n = 0; n < turns.size(); n++) {
        const Turn turn = turns[n];
        const std::vector<char> before = output.bytes;
        reef::block_index = turn.block, reef::block_is_guarded = turn.guarded, reef::stopping_point = turn.point;
        reef::block_has_stopped = false, threads_run_backwards = any(0, 1);
        run_block(THREADS, [&] {
            reef::Turns turns;
            reef::Block block(turns, reef::LINE);
            kernel(block, job);
        });
        if (!reef::block_has_stopped) continue;
        if (before != output.bytes) clean = false;
        turns.push_back({turn.block, true, turn.point + 1});
    }
    return clean;
}

// The first element that is not as in `want`, or one behind the last if what lies around them has changed; or `NOWHERE`.
inline u32 difference(Array &made, Array &want) {
    for (u32 n = 0; n < made.count; n++)
        if (memcmp(made.data() + n * made.size, want.data() + n * made.size, made.size) != 0 &&
            !(made.is_float() && std::isnan(made.at<double>(n)) && std::isnan(want.at<double>(n))))
            return n;
    const std::vector<char> margin(Array::MARGIN, 0x5a);
    const bool clean = memcmp(made.bytes.data(), margin.data(), Array::MARGIN) == 0 &&
                       memcmp(made.data() + made.count * made.size, margin.data(), Array::MARGIN) == 0;
    return clean ? tensor::NOWHERE : made.count;
}

// What is wrong with blocks that were not `clean`, or whose output has this `difference`.
inline void print_wrong(bool clean, u32 difference, Array &made, Array &want) {
    if (!clean)
        printf("a block that stopped has written\n");
    else if (difference == made.count)
        printf("it writes around the output\n");
    else
        printf("[%u] is %g, not %g\n", difference, made.at<double>(difference), want.at<double>(difference));
}
