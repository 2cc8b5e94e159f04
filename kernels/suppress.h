// The best of boxes that overlap: `Suppress` in reef_op::tensor.

#pragma once

#include "arithmetic.h"
#include "indexed.h"
#include "plan.h"

namespace tensor {

// Places of an order that a block goes through at most: `MAX_PLACES` there.
const u32 MAX_PLACES = 1024;

// A box: the low and the high edge of its rows, those of its columns, and its area.
struct Area {
    float edges[4], size;
};

// Words of a plan: the boxes, the scores, the order, the overlap, and the lists so far, whose address may be 0; boxes of a
// batch, classes, boxes of a list at most, the first place, how many places, whether boxes are given by their centres, and
// how many places a block takes at a time, a power of two up to its threads.
struct Suppress {
    const float *boxes, *scores;
    const i64 *order, *list;
    float overlap;
    u32 count, most, len, centred, width;

    // Of list number `at`.
    __device__ Suppress(const u32 *plan, u32 at) : count(plan[20]), most(plan[22]), len(plan[24]), centred(plan[25]), width(plan[26]) {
        boxes = (const float *)input_of(plan).data + at / plan[21] * count * 4;
        scores = (const float *)input_of(plan + 4).data + at * count;
        order = (const i64 *)input_of(plan + 8).data + at * count + plan[23];
        overlap = *(const float *)input_of(plan + 12).data;
        const i64 *lists = (const i64 *)input_of(plan + 16).data;
        list = lists ? lists + at * (most + 1) : lists;
    }

    // How many boxes the list has.
    __device__ u32 listed() const { return !list || list[0] < 0 ? 0 : list[0] > most ? most : (u32)list[0]; }

    __device__ bool has_score(u32 box) const { return scores[box] > -(float)infinity(); }

    __device__ Area area(u32 box) const {
        const float *at = boxes + 4 * box, a = at[0], b = at[1], c = at[2], d = at[3];
        float top = smaller_of(a, c), bottom = larger_of(a, c), left = smaller_of(b, d), right = larger_of(b, d);
        if (centred) {
            const float down = __fmul_rn(d, 0.5f), across = __fmul_rn(c, 0.5f);
            top = b - down, bottom = b + down, left = a - across, right = a + across;
        }
        return {{top, bottom, left, right}, __fmul_rn(bottom - top, right - left)};
    }

    // What two boxes have in common along rows (0) or columns (2).
    __device__ static float common(const Area &a, const Area &b, u32 low) {
        const float from = larger_of(a.edges[low], b.edges[low]), to = smaller_of(a.edges[low + 1], b.edges[low + 1]);
        return larger_of(to - from, 0.0f);
    }

    // Whether one box overlaps with another too much. Most have nothing in common.
    __device__ bool hides(const Area &a, const Area &b) const {
        const float both = __fmul_rn(common(a, b, 0), common(a, b, 2));
        if (both == 0 && overlap >= 0) return false;
        return overlap < both / (a.size + b.size - both);
    }
};

// The first place from `from` on whose bit is set, or one behind all.
__device__ inline u32 next_of(const u32 *bits, u32 from) {
    for (u32 word = from / 32; word < THREADS / 32; word++) {
        const u32 some = word == from / 32 ? bits[word] & ~0u << from % 32 : bits[word];
        if (some) return word * 32 + __ffs(some) - 1;
    }
    return THREADS;
}

// A block makes a list. It takes some places at a time: their boxes are compared with those of the list all at once, several
// threads for each if places are few, and then one after the other with those that are added.
__device__ __forceinline__ void suppress(reef::Block &block, const Job &job) {
    __shared__ Area others[THREADS];
    __shared__ u32 added[MAX_PLACES];
    __shared__ u32 left[THREADS / 32]; // a bit for each place: whether its box may be added
    const Suppress op(job.plan, block.index);
    const u32 lanes = THREADS / op.width, lane = threadIdx.x / op.width, place = threadIdx.x % op.width;
    const u32 word = place / 32, bit = 1u << place % 32, before = op.listed();
    u32 all = before;
    for (u32 first = 0; first < op.len && all < op.most; first += op.width) {
        if (first > 0 && block.stopped()) return;
        const bool there = first + place < op.len;
        const u32 box = there ? inside(op.order[first + place], op.count) : 0;
        const bool wanted = there && op.has_score(box);
        const Area own = op.area(box);
        __syncthreads(); // all have read what was left of the places before
        if (threadIdx.x < THREADS / 32) left[threadIdx.x] = 0;
        __syncthreads();
        if (wanted && lane == 0) atomicOr(&left[word], bit);
        __syncthreads();
        bool mine = wanted;
        const u32 end = next_of(left, 0) < THREADS ? all : 0;
        for (u32 from = 0; from < end; from += THREADS) {
            if (from > 0 && from % (lanes * THREADS) == 0 && block.stopped()) return;
            const u32 some = min(end - from, THREADS), n = from + threadIdx.x;
            if (threadIdx.x < some) others[threadIdx.x] = op.area(n < before ? inside(op.list[1 + n], op.count) : added[n - before]);
            __syncthreads();
            for (u32 k = lane; mine && k < some; k += lanes) mine = !op.hides(others[k], own);
            __syncthreads();
        }
        if (wanted && !mine) atomicAnd(&left[word], ~bit);
        __syncthreads();
        mine = lane == 0 && left[word] & bit;
        for (u32 next = next_of(left, 0); next < THREADS && all < op.most; next = next_of(left, next + 1)) {
            if (threadIdx.x == next) others[0] = own, added[all - before] = box;
            __syncthreads();
            all++;
            if (mine && place > next && op.hides(others[0], own)) mine = false, atomicAnd(&left[word], ~bit);
            __syncthreads();
        }
    }
    i64 *to = (i64 *)job.output + block.index * (op.most + 1);
    for (u32 n = threadIdx.x; n <= op.most; n += THREADS)
        to[n] = n == 0 ? all : n <= before ? op.list[n] : n <= all ? added[n - 1 - before] : 0;
}

} // namespace tensor
