// Sums of products: `Contract` in reef_op::tensor. Each sum is made in the order of its terms, in the domain; those of few
// rows are in few.h.

#pragma once

#include "arithmetic.h"
#include "plan.h"

namespace tensor {

// Words of a plan: both inputs, then these.
struct Terms {
    Input inputs[2];
    u32 len;      // of a sum
    u32 table;    // pairs of places, one for each term; 0: they are apart by `steps`
    u32 steps[2]; // elements from a term to the next
    u32 kept[2];  // views of where outputs begin

    __device__ explicit Terms(const u32 *plan)
        : inputs{input_of(plan), input_of(plan + 4)}, len(plan[8]), table(plan[9]),
          steps{plan[10], plan[11]}, kept{plan[12], plan[13]} {}

    __device__ u32 place(const u32 *plan, u32 input, u32 j) const {
        return table ? plan[table + 2 * j + input] : j * (input ? steps[1] : steps[0]);
    }
};
const u32 TERMS_WORDS = 14;

// Terms between two preemption points.
const u32 TERMS_PER_POLL = 512;

// One output of each thread.
template <class T> __device__ __forceinline__ void contract(reef::Block &block, const Job &job) {
    const Terms terms(job.plan);
    const u32 i = block.index * THREADS + threadIdx.x;
    const bool mine = i < job.count;
    const u32 a = mine ? offset_in(job.plan, terms.kept[0], i) : 0;
    const u32 b = mine ? offset_in(job.plan, terms.kept[1], i) : 0;
    T sum = 0;
    for (u32 first = 0; first < terms.len; first += TERMS_PER_POLL) {
        if (first > 0 && block.stopped()) return;
        u32 end = mine ? min(first + TERMS_PER_POLL, terms.len) : first;
        for (u32 j = first; j < end; j++)
            sum = sum_of(sum, product(terms.inputs[0].at<T>(a + terms.place(job.plan, 0, j)),
                                      terms.inputs[1].at<T>(b + terms.place(job.plan, 1, j))));
    }
    if (mine) store<T>(job.output, job.element, i, sum);
}

// Products of matrices: of `batches` pairs, `rows` rows of one input with `columns` columns of the other. The words
// behind those above.
struct Matrices {
    u32 rows, columns;
    u32 row_input;      // which of the inputs has the rows
    u32 views[4];       // of rows, columns, and where the rows and the columns of a batch begin
    u32 along_terms[2]; // whether neighbours in memory are terms, and not rows or columns

    __device__ explicit Matrices(const u32 *words)
        : rows(words[0]), columns(words[1]), row_input(words[2]),
          views{words[3], words[4], words[5], words[6]}, along_terms{words[7], words[8]} {}
};

// A tile of a block has 16 times as many rows and columns as each of its threads has, and takes so many terms at a time.
const u32 DEEP = 16;

// Rows or columns of a tile, of all those there are; and the terms under way.
template <u32 EACH> struct Side {
    static const u32 TILE = 16 * EACH;
    u32 places[TILE];
    u32 terms[DEEP];
    float values[DEEP][TILE + 4];
};

// Brings in the terms from `first` on; zeros beyond the ends.
template <u32 EACH>
__device__ __forceinline__ void fetch(Side<EACH> &side, const Input &input, bool along_terms, u32 lines, u32 terms) {
    const u32 TILE = 16 * EACH;
#pragma unroll
    for (u32 n = 0; n < TILE * DEEP / THREADS; n++) {
        u32 k = n * THREADS + threadIdx.x;
        u32 line = along_terms ? k / DEEP : k % TILE, term = along_terms ? k % DEEP : k / TILE;
        bool there = line < lines && term < terms;
        side.values[term][line] = there ? input.at<float>(side.places[line] + side.terms[term]) : 0;
    }
}

template <u32 EACH>
__device__ __forceinline__ void multiply(const Side<EACH> &rows, const Side<EACH> &columns,
                                         float (&sums)[EACH][EACH]) {
    const u32 row = threadIdx.x / 16 * EACH, column = threadIdx.x % 16 * EACH;
#pragma unroll
    for (u32 term = 0; term < DEEP; term++) {
        float a[EACH], b[EACH];
#pragma unroll
        for (u32 n = 0; n < EACH; n++) a[n] = rows.values[term][row + n], b[n] = columns.values[term][column + n];
#pragma unroll
        for (u32 n = 0; n < EACH * EACH; n++) sums[n / EACH][n % EACH] += a[n / EACH] * b[n % EACH];
    }
}

template <u32 EACH> __device__ __forceinline__ void contract_tile(reef::Block &block, const Job &job) {
    const u32 TILE = 16 * EACH;
    __shared__ Side<EACH> sides[2];
    const Terms terms(job.plan);
    const Matrices matrices(job.plan + TERMS_WORDS);
    const u32 swapped = matrices.row_input;
    const Input row_input = swapped ? terms.inputs[1] : terms.inputs[0];
    const Input column_input = swapped ? terms.inputs[0] : terms.inputs[1];
    const u32 across = (matrices.columns + TILE - 1) / TILE, down = (matrices.rows + TILE - 1) / TILE;
    const u32 column = block.index % across * TILE, row = block.index / across % down * TILE;
    const u32 batch = block.index / across / down;
    const u32 height = min(matrices.rows - row, TILE), width = min(matrices.columns - column, TILE);
    if (threadIdx.x < 2 * TILE) {
        u32 side = threadIdx.x / TILE, line = threadIdx.x % TILE;
        u32 begin = offset_in(job.plan, side ? matrices.views[3] : matrices.views[2], batch);
        u32 at = line < (side ? width : height) ? (side ? column : row) + line : 0;
        sides[side].places[line] = begin + offset_in(job.plan, side ? matrices.views[1] : matrices.views[0], at);
    }
    float sums[EACH][EACH] = {};
    for (u32 first = 0, round = 0; first < terms.len; first += DEEP, round++) {
        if (round > 0 && round % (TERMS_PER_POLL / DEEP) == 0 && block.stopped()) return;
        if (threadIdx.x < 2 * DEEP) {
            u32 side = threadIdx.x / DEEP, term = threadIdx.x % DEEP;
            bool there = first + term < terms.len;
            sides[side].terms[term] = there ? terms.place(job.plan, side ^ swapped, first + term) : 0;
        }
        __syncthreads();
        const u32 left = terms.len - first;
        fetch(sides[0], row_input, matrices.along_terms[0], height, left);
        fetch(sides[1], column_input, matrices.along_terms[1], width, left);
        __syncthreads();
        multiply(sides[0], sides[1], sums);
    }
    const u32 down_here = threadIdx.x / 16 * EACH, across_here = threadIdx.x % 16 * EACH;
#pragma unroll
    for (u32 n = 0; n < EACH * EACH; n++) {
        u32 m = down_here + n / EACH, k = across_here + n % EACH;
        if (m < height && k < width)
            store<float>(job.output, job.element,
                         (batch * matrices.rows + row + m) * matrices.columns + column + k,
                         sums[n / EACH][n % EACH]);
    }
}

} // namespace tensor
