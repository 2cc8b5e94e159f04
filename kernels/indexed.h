// What indices say: `Gather` and `Scatter` in reef_op::tensor.

#pragma once

#include "arithmetic.h"
#include "movement.h"

namespace tensor {

// The nearest place in range; negative indices count from the end.
__device__ inline u32 inside(i64 index, u32 size) {
    i64 place = index < 0 ? index + size : index;
    return (u32)(place < 0 ? 0 : place < size ? place : size - 1);
}

// Words of a plan: whether indices stand along an axis, and then
// - if so: a view of the places that all other axes have, the size of the axis, and the elements below it;
// - if not: a divisor by the elements that a tuple points at, and how many those are; a divisor by the tuples of a
//   tensor, how many those are, and whether they serve all tensors; how long a tuple is, and the sizes that it points in.
struct Target {
    const u32 *plan, *words;
    Input indices;

    // Where element `i` of what is pointed at lies in the data.
    __device__ u32 place(u32 i) const {
        if (words[0]) {
            u32 place = inside(indices.at<i64>(i), words[2]);
            return offset_in(plan, words[1], i) + place * words[3];
        }
        u32 tuple = Divisor{words[1], words[2]}(i), within = i - tuple * words[3];
        u32 batch = Divisor{words[4], words[5]}(tuple);
        u32 row = words[7] ? tuple - batch * words[6] : tuple, len = words[8], at = batch;
        for (u32 k = 0; k < len; k++)
            at = at * words[9 + k] + inside(indices.at<i64>(row * len + k), words[9 + k]);
        return at * words[3] + within;
    }
};

// Words of a plan: the data and the indices, bytes of an element, outputs of a thread, the target.
__device__ __forceinline__ void gather(reef::Block &block, const Job &job) {
    const u32 *plan = job.plan;
    const char *from = input_of(plan).data;
    const Target target{plan, plan + 10, input_of(plan + 4)};
    const u32 bytes = plan[8];
    for_outputs(block, job, plan[9], [=](u32 i) { copy_element(job.output, i, from, target.place(i), bytes); });
}

// Outputs of a block of `scatter`.
const u32 SCATTERED = 4 * THREADS;

// `ScatterKind` in reef_op::tensor.
enum ScatterKind : u32 { REPLACE, ADD_TO, MULTIPLY, RAISE, LOWER };

template <class T> __device__ inline T updated(u32 kind, T number, T update) {
    switch (kind) {
    case ADD_TO: return sum_of(number, update);
    case MULTIPLY: return product(number, update);
    case RAISE: return larger_of(number, update);
    default: return smaller_of(number, update);
    }
}

// Of updates that replace: the last one of each place counts, so that it takes few steps to find it, whatever the order.
template <class T>
__device__ __forceinline__ void replace(reef::Block &block, const Job &job, const Target &target, const Input *inputs) {
    __shared__ u32 last[SCATTERED]; // one more than its number, or 0
    const u32 count = job.plan[13], begin = block.index * SCATTERED;
    const u32 outputs = min(job.count - begin, SCATTERED);
    for (u32 i = threadIdx.x; i < SCATTERED; i += THREADS) last[i] = 0;
    __syncthreads();
    for (u32 first = 0; first < count; first += THREADS) {
        if (first > 0 && first % (16 * THREADS) == 0 && block.stopped()) return;
        u32 update = first + threadIdx.x, at = update < count ? target.place(update) - begin : NOWHERE;
        if (at < outputs) atomicMax(&last[at], update + 1);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < outputs; i += THREADS) {
        T number = last[i] > 0 ? inputs[1].at<T>(last[i] - 1) : inputs[0].at<T>(begin + i);
        store<T>(job.output, job.element, begin + i, number);
    }
}

// Words of a plan: the data, the indices, the updates; the kind, how many updates there are, the target. A block goes
// through all updates, and each of its threads applies those that meet its outputs, in their order.
template <class T> __device__ __forceinline__ void scatter(reef::Block &block, const Job &job) {
    __shared__ T numbers[SCATTERED];
    __shared__ u32 places[THREADS]; // of outputs of this block, or NOWHERE
    const u32 *plan = job.plan;
    const Input inputs[] = {input_of(plan), input_of(plan + 8)};
    const Target target{plan, plan + 14, input_of(plan + 4)};
    const u32 kind = plan[12], count = plan[13], begin = block.index * SCATTERED;
    if (kind == REPLACE) return replace<T>(block, job, target, inputs);
    const u32 outputs = min(job.count - begin, SCATTERED);
    for (u32 i = threadIdx.x; i < outputs; i += THREADS) numbers[i] = inputs[0].at<T>(begin + i);
    for (u32 first = 0; first < count; first += THREADS) {
        if (first > 0 && first % (16 * THREADS) == 0 && block.stopped()) return;
        u32 place = first + threadIdx.x < count ? target.place(first + threadIdx.x) : NOWHERE;
        places[threadIdx.x] = place - begin < outputs ? place - begin : NOWHERE;
        __syncthreads();
        u32 end = min(count - first, THREADS);
        for (u32 k = 0; k < end; k++) {
            u32 at = places[k];
            if (at != NOWHERE && at % THREADS == threadIdx.x)
                numbers[at] = updated<T>(kind, numbers[at], inputs[1].at<T>(first + k));
        }
        __syncthreads();
    }
    for (u32 i = threadIdx.x; i < outputs; i += THREADS)
        store<T>(job.output, job.element, begin + i, numbers[i]);
}

} // namespace tensor
