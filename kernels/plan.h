// What a kernel of tensors is told: its output by value, and all else as words in memory of the device, which are
// written when the operation is bound.

#pragma once

#include "number.h"

namespace tensor {

// `TensorParams` in operators/tensor/plan.rs.
struct Job {
    char *output;
    const u32 *plan;
    u32 count; // outputs
    u32 element; // of the output
    u32 words; // of the plan, if there is room for them in dynamic shared memory
    u32 at;    // and where, in bytes
};

// Threads of a block of all kernels of tensors.
const u32 THREADS = 256;

// The plan in shared memory, where reading a word takes a twentieth of the time, if there is room. All threads come here.
__device__ inline const u32 *near_plan(const Job &job, unsigned char *shared) {
    if (job.words == 0) return job.plan;
    u32 *near = (u32 *)(shared + job.at);
    for (u32 n = threadIdx.x; n < job.words; n += THREADS) near[n] = job.plan[n];
    __syncthreads();
    return near;
}

// Instead of a place: there is none.
const u32 NOWHERE = ~0u;

// An input: four words.
struct Input {
    const char *data;
    u32 element;
    u32 view; // where the words of its view are; 0: elements are in their own order

    template <class T> __device__ T at(u32 place) const { return load<T>(data, element, place); }
};

__device__ inline Input input_of(const u32 *words) {
    u64 address = (u64)words[1] << 32 | words[0];
    return {(const char *)address, words[2], words[3]};
}

// Where element `i` of a view lies, counted from the view's first: `View::offset`. In words: how many axes, then of
// each, the innermost first, a divisor by its size, the size, and the stride.
__device__ inline u32 offset_in(const u32 *view, u32 i) {
    u32 at = 0;
    for (u32 axes = *view++; axes > 0; axes--, view += 4) {
        u32 rest = Divisor{view[0], view[1]}(i);
        at += (i - rest * view[2]) * view[3];
        i = rest;
    }
    return at;
}

// The same of views that may be left out.
__device__ inline u32 offset_in(const u32 *plan, u32 view, u32 i) {
    return view ? offset_in(plan + view, i) : i;
}

} // namespace tensor
