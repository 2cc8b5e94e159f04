// A formula of elements, one output at a time: `Map` in reef_op::tensor.

#pragma once

#include "arithmetic.h"
#include "plan.h"

namespace tensor {

// A step of a formula, eight words. Values that are needed later than by the next step stand in shared memory.
struct Step {
    u32 code; // a function's: unary ones from UNARY on, binary ones from BINARY on
    u32 to;   // a slot of shared memory, or NOWHERE
    u32 operands[3]; // slots, or NOWHERE: what the step before gave; of an input its number
    u32 unused;
    u32 scalar[2]; // the bits of a number
};

enum Code : u32 { INPUT, SCALAR, SELECT, UNARY = 16, BINARY = 64 };

// Words of a plan: how many steps, how many outputs a thread makes; from INPUTS on the inputs and then the steps.
struct Formula {
    const u32 *plan;
    u32 steps, rounds, first_step;
    static const u32 INPUTS = 4;

    __device__ explicit Formula(const u32 *words)
        : plan(words), steps(words[0]), rounds(words[1]), first_step(words[2]) {}

    template <class T> __device__ T value(T *slots, u32 i) const {
        T last = 0;
        const Step *step = (const Step *)(plan + first_step);
        for (u32 left = steps; left > 0; left--, step++) {
            last = made<T>(*step, slots, last, i);
            if (step->to != NOWHERE) slots[step->to * THREADS] = last;
        }
        return last;
    }

    template <class T> __device__ T made(const Step &step, const T *slots, T last, u32 i) const {
        const u32 a = step.operands[0], b = step.operands[1];
        if (step.code == INPUT) {
            Input input = input_of(plan + INPUTS + 4 * a);
            return input.at<T>(offset_in(plan, input.view, i));
        }
        if (step.code == SCALAR) {
            T scalar;
            from_words(step.scalar, scalar);
            return scalar;
        }
        T first = a == NOWHERE ? last : slots[a * THREADS];
        if (step.code < BINARY && step.code != SELECT) return unary<T>(step.code - UNARY, first);
        T second = b == NOWHERE ? last : slots[b * THREADS];
        if (step.code != SELECT) return binary<T>(step.code - BINARY, first, second);
        const u32 c = step.operands[2];
        T third = c == NOWHERE ? last : slots[c * THREADS];
        return first != 0 ? second : third;
    }
};

// Of a block: `rounds` outputs of each thread.
template <class T> __device__ __forceinline__ void map(reef::Block &block, const Job &job) {
    extern __shared__ __align__(8) unsigned char shared[];
    T *slots = (T *)shared + threadIdx.x;
    const Formula formula(near_plan(job, shared));
    const u32 begin = block.index * formula.rounds * THREADS + threadIdx.x;
    for (u32 round = 0; round < formula.rounds; round++) {
        u32 i = begin + round * THREADS;
        if (i >= job.count) return;
        store<T>(job.output, job.element, i, formula.value<T>(slots, i));
    }
}

} // namespace tensor
