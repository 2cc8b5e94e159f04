// Elements from elsewhere, as they are: `Move`, `Concat` and `Gather` in reef_op::tensor.

#pragma once

#include "plan.h"

namespace tensor {

// Copies one element.
__device__ inline void copy_element(char *to, u32 i, const char *from, u32 place, u32 bytes) {
    switch (bytes) {
    case 8: ((u64 *)to)[i] = ((const u64 *)from)[place]; return;
    case 4: ((u32 *)to)[i] = ((const u32 *)from)[place]; return;
    case 2: ((u16 *)to)[i] = ((const u16 *)from)[place]; return;
    default: to[i] = from[place];
    }
}

// Puts the bits of a number there.
__device__ inline void put_element(char *to, u32 i, u64 bits, u32 bytes) {
    switch (bytes) {
    case 8: ((u64 *)to)[i] = bits; return;
    case 4: ((u32 *)to)[i] = (u32)bits; return;
    case 2: ((u16 *)to)[i] = (u16)bits; return;
    default: to[i] = (char)bits;
    }
}

// Runs `each` for the outputs of a block: `rounds` of each thread.
template <class Each>
__device__ __forceinline__ void for_outputs(const reef::Block &block, const Job &job, u32 rounds, Each each) {
    const u32 begin = block.index * rounds * THREADS + threadIdx.x;
    for (u32 round = 0; round < rounds && begin + round * THREADS < job.count; round++)
        each(begin + round * THREADS);
}

// Words of a plan: the input; bytes of an element, outputs of a thread, the filling; how many axes, and then of each,
// the innermost first, a divisor by its size, the size, and where its table is.
__device__ __forceinline__ void move(reef::Block &block, const Job &job) {
    const u32 *plan = job.plan;
    const char *from = input_of(plan).data;
    const u32 bytes = plan[4], axes = plan[8];
    const u64 fill = (u64)plan[7] << 32 | plan[6];
    for_outputs(block, job, plan[5], [=](u32 i) {
        u32 at = 0, left = i;
        bool nowhere = false;
        const u32 *axis = plan + 9;
        for (u32 n = 0; n < axes; n++, axis += 4) {
            u32 rest = Divisor{axis[0], axis[1]}(left);
            u32 place = plan[axis[3] + (left - rest * axis[2])];
            nowhere = nowhere || place == NOWHERE;
            at += place;
            left = rest;
        }
        if (nowhere)
            put_element(job.output, i, fill, bytes);
        else
            copy_element(job.output, i, from, at, bytes);
    });
}

// Words of a plan: bytes of an element, outputs of a thread, a divisor by the elements of a row, how many those are, how
// many inputs there are; then of each input four words, and of each where it ends in a row.
__device__ __forceinline__ void concat(reef::Block &block, const Job &job) {
    const u32 *plan = job.plan;
    const u32 bytes = plan[0], row = plan[4], inputs = plan[5];
    for_outputs(block, job, plan[1], [=](u32 i) {
        const u32 *ends = plan + 6 + 4 * inputs;
        u32 outer = Divisor{plan[2], plan[3]}(i), column = i - outer * row;
        u32 least = 0, most = inputs - 1; // the input that the column is of is between them
        while (least < most) {
            u32 middle = (least + most) / 2;
            if (column < ends[middle])
                most = middle;
            else
                least = middle + 1;
        }
        u32 begin = least > 0 ? ends[least - 1] : 0, len = ends[least] - begin;
        copy_element(job.output, i, input_of(plan + 6 + 4 * least).data, outer * len + column - begin, bytes);
    });
}

} // namespace tensor
