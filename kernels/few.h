// Products of matrices of which one has few rows, as those of a decoder's step: `Contract` of singles in
// reef_op::tensor. Their time is that of reading the other matrix, so neighbouring threads read what adjoins there,
// whether those are its lines or the terms of one.
//
//   block = (batch, tile of lines), thread = (line, part of the terms)
//
// Each thread takes every `parts`th term of its line with all rows. The parts of a sum meet in a tree, so that its bits
// depend on nothing but the launch's shape.

#pragma once

#include "plan.h"

namespace tensor {

// The few rows, or the many lines. `FewSideParams` in operators/tensor/products/params.rs.
struct FewSide {
    const float *data;
    u32 step, view; // from a row to the next; or, if it isn't 0, which view of the plan says where they begin
    u32 batch_step, batch_view;
    u32 term_step;
    u32 input; // its place in the table's pairs
};

// `FewParams` there.
struct Few {
    FewSide few, many;
    char *output;
    const u32 *plan; // views, and the table of terms
    u32 rows, lines, terms;
    u32 table; // of pairs of places in the plan; 0: terms are apart by `term_step`
    u32 tiles; // of the lines of a batch
    u32 width; // lines of a tile, as a power of two
    u32 along; // whether neighbouring threads have terms of one line, and not lines
    u32 row_step, line_step, batch_step; // of the output
    u32 element;
    u32 unused;
};

// Terms of each thread between two preemption points.
const u32 FEW_PER_POLL = 256;

__device__ inline u32 few_place(const Few &op, const FewSide &side, u32 batch, u32 row) {
    return (side.batch_view ? offset_in(op.plan + side.batch_view, batch) : batch * side.batch_step) +
           (side.view ? offset_in(op.plan + side.view, row) : row * side.step);
}

// Adds the products of every `parts`th term from `first` on, before `end`. Those of several terms are under way at a time.
template <u32 ROWS, bool TABLE>
__device__ __forceinline__ void add_few(const Few &op, const u32 (&rows)[ROWS], u32 line, u32 first, u32 end, u32 parts,
                                        float (&sums)[ROWS]) {
    constexpr u32 UNDER_WAY = ROWS <= 2 ? 8 : 4;
    for (; first < end; first += UNDER_WAY * parts) {
        float values[UNDER_WAY];
        u32 places[UNDER_WAY];
#pragma unroll
        for (u32 n = 0; n < UNDER_WAY; n++) {
            // Behind the end the last term is read again, and doesn't count: a branch would wait for each load.
            const u32 term = min(first + n * parts, end - 1);
            const u32 at = TABLE ? op.plan[op.table + 2 * term + op.many.input] : term * op.many.term_step;
            places[n] = TABLE ? op.plan[op.table + 2 * term + op.few.input] : term * op.few.term_step;
            values[n] = op.many.data[line + at];
        }
#pragma unroll
        for (u32 n = 0; n < UNDER_WAY; n++) {
            const bool counts = first + n * parts < end;
            const float value = counts ? values[n] : 0.0f;
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                const float factor = op.few.data[rows[k] + places[n]];
                sums[k] += (counts ? factor : 0.0f) * value;
            }
        }
    }
}

// `ROWS`: at least as many as there are. The last one stands for those that there aren't.
template <u32 ROWS> __device__ __forceinline__ void contract_few(reef::Turns &turns, const Few &op) {
    __shared__ float all[ROWS][THREADS]; // sums, of a part side by side
    reef::Block block(turns, reef::LINE);
    const u32 lines = 1u << op.width, parts = THREADS >> op.width;
    const u32 own = op.along ? threadIdx.x / parts : threadIdx.x % lines;
    const u32 part = op.along ? threadIdx.x % parts : threadIdx.x / lines;
    const u32 batch = block.index / op.tiles, first_line = block.index % op.tiles << op.width;
    const u32 line = few_place(op, op.many, batch, min(first_line + own, op.lines - 1));
    u32 rows[ROWS];
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) rows[k] = few_place(op, op.few, batch, min(k, op.rows - 1));
    float sums[ROWS] = {};
    block.fetch();
    const u32 span = parts * FEW_PER_POLL;
    for (u32 begin = 0; begin < op.terms; begin += span) {
        // The first answer was asked for at the beginning, and came while the block added.
        if (begin == span ? !block.arrive() : begin > 0 && block.stopped()) return;
        const u32 end = min(begin + span, op.terms);
        if (op.table)
            add_few<ROWS, true>(op, rows, line, begin + part, end, parts, sums);
        else
            add_few<ROWS, false>(op, rows, line, begin + part, end, parts, sums);
    }
    if (op.terms <= span && !block.arrive()) return;
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) all[k][part * lines + own] = sums[k];
    __syncthreads();
    for (u32 half = THREADS / 2; half >= lines; half /= 2) {
        if (threadIdx.x < half)
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) all[k][threadIdx.x] += all[k][threadIdx.x + half];
        __syncthreads();
    }
    for (u32 n = threadIdx.x; n < op.rows * lines; n += THREADS) {
        const u32 row = n >> op.width, to = first_line + n % lines;
        if (to < op.lines)
            store<float>(op.output, op.element, batch * op.batch_step + row * op.row_step + to * op.line_step,
                         all[row][n % lines]);
    }
}

} // namespace tensor
