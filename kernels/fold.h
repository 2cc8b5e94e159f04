// Many elements as one: `Fold` in reef_op::tensor. Several threads share an output, and their parts meet in a tree.

#pragma once

#include "arithmetic.h"
#include "plan.h"

namespace tensor {

// `code` in operators/tensor/fold.rs.
enum FoldKind : u32 { SUM, SUM_ABS, SUM_SQUARES, PRODUCT, LARGEST, SMALLEST, ARG_MAX, ARG_MIN };

// Elements that a thread takes between two preemption points.
const u32 FOLDED_PER_POLL = 128;

// What some of the elements have become.
template <class T> struct Partial {
    T value;
    u32 place; // NOWHERE: it is of none
};

// Words of a plan: the input, then these.
struct Fold {
    Input input;
    u32 kept, folded; // views
    u32 len;          // elements of an output
    u32 kind;
    u32 last;  // whether the last of equals counts
    u32 lanes; // threads of an output
    u32 start[2]; // what none are, as bits

    __device__ explicit Fold(const u32 *plan)
        : input(input_of(plan)), kept(plan[4]), folded(plan[5]), len(plan[6]), kind(plan[7]), last(plan[8]),
          lanes(plan[9]), start{plan[10], plan[11]} {}

    // What is no number counts only if it stands first.
    template <class T> __device__ bool is_better(T x, u32 place, const Partial<T> &than) const {
        if (than.place == NOWHERE) return !is_none(x) || place == 0;
        if (is_none(x) || is_none(than.value)) return place == 0;
        if (x == than.value) return (place > than.place) == (last != 0);
        return (x > than.value) == (kind == ARG_MAX);
    }

    template <class T> __device__ void seek(Partial<T> &best, T x, u32 place) const {
        if (place != NOWHERE && is_better(x, place, best)) best.value = x, best.place = place;
    }

    template <class T> __device__ void add(Partial<T> &to, T x, u32 place) const {
        switch (kind) {
        case SUM: to.value = sum_of(to.value, x); return;
        case SUM_ABS: to.value = sum_of(to.value, absolute(x)); return;
        case SUM_SQUARES: to.value = sum_of(to.value, product(x, x)); return;
        case PRODUCT: to.value = product(to.value, x); return;
        case LARGEST: to.value = larger_of(to.value, x); return;
        case SMALLEST: to.value = smaller_of(to.value, x); return;
        default: seek(to, x, place);
        }
    }

    // Takes in what another thread has.
    template <class T> __device__ void join(Partial<T> &to, T x, u32 place) const {
        if (kind < PRODUCT)
            to.value = sum_of(to.value, x);
        else
            add(to, x, place);
    }
};

template <class T> __device__ __forceinline__ void fold(reef::Block &block, const Job &job) {
    __shared__ T values[THREADS];
    __shared__ u32 places[THREADS];
    const Fold op(job.plan);
    const u32 lane = threadIdx.x % op.lanes, a_block = THREADS / op.lanes;
    const u32 i = block.index * a_block + threadIdx.x / op.lanes;
    const bool mine = i < job.count;
    const u32 base = mine ? offset_in(job.plan, op.kept, i) : 0, round = op.lanes * FOLDED_PER_POLL;
    Partial<T> part;
    from_words(op.start, part.value);
    part.place = NOWHERE;
    for (u32 first = 0; first < op.len; first += round) {
        if (first > 0 && block.stopped()) return;
        u32 end = mine ? min(op.len - first, round) + first : first;
        for (u32 j = first + lane; j < end; j += op.lanes)
            op.add(part, op.input.at<T>(base + offset_in(job.plan, op.folded, j)), j);
    }
    for (u32 half = op.lanes / 2; half > 0; half /= 2) {
        values[threadIdx.x] = part.value, places[threadIdx.x] = part.place;
        __syncthreads();
        if (lane < half) op.join(part, values[threadIdx.x + half], places[threadIdx.x + half]);
        __syncthreads();
    }
    if (!mine || lane > 0) return;
    if (op.kind >= ARG_MAX)
        store<i64>(job.output, job.element, i, part.place == NOWHERE ? 0 : (i64)part.place);
    else
        store<T>(job.output, job.element, i, part.value);
}

} // namespace tensor
