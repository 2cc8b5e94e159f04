// A formula of elements and of what their whole row becomes: `RowMap` in reef_op::tensor. Several threads share a row,
// each has every `lanes`th of its elements, and their parts of a fold meet in a tree.

#pragma once

#include "fold.h"
#include "formula.h"

namespace tensor {

// Codes of steps that fold a row: FOLDED and a `FoldKind`.
const u32 FOLDED = 8;
// Elements of a thread at most: `WIDEST` over the lanes of such a row, in operators/tensor/row_map.rs.
const u32 MOST = 8;

// Words of a plan: those of `Formula`, whose rounds are threads of a row here, and the fourth is the row's elements.
// What a thread has of a row it takes all at once, so that loads and steps wait together.
struct RowFormula {
    const Formula formula;
    const u32 lanes, width, each; // elements of a thread, at most
    const u32 lane, first;        // the thread's place in its row; its row's first element
    const u32 has;                // elements that the thread has
    float *const own;             // values of the thread's elements: the last step's, then those of slots

    __device__ RowFormula(const reef::Block &block, const Job &job, const u32 *plan, float *shared)
        : formula(plan), lanes(formula.rounds), width(plan[3]), each((width + lanes - 1) / lanes),
          lane(threadIdx.x % lanes), first((block.index * (THREADS / lanes) + threadIdx.x / lanes) * width),
          has(first < job.count && lane < width ? (width - lane + lanes - 1) / lanes : 0), own(shared + threadIdx.x) {}

    // Of the thread's first element.
    __device__ float *values(u32 slot) const { return own + (slot == NOWHERE ? 0 : (slot + 1) * each) * THREADS; }

    // Puts what `make` makes of the number of an element in its place.
    template <class Make> __device__ __forceinline__ void put(u32 slot, Make make) const {
        float x[MOST];
#pragma unroll
        for (u32 n = 0; n < MOST; n++)
            if (n < has) x[n] = make(n);
        float *to = slot == NOWHERE ? nullptr : values(slot);
#pragma unroll
        for (u32 n = 0; n < MOST; n++) {
            if (n >= has) break;
            own[n * THREADS] = x[n];
            if (to) to[n * THREADS] = x[n];
        }
    }

    // What all elements of the row become, to each thread that shares it. Each two lanes add the same two numbers, so that
    // all have the same bits; a row's lanes are whole warps.
    __device__ float folded(const Step &step, double *parts) const {
        const u32 kind = step.code - FOLDED;
        const float *values = this->values(step.operands[0]);
        double part = kind == LARGEST ? -infinity() : kind == SMALLEST ? infinity() : 0;
        for (u32 n = 0; n < has; n++) {
            const double x = values[n * THREADS];
            part = joined(kind, part, kind == SUM_SQUARES ? x * x : kind == SUM_ABS ? magnitude(x) : x);
        }
        for (u32 half = 16; half > 0; half /= 2) part = joined(kind, part, __shfl_xor_sync(~0u, part, half));
        if (lanes == 32) return (float)part;
        const u32 warp = threadIdx.x / 32, warps = lanes / 32;
        __syncthreads(); // of the fold before
        if (threadIdx.x % 32 == 0) parts[warp] = part;
        __syncthreads();
        const u32 own_warps = warp / warps * warps;
        part = parts[own_warps];
        for (u32 n = 1; n < warps; n++) part = joined(kind, part, parts[own_warps + n]);
        return (float)part;
    }

    __device__ static double joined(u32 kind, double a, double b) {
        return kind == LARGEST ? larger_of(a, b) : kind == SMALLEST ? smaller_of(a, b) : a + b;
    }

    __device__ void load(const Step &step) const {
        const Input input = input_of(formula.plan + Formula::INPUTS + 4 * step.operands[0]);
        const u32 from = first + lane;
        const float *data = (const float *)input.data;
        if (input.element != F32)
            put(step.to, [&](u32 n) { return input.at<float>(offset_in(formula.plan, input.view, from + n * lanes)); });
        else if (input.view == 0)
            put(step.to, [&](u32 n) { return data[from + n * lanes]; });
        else
            put(step.to, [&](u32 n) { return data[offset_in(formula.plan + input.view, from + n * lanes)]; });
    }

    __device__ void make(const Step &step) const {
        const float *a = values(step.operands[0]), *b = values(step.operands[1]), *c = values(step.operands[2]);
        switch (step.code) {
        case SELECT: return put(step.to, [&](u32 n) { return a[n * THREADS] != 0 ? b[n * THREADS] : c[n * THREADS]; });
        case BINARY + ADD: return put(step.to, [&](u32 n) { return a[n * THREADS] + b[n * THREADS]; });
        case BINARY + SUB: return put(step.to, [&](u32 n) { return a[n * THREADS] - b[n * THREADS]; });
        case BINARY + MUL: return put(step.to, [&](u32 n) { return a[n * THREADS] * b[n * THREADS]; });
        }
        // The others are long; one copy of them is enough.
        float *to = values(step.to);
        for (u32 n = 0; n < has; n++) {
            const float x = a[n * THREADS];
            const float made = step.code < BINARY ? unary<float>(step.code - UNARY, x)
                                                  : binary<float>(step.code - BINARY, x, b[n * THREADS]);
            own[n * THREADS] = made, to[n * THREADS] = made;
        }
    }

    __device__ void run(double *parts) const {
        const Step *steps = (const Step *)(formula.plan + formula.first_step);
        for (u32 k = 0; k < formula.steps; k++) {
            const Step step = steps[k];
            if (step.code == INPUT)
                load(step);
            else if (step.code == SCALAR)
                put(step.to, [&](u32) { return single_of_bits(step.scalar[0]); });
            else if (step.code >= FOLDED && step.code < UNARY) {
                const float of_row = folded(step, parts);
                put(step.to, [&](u32) { return of_row; });
            } else
                make(step);
        }
    }
};

__device__ __forceinline__ void row_map(reef::Block &block, const Job &job) {
    extern __shared__ __align__(8) unsigned char shared[];
    __shared__ double parts[THREADS / 32];
    const RowFormula row(block, job, near_plan(job, shared), (float *)shared);
    row.run(parts);
    for (u32 n = 0; n < row.has; n++)
        store<float>(job.output, job.element, row.first + row.lane + n * row.lanes, row.own[n * THREADS]);
}

} // namespace tensor
