// What looks at whole rows: `Scan` and `TopK` in reef_op::tensor.

#pragma once

#include "arithmetic.h"
#include "plan.h"

namespace tensor {

// Elements between two preemption points.
const u32 SCANNED_PER_POLL = 512;

// Words of a plan: the input; elements of a row, rows that lie in each other, elements of a part, parts of a row; whether
// a sum is without its own element, and whether rows go backwards. A thread makes a part of a row, from the sum of all
// before it, so that it has nothing written until it knows that.
template <class T> __device__ __forceinline__ void scan(reef::Block &block, const Job &job) {
    const u32 *plan = job.plan;
    const Input input = input_of(plan);
    const u32 len = plan[4], inner = plan[5], part = plan[6], parts = plan[7], exclusive = plan[8], reverse = plan[9];
    const u32 thread = block.index * THREADS + threadIdx.x, row = thread / parts;
    const bool mine = row < job.count / len;
    const u32 base = row / inner * len * inner + row % inner;
    const u32 begin = mine ? thread % parts * part : 0, end = min(begin + part, len);
    T sum = 0;
    for (u32 first = 0; first < len; first += SCANNED_PER_POLL) {
        if (first > 0 && block.stopped()) return;
        for (u32 j = first; j < min(first + SCANNED_PER_POLL, begin); j++)
            sum = sum_of(sum, input.at<T>(base + (reverse ? len - 1 - j : j) * inner));
    }
    for (u32 j = begin; mine && j < end; j++) {
        u32 at = base + (reverse ? len - 1 - j : j) * inner;
        T with = sum_of(sum, input.at<T>(at));
        store<T>(job.output, job.element, at, exclusive ? sum : with);
        sum = with;
    }
}

// Whether `x` comes before `y` among the largest, or the smallest; what is no number is above all numbers.
template <class T> __device__ inline bool comes_first(T x, T y, bool largest) {
    bool above = x > y || (is_none(x) && !is_none(y)), below = x < y || (is_none(y) && !is_none(x));
    return largest ? above : below;
}

// Words of a plan: the input; elements of a row, how many are wanted, whether the largest, whether their places; blocks
// of a row. A thread finds out how many come before its element: that many places from the front it goes.
template <class T> __device__ __forceinline__ void top(reef::Block &block, const Job &job) {
    __shared__ T others[THREADS];
    const u32 *plan = job.plan;
    const Input input = input_of(plan);
    const u32 len = plan[4], wanted = plan[5], largest = plan[6], places = plan[7], blocks = plan[8];
    const u32 row = block.index / blocks, at = block.index % blocks * THREADS + threadIdx.x;
    const T own = at < len ? input.at<T>(row * len + at) : T(0);
    u32 before = 0;
    for (u32 first = 0; first < len; first += THREADS) {
        if (first > 0 && first % (8 * THREADS) == 0 && block.stopped()) return;
        if (first + threadIdx.x < len) others[threadIdx.x] = input.at<T>(row * len + first + threadIdx.x);
        __syncthreads();
        u32 some = min(len - first, THREADS);
        for (u32 k = 0; k < some; k++) {
            bool first_of_equals = first + k < at && !comes_first<T>(own, others[k], largest);
            before += comes_first<T>(others[k], own, largest) || first_of_equals;
        }
        __syncthreads();
    }
    if (at >= len || before >= wanted) return;
    if (places)
        store<i64>(job.output, job.element, row * wanted + before, at);
    else
        store<T>(job.output, job.element, row * wanted + before, own);
}

} // namespace tensor
