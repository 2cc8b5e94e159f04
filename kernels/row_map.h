// A formula of elements and of what their whole row becomes: `RowMap` in reef_core::tensor. Several threads share a row,
// each has every `lanes`th of its elements, and their parts of a fold meet in a tree.

#pragma once

#include "fold.h"
#include "formula.h"

namespace tensor {

// Codes of steps that fold a row: FOLDED and a `FoldKind`.
const u32 FOLDED = 8;

// Words of a plan: those of `Formula`, whose rounds are threads of a row here, and the fourth is the row's elements.
struct RowFormula {
    const Formula formula;
    const u32 lanes, width, each; // elements of a thread, at most
    const u32 lane, first;        // the thread's place in its row; its row's first element
    const u32 has;                // elements that the thread has
    float *const own;             // values of the thread's elements: the last step's, then those of slots

    __device__ RowFormula(const reef::Block &block, const Job &job, float *shared)
        : formula(job.plan), lanes(formula.rounds), width(job.plan[3]), each((width + lanes - 1) / lanes),
          lane(threadIdx.x % lanes), first((block.index * (THREADS / lanes) + threadIdx.x / lanes) * width),
          has(first < job.count && lane < width ? (width - lane + lanes - 1) / lanes : 0), own(shared + threadIdx.x) {}

    __device__ float *value(u32 slot, u32 n) const {
        return own + (slot == NOWHERE ? n : (slot + 1) * each + n) * THREADS;
    }

    // What all elements of the row become, to each thread that shares it.
    __device__ float folded(const Step &step, double *parts) const {
        const u32 kind = step.code - FOLDED;
        double part = kind == LARGEST ? -infinity() : kind == SMALLEST ? infinity() : 0;
        for (u32 n = 0; n < has; n++) {
            const double x = *value(step.operands[0], n);
            part = joined(kind, part, kind == SUM_SQUARES ? x * x : kind == SUM_ABS ? magnitude(x) : x);
        }
        for (u32 half = lanes / 2; half > 0; half /= 2) {
            parts[threadIdx.x] = part;
            __syncthreads();
            part = joined(kind, part, parts[threadIdx.x ^ half]);
            __syncthreads();
        }
        return (float)part;
    }

    __device__ static double joined(u32 kind, double a, double b) {
        return kind == LARGEST ? larger_of(a, b) : kind == SMALLEST ? smaller_of(a, b) : a + b;
    }

    __device__ float made(const Step &step, u32 n) const {
        const float a = step.code == INPUT || step.code == SCALAR ? 0 : *value(step.operands[0], n);
        if (step.code == INPUT) {
            const Input input = input_of(formula.plan + Formula::INPUTS + 4 * step.operands[0]);
            return input.at<float>(offset_in(formula.plan, input.view, first + lane + n * lanes));
        }
        if (step.code == SCALAR) return single_of_bits(step.scalar[0]);
        if (step.code == SELECT) return a != 0 ? *value(step.operands[1], n) : *value(step.operands[2], n);
        if (step.code < BINARY) return unary<float>(step.code - UNARY, a);
        return binary<float>(step.code - BINARY, a, *value(step.operands[1], n));
    }

    __device__ void run(double *parts) const {
        const Step *step = (const Step *)(formula.plan + formula.first_step);
        for (u32 left = formula.steps; left > 0; left--, step++) {
            const bool folds = step->code >= FOLDED && step->code < UNARY;
            const float of_row = folds ? folded(*step, parts) : 0;
            for (u32 n = 0; n < has; n++) {
                const float x = folds ? of_row : made(*step, n);
                *value(NOWHERE, n) = x;
                if (step->to != NOWHERE) *value(step->to, n) = x;
            }
        }
    }
};

// In a tree over pairs, each of which adds the same two numbers, all threads of a row have the same bits.
__device__ __forceinline__ void row_map(reef::Block &block, const Job &job) {
    extern __shared__ __align__(8) unsigned char shared[];
    __shared__ double parts[THREADS];
    const RowFormula row(block, job, (float *)shared);
    row.run(parts);
    for (u32 n = 0; n < row.has; n++)
        store<float>(job.output, job.element, row.first + row.lane + n * row.lanes, *row.value(NOWHERE, n));
}

} // namespace tensor
