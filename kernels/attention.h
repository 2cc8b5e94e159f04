// Attention on tensor cores: `Attention` of singles in reef_core::tensor. Softmax is made while keys go by (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), so scores are never
// in memory.
//
//   block = (group of rows that see the same keys, tile of its rows)
//
// Of four warps QW have 16 rows each, and KW share a tile of keys. Queries, keys and values come as they are into shared
// memory: a line of 64 elements is 256 bytes, as a slab of product.h.

#pragma once

#include "product.h"

#if REEF_ASYNC

namespace tensor {

// What becomes of a score: `ScoreParams` in operators/tensor/attention/params.rs. A score of row `r` of group `g` reads at
// the sum of the places of both and of `key` times the key.
enum ScoreCode : u32 { SCALE, ADD_INPUT, CHOOSE };

struct ScoreStep {
    const void *input;
    u32 code;
    float number; // factor, or what scores become that don't stay
    u32 group, row, key;
    u32 keep; // what the condition is where scores stay
};
const u32 SCORE_STEPS = 4;

// Where rows of 64 elements at most lie: views in the plan of groups and of rows; `row` is a stride of keys and values.
struct AttentionSide {
    const char *data;
    u32 group, row;
};

// `AttentionParams` there.
struct Attention {
    AttentionSide sides[3]; // queries, keys, values
    ScoreStep steps[SCORE_STEPS];
    float *output;
    const u32 *plan;
    u32 output_group, output_row; // views, in rows of the output
    u32 rows, keys, depth, width; // of a group
    u32 tiles;                    // of a group
    u32 count;                    // of steps
    u32 wide;                     // whether all is copied four elements at a time
    u32 none_is_zero;
};

const u32 TILE_KEYS = 64, LINE_ELEMENTS = 64, ATTENTION_THREADS = 128;
// Tiles of keys between two looks at whether to stop.
const u32 TILES_A_LOOK = 8;

// Starts the copies of `count` lines of `elements`, of which `exist` are there.
template <int count, class Place, class Put>
__device__ __forceinline__ void bring_lines(const char *data, u32 elements, u32 exist, bool wide, Place place, Put put) {
    const u32 chunk = threadIdx.x % CHUNKS;
    for (u32 line = threadIdx.x / CHUNKS; line < count; line += ATTENTION_THREADS / CHUNKS) {
        const char *from = data + (line < exist ? ((u64)place(line) + 4 * chunk) * sizeof(float) : 0);
        char *to = put(line, chunk);
        if (wide) {
            copy_chunk(to, from, line < exist && 4 * chunk < elements);
            continue;
        }
        for (u32 e = 0; e < 4; e++) {
            const bool inside = line < exist && 4 * chunk + e < elements;
            copy_word(to + e * sizeof(float), inside ? from + e * sizeof(float) : data, inside);
        }
    }
}

// Adds products of weights, which are where tensor cores take them already if keys are taken in an order that suits, with
// values, of which `value(key)` is one of a thread's column.
template <u32 TILES, class Value>
__device__ __forceinline__ void add_weighed(F16Terms *, float (&made)[4], const float (&weights)[TILES][4], Value value) {
#pragma unroll
    for (u32 j = 0; j < TILES; j += 2) {
        const float *c = weights[j], *d = weights[j + 1];
        const u32 words[4] = {as_halves(c[0], c[1]), as_halves(c[2], c[3]), as_halves(d[0], d[1]), as_halves(d[2], d[3])};
        const u32 key = 8 * j + 2 * (threadIdx.x % 4);
        F16Terms::Math::multiply(made, words, as_halves(value(key), value(key + 1)), as_halves(value(key + 8), value(key + 9)));
    }
}

template <u32 TILES, class Value>
__device__ __forceinline__ void add_weighed(Tf32Terms *, float (&made)[4], const float (&weights)[TILES][4], Value value) {
#pragma unroll
    for (u32 j = 0; j < TILES; j++) {
        const float *c = weights[j];
        const u32 words[4] = {as_tf32(c[0]), as_tf32(c[2]), as_tf32(c[1]), as_tf32(c[3])};
        const u32 key = 8 * j + 2 * (threadIdx.x % 4);
        Tf32Terms::Math::multiply(made, words, as_tf32(value(key)), as_tf32(value(key + 1)));
    }
}

// A warp's 16 rows, of which a thread has two: row `lane / 4` and the eighth behind it.
template <class Terms, int KW> class AttentionRows {
  public:
    __device__ AttentionRows() : lane(threadIdx.x % 32) {
        for (int h = 0; h < 2; h++) largest[h] = -infinity(), sum[h] = 0;
        for (auto &tile : made)
            for (float &x : tile) x = 0;
    }

    __device__ void take_queries(const char *from) {
#pragma unroll
        for (u32 step = 0; step < STEPS; step++)
            for (u32 h = 0; h < 2; h++) queries[step][h].take(four_terms<16>(from, 1, 8 * h + lane / 4, step));
    }

    // Takes in the warp's part of a tile of keys, which begins at key `first`. `row`: the warp's first of the group.
    __device__ void add(const Attention &a, u32 group, u32 row, const char *keys, const char *values, u32 part, u32 first) {
        float scores[TILES][4];
        fit(scores, keys, part);
        change(scores, a, group, row, first + part);
        weigh(scores);
        add_values(scores, values, part);
    }

    // Writes what it has: a plane of 16 lines of sums, the largest score of each row, and the sum of weights.
    __device__ void store(float *to, float *state) {
        for (int h = 0; h < 2; h++) {
            sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
            sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
            const u32 row = lane / 4 + 8 * h;
            if (lane % 4 == 0) state[row] = largest[h], state[16 + row] = sum[h];
            for (u32 n = 0; n < LINE_ELEMENTS / 8; n++) {
                float *at = to + row * PITCH + 8 * n + 2 * (lane % 4);
                at[0] = made[n][2 * h], at[1] = made[n][2 * h + 1];
            }
        }
    }

    static constexpr u32 PITCH = LINE_ELEMENTS + 8;

  private:
    static constexpr u32 STEPS = LINE_ELEMENTS / 16, TILES = TILE_KEYS / KW / 8;

    u32 lane;
    Terms queries[STEPS][2];
    float largest[2], sum[2];
    float made[LINE_ELEMENTS / 8][4];

    __device__ void fit(float (&scores)[TILES][4], const char *keys, u32 part) const {
#pragma unroll
        for (u32 j = 0; j < TILES; j++) {
            for (float &x : scores[j]) x = 0;
#pragma unroll
            for (u32 step = 0; step < STEPS; step++) {
                Terms b;
                b.take(four_terms<TILE_KEYS>(keys, 1, part + 8 * j + lane / 4, step));
                for (u32 p = 0; p < 2 * Terms::PRODUCTS; p += 2) {
                    const u32 *upper = queries[step][0].words + p, *lower = queries[step][1].words + p;
                    const u32 words[4] = {upper[0], lower[0], upper[1], lower[1]};
                    Terms::Math::multiply(scores[j], words, b.words[p], b.words[p + 1]);
                }
            }
        }
    }

    __device__ void change(float (&scores)[TILES][4], const Attention &a, u32 group, u32 row, u32 key) const {
        for (u32 s = 0; s < a.count; s++) {
            const ScoreStep &step = a.steps[s];
            u32 places[2] = {0, 0};
            if (step.code != SCALE)
                for (u32 h = 0; h < 2; h++)
                    places[h] = offset_in(a.plan, step.group, group) +
                                offset_in(a.plan, step.row, min(row + lane / 4 + 8 * h, a.rows - 1));
#pragma unroll
            for (u32 j = 0; j < TILES; j++)
#pragma unroll
                for (u32 n = 0; n < 4; n++) {
                    const u32 at = key + 8 * j + 2 * (lane % 4) + n % 2;
                    float &x = scores[j][n];
                    if (step.code == SCALE)
                        x *= step.number;
                    else if (at < a.keys) {
                        const u32 place = places[n / 2] + at * step.key;
                        if (step.code == ADD_INPUT)
                            x += ((const float *)step.input)[place];
                        else if ((((const unsigned char *)step.input)[place] != 0) != (step.keep != 0))
                            x = step.number;
                    }
                }
        }
#pragma unroll
        for (u32 j = 0; j < TILES; j++)
            for (u32 n = 0; n < 4; n++)
                if (key + 8 * j + 2 * (lane % 4) + n % 2 >= a.keys) scores[j][n] = -infinity();
    }

    // Makes weights of scores, relative to the largest so far. A row without any has 0 for it, so that weights are 0.
    __device__ void weigh(float (&scores)[TILES][4]) {
        for (u32 h = 0; h < 2; h++) {
            float most = largest[h];
            for (u32 j = 0; j < TILES; j++) most = larger(larger(most, scores[j][2 * h]), scores[j][2 * h + 1]);
            most = larger(most, __shfl_xor_sync(~0u, most, 1));
            most = larger(most, __shfl_xor_sync(~0u, most, 2));
            const float from = most == -infinity() ? 0 : most, before = expf(largest[h] - from);
            largest[h] = most;
            sum[h] *= before;
            for (auto &tile : made) tile[2 * h] *= before, tile[2 * h + 1] *= before;
            for (u32 j = 0; j < TILES; j++)
                for (u32 n = 2 * h; n < 2 * h + 2; n++) {
                    scores[j][n] = expf(scores[j][n] - from);
                    sum[h] += scores[j][n];
                }
        }
    }

    __device__ void add_values(const float (&weights)[TILES][4], const char *values, u32 part) {
#pragma unroll
        for (u32 n = 0; n < LINE_ELEMENTS / 8; n++) {
            const u32 column = 8 * n + lane / 4;
            auto value = [&](u32 key) {
                const char *chunk = values + across_place<LINE_ELEMENTS>(part + key, column / 4);
                return *(const float *)(chunk + column % 4 * sizeof(float));
            };
            add_weighed((Terms *)nullptr, made[n], weights, value);
        }
    }
};

// The rows of a block from what its warps have, in planes.
template <int QW, int KW>
__device__ __forceinline__ void write_rows(const Attention &a, u32 group, u32 first, const float *planes, const float *states) {
    const u32 PITCH = 64 + 8;
    for (u32 i = threadIdx.x; i < 16 * QW * a.width; i += ATTENTION_THREADS) {
        const u32 row = i / a.width, column = i - row * a.width;
        if (first + row >= a.rows) return;
        float most = -infinity(), sum = 0, made = 0;
        for (u32 k = 0; k < KW; k++) most = larger(most, states[(k * QW + row / 16) * 32 + row % 16]);
        const float from = most == -infinity() ? 0 : most;
        for (u32 k = 0; k < KW; k++) {
            const u32 warp = k * QW + row / 16;
            const float part = expf(states[warp * 32 + row % 16] - from);
            sum += part * states[warp * 32 + 16 + row % 16];
            made += part * planes[(warp * 16 + row % 16) * PITCH + column];
        }
        const u32 line = offset_in(a.plan, a.output_group, group) + offset_in(a.plan, a.output_row, first + row);
        a.output[(u64)line * a.width + column] = a.none_is_zero && !(sum > 0) ? 0 : made / sum;
    }
}

template <class Terms, int QW, int KW>
__device__ __forceinline__ void attend(reef::Turns &turns, const Attention &a) {
    extern __shared__ __align__(128) char memory[];
    static_assert(QW * KW == 4, "four warps");
    constexpr u32 TILE = TILE_KEYS * SLAB, QUERIES = 16 * QW * SLAB;
    reef::Block block(turns, reef::LINE);
    const u32 group = block.index / a.tiles, first = block.index % a.tiles * 16 * QW;
    const u32 warp = threadIdx.x / 32, q = warp % QW, part = warp / QW * (TILE_KEYS / KW);
    const u32 keys_from = offset_in(a.plan, a.sides[1].group, group), values_from = offset_in(a.plan, a.sides[2].group, group);
    auto bring_tile = [&](u32 tile) {
        char *keys = memory + QUERIES + tile % 2 * 2 * TILE, *values = keys + TILE;
        const u32 begin = tile * TILE_KEYS, exist = min(a.keys - min(begin, a.keys), TILE_KEYS);
        bring_lines<TILE_KEYS>(a.sides[1].data, a.depth, exist, a.wide, [&](u32 n) { return keys_from + (begin + n) * a.sides[1].row; },
                               [&](u32 n, u32 chunk) { return keys + along_place(n, chunk); });
        bring_lines<TILE_KEYS>(a.sides[2].data, a.width, exist, a.wide, [&](u32 n) { return values_from + (begin + n) * a.sides[2].row; },
                               [&](u32 n, u32 chunk) { return values + across_place<LINE_ELEMENTS>(n, chunk); });
    };
    const u32 queries_from = offset_in(a.plan, a.sides[0].group, group);
    bring_lines<16 * QW>(a.sides[0].data, a.depth, a.rows - first, a.wide,
                         [&](u32 n) { return queries_from + offset_in(a.plan, a.sides[0].row, first + n); },
                         [&](u32 n, u32 chunk) { return memory + along_place(n, chunk); });
    bring_tile(0);
    block.fetch();
    end_copies();
    bring_tile(1);
    end_copies();
    wait_copies<1>();
    __syncthreads();
    if (block.evicted()) {
        wait_copies<0>();
        return;
    }
    AttentionRows<Terms, KW> rows;
    rows.take_queries(memory + q * 16 * SLAB);
    const u32 tiles = (a.keys + TILE_KEYS - 1) / TILE_KEYS;
    for (u32 tile = 0;;) {
        const char *keys = memory + QUERIES + tile % 2 * 2 * TILE;
        rows.add(a, group, first + 16 * q, keys, keys + TILE, part, tile * TILE_KEYS);
        __syncthreads();
        if (++tile == tiles) break;
        const u32 round = tile % TILES_A_LOOK;
        if (round == TILES_A_LOOK - 1) block.look();
        if (round == 0) block.post();
        bring_tile(tile + 1);
        end_copies();
        wait_copies<1>();
        __syncthreads();
        if (round == 0 && block.stop()) {
            wait_copies<0>();
            return;
        }
    }
    wait_copies<0>();
    __syncthreads();
    float *planes = (float *)memory, *states = planes + 4 * 16 * AttentionRows<Terms, KW>::PITCH;
    rows.store(planes + warp * 16 * AttentionRows<Terms, KW>::PITCH, states + warp * 32);
    __syncthreads();
    write_rows<QW, KW>(a, group, first, planes, states);
}

} // namespace tensor

#endif
