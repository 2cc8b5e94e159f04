// What looks at whole rows: `Scan` and `TopK` in reef_op::tensor.

#pragma once

#include "arithmetic.h"
#include "plan.h"

namespace tensor {

// Elements between two preemption points.
const u32 SCANNED_PER_POLL = 512;

// Words of a plan: the input; elements of a row, rows that lie in each other, elements of a part, parts of a row; whether
// a sum is without its own element, and whether rows go backwards; whether a block makes a part of a row, or a thread. It
// begins with the sum of all before it, so that it has nothing written until it knows that.
template <class T> struct Scan {
    const Job &job;
    Input input;
    u32 len, inner, part, parts, exclusive, reverse, blocks;

    __device__ explicit Scan(const Job &job)
        : job(job), input(input_of(job.plan)), len(job.plan[4]), inner(job.plan[5]), part(job.plan[6]), parts(job.plan[7]),
          exclusive(job.plan[8]), reverse(job.plan[9]), blocks(job.plan[10]) {}

    // The place of an element of a row.
    __device__ u32 place(u32 row, u32 j) const {
        return row / inner * len * inner + row % inner + (reverse ? len - 1 - j : j) * inner;
    }

    __device__ T at(u32 row, u32 j) const { return input.at<T>(place(row, j)); }

    // Writes the sums of some elements, from the sum of all before them.
    __device__ void write(u32 row, u32 begin, u32 end, T sum) const {
        for (u32 j = begin; j < end; j++) {
            u32 to = place(row, j);
            T with = sum_of(sum, input.at<T>(to));
            store<T>(job.output, job.element, to, exclusive ? sum : with);
            sum = with;
        }
    }

    __device__ void by_threads(reef::Block &block) const {
        const u32 thread = block.index * THREADS + threadIdx.x, row = thread / parts;
        const bool mine = row < job.count / len;
        const u32 begin = mine ? thread % parts * part : 0, end = mine ? min(begin + part, len) : 0;
        T sum = 0;
        for (u32 first = 0; first < len; first += SCANNED_PER_POLL) {
            if (first > 0 && block.stopped()) return;
            for (u32 j = first; j < min(first + SCANNED_PER_POLL, begin); j++) sum = sum_of(sum, at(row, j));
        }
        write(row, begin, end, sum);
    }

    __device__ void by_blocks(reef::Block &block) const {
        __shared__ T sums[THREADS];
        const u32 row = block.index / parts, begin = block.index % parts * part, end = min(begin + part, len);
        const u32 round = THREADS * SCANNED_PER_POLL / 4, each = (end - begin + THREADS - 1) / THREADS;
        T sum = 0;
        for (u32 first = 0; first < begin; first += round) {
            if (first > 0 && block.stopped()) return;
            for (u32 j = first + threadIdx.x; j < min(first + round, begin); j += THREADS) sum = sum_of(sum, at(row, j));
        }
        sums[threadIdx.x] = sum;
        for (u32 half = THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) sums[threadIdx.x] = sum_of(sums[threadIdx.x], sums[threadIdx.x + half]);
        }
        __syncthreads();
        const T before = sums[0];
        // Each thread has some elements that follow each other.
        const u32 from = min(begin + threadIdx.x * each, end), to = min(from + each, end);
        T own = 0;
        for (u32 j = from; j < to; j++) own = sum_of(own, at(row, j));
        for (u32 far = 1; far <= THREADS; far *= 2) {
            __syncthreads();
            sums[threadIdx.x] = own;
            __syncthreads();
            if (far < THREADS && threadIdx.x >= far) own = sum_of(sums[threadIdx.x - far], own);
        }
        if (block.stopped()) return;
        write(row, from, to, threadIdx.x > 0 ? sum_of(before, sums[threadIdx.x - 1]) : before);
    }
};

template <class T> __device__ __forceinline__ void scan(reef::Block &block, const Job &job) {
    const Scan<T> op(job);
    if (op.blocks)
        op.by_blocks(block);
    else
        op.by_threads(block);
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
