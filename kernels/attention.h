// Attention on tensor cores: `Attention` of singles in reef_op::tensor. Softmax is made while keys go by (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), so scores are never
// in memory.
//
//   block = (group of rows that see the same keys, tile of its rows)
//
// Of four warps QW have 16 rows each, and KW share a tile of keys. Queries, keys and values come as they are into shared
// memory: a line of 64 elements is 256 bytes, as a slab of product.h, or 128 if they are halves (`PairTerms`). With one warp for a scheduler it is instructions that time
// is made of, so places are known at the beginning, and what a step of scores reads is asked for all at once.

#pragma once

#include "product.h"

#if REEF_ASYNC

namespace tensor {

// What becomes of a score: `ScoreParams` in operators/tensor/attention/params.rs. A score of row `r` of group `g` reads at
// the sum of the places of both and of `key` times the key.
enum ScoreCode : u32 { SCALE, ADD_INPUT, CHOOSE };

// From one to the next; or, if there is one, which view of the plan says where they are: `PlacesParams` there.
struct Places {
    u32 step, view;

    // As `offset_in`, in less code: few have a view.
    __device__ u32 of(const u32 *plan, u32 n) const {
        if (view == 0) return n * step;
        u32 at = 0;
        const u32 *axis = plan + view + 1;
#pragma unroll 1
        for (u32 axes = axis[-1]; axes > 0; axes--, axis += 4) {
            const u32 rest = Divisor{axis[0], axis[1]}(n);
            at += (n - rest * axis[2]) * axis[3];
            n = rest;
        }
        return at;
    }
};

struct ScoreStep {
    const void *input;
    u32 code;
    float number; // factor, or what scores become that don't stay
    Places group, row;
    u32 key;
    u32 keep; // what the condition is where scores stay
};
const u32 SCORE_STEPS = 4;

// Where rows of 64 elements at most lie. Of keys and values `row` has no view.
struct AttentionSide {
    const char *data;
    Places group, row;
};

// `AttentionParams` there.
struct Attention {
    AttentionSide sides[3]; // queries, keys, values
    ScoreStep steps[SCORE_STEPS];
    void *output;
    const u32 *plan;
    Places output_group, output_row; // in rows of the output
    u32 rows, keys, depth, width;    // of a group
    u32 tiles;                       // of a group
    u32 count;                       // of steps
    u32 wide;                        // whether all is copied four elements at a time
    u32 fours;                       // and outputs are written so
    u32 none_is_zero;
    u32 halves;                      // whether outputs are halves
};

const u32 TILE_KEYS = 64, LINE_ELEMENTS = 64, ATTENTION_THREADS = 128;

// A line in shared memory, whose elements have so many bytes.
template <u32 SIZE> struct LineOf {
    static constexpr u32 ELEMENT = SIZE, BYTES = LINE_ELEMENTS * SIZE, CHUNKS = BYTES / CHUNK, OF_CHUNK = CHUNK / SIZE;
    // Lines that a block's threads copy at once, a chunk each.
    static constexpr u32 AT_ONCE = ATTENTION_THREADS / CHUNKS;

    // Where a chunk of a line of keys or queries lies, as `along_place` has it.
    __device__ static u32 place(u32 line, u32 chunk) { return line * BYTES + (chunk ^ (line & 1) << 2) * CHUNK; }
};
// And one of values: neither the copies meet a bank twice, nor do loads of two keys' columns by threads of which four have other
// keys. Every eighth line is like the first.
template <class Terms> struct Line : LineOf<sizeof(float)> {
    __device__ static u32 value_place(u32 line, u32 chunk) { return line * BYTES + (chunk ^ (line / 2 & 3) << 1) * CHUNK; }
};
// Nor do loads of matrices of halves.
template <> struct Line<PairTerms> : LineOf<sizeof(Half)> {
    __device__ static u32 value_place(u32 line, u32 chunk) { return line * BYTES + (chunk ^ (line & 7)) * CHUNK; }
};

// Tiles of keys between two preemption points.
const u32 TILES_PER_POLL = 8;
const float LOG2_E = 1.44269504088896341f;

__device__ inline float exponential_of(float x) { return power_of_two(x * LOG2_E); }

// Starts the copies of a chunk of each of `count` lines that is the thread's, of which `exist` are there. `from(n)` and `to`
// are of the thread's chunk of its line `n` and of its first. Halves are always copied in chunks.
template <u32 count, class Line, class From>
__device__ __forceinline__ void bring_lines(char *to, u32 elements, u32 exist, bool wide, From from) {
    const u32 first = Line::OF_CHUNK * (threadIdx.x % Line::CHUNKS), line = threadIdx.x / Line::CHUNKS;
    if (wide || Line::ELEMENT < sizeof(float)) {
#pragma unroll
        for (u32 n = 0; n < count / Line::AT_ONCE; n++)
            copy_chunk(to + n * Line::AT_ONCE * Line::BYTES, from(n), first < elements && line + n * Line::AT_ONCE < exist);
        return;
    }
#pragma unroll 1
    for (u32 n = 0; n < count / Line::AT_ONCE; n++) {
        const char *at = from(n);
        for (u32 e = 0; e < 4; e++) {
            const bool inside = first + e < elements && line + n * Line::AT_ONCE < exist;
            copy_word(to + n * Line::AT_ONCE * Line::BYTES + e * sizeof(float), at + e * sizeof(float), inside);
        }
    }
}

// Adds products of weights, which are where tensor cores take them already if keys are taken in an order that suits, with
// values, of which `value(key)` is one of a thread's column, counted from its first key.
template <u32 TILES, class Value>
__device__ __forceinline__ void add_weighed(F16Terms *, float (&made)[4], const float (&weights)[TILES][4], Value value) {
#pragma unroll
    for (u32 j = 0; j < TILES; j += 2) {
        const float *c = weights[j], *d = weights[j + 1];
        const u32 words[4] = {as_halves(c[0], c[1]), as_halves(c[2], c[3]), as_halves(d[0], d[1]), as_halves(d[2], d[3])};
        const u32 key = 8 * j;
        F16Terms::Math::multiply(made, words, as_halves(value(key), value(key + 1)), as_halves(value(key + 8), value(key + 9)));
    }
}

template <u32 TILES, class Value>
__device__ __forceinline__ void add_weighed(Tf32Terms *, float (&made)[4], const float (&weights)[TILES][4], Value value) {
#pragma unroll
    for (u32 j = 0; j < TILES; j++) {
        const float *c = weights[j];
        const u32 words[4] = {as_tf32(c[0]), as_tf32(c[2]), as_tf32(c[1]), as_tf32(c[3])};
        const u32 key = 8 * j;
        Tf32Terms::Math::multiply(made, words, as_tf32(value(key)), as_tf32(value(key + 1)));
    }
}

// The same from values that are halves, for two times eight columns: those of a chunk and of the next.
template <u32 TILES>
__device__ __forceinline__ void add_weighed(float (&made)[4], float (&more)[4], const float (&weights)[TILES][4],
                                            const char *values, u32 chunk) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 j = 0; j < TILES; j += 2) {
        const float *c = weights[j], *d = weights[j + 1];
        const u32 words[4] = {as_halves(c[0], c[1]), as_halves(c[2], c[3]), as_halves(d[0], d[1]), as_halves(d[2], d[3])};
        u32 b[4];
        load_turned(b, values + Line<PairTerms>::value_place(8 * j + lane % 16, chunk + lane / 16));
        F16::multiply(made, words, b[0], b[1]);
        F16::multiply(more, words, b[2], b[3]);
    }
}

// A warp's 16 rows, of which a thread has two: row `lane / 4` and the eighth behind it.
template <class Terms, int KW> class AttentionRows {
    typedef tensor::Line<Terms> Line;

  public:
    __device__ AttentionRows() : g(threadIdx.x % 32 / 4), t(threadIdx.x % 4) {
        for (int h = 0; h < 2; h++) largest[h] = -infinity(), sum[h] = 0;
        for (auto &tile : made)
            for (float &x : tile) x = 0;
    }

    __device__ void take_queries(const char *from) {
#pragma unroll
        for (u32 step = 0; step < STEPS; step++)
            for (u32 h = 0; h < 2; h++)
                queries[step][h].take(*(const float4 *)(from + Line::place(8 * h + g, 4 * step + t)));
    }

    // Takes in the warp's part of a tile of keys, which begins at key `first`. `row`: the warp's first of the group.
    __device__ void add(const Attention &a, u32 group, u32 row, const char *keys, const char *values, u32 part, u32 first) {
        float scores[TILES][4];
        fit(scores, keys + part * Line::BYTES);
        change(scores, a, group, row, first + part + 2 * t);
        weigh(scores);
        add_values(scores, values + part * Line::BYTES);
    }

    // Writes what it has: a plane of 16 lines of sums, the largest score of each row, and the sum of weights.
    __device__ void store(float *to, float *state) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
            sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
            const u32 row = g + 8 * h;
            if (t == 0) state[row] = largest[h], state[16 + row] = sum[h];
            float *at = to + row * PITCH + 2 * t;
#pragma unroll
            for (u32 n = 0; n < COLUMNS; n++) *(float2 *)(at + 8 * n) = make_float2(made[n][2 * h], made[n][2 * h + 1]);
        }
    }

    static constexpr u32 PITCH = LINE_ELEMENTS + 8;

  private:
    static constexpr u32 STEPS = Line::CHUNKS / 4, TILES = TILE_KEYS / KW / 8, COLUMNS = LINE_ELEMENTS / 8;

    u32 g, t;
    Terms queries[STEPS][2];
    float largest[2], sum[2];
    float made[COLUMNS][4];

    __device__ void fit(float (&scores)[TILES][4], const char *keys) const {
        // Of even steps and of odd ones: chunks are swizzled by the line's lowest bit.
        const char *from[2];
        for (u32 odd = 0; odd < 2; odd++) from[odd] = keys + Line::place(g, 4 * odd + t);
#pragma unroll
        for (u32 j = 0; j < TILES; j++) {
            for (float &x : scores[j]) x = 0;
#pragma unroll
            for (u32 step = 0; step < STEPS; step++) {
                Terms b;
                b.take(*(const float4 *)(from[step % 2] + 8 * j * Line::BYTES + step / 2 * 8 * CHUNK));
                for (u32 p = 0; p < 2 * Terms::PRODUCTS; p += 2) {
                    const u32 *upper = queries[step][0].words + p, *lower = queries[step][1].words + p;
                    const u32 words[4] = {upper[0], lower[0], upper[1], lower[1]};
                    Terms::Math::multiply(scores[j], words, b.words[p], b.words[p + 1]);
                }
            }
        }
    }

    // `key`: of the first score.
    __device__ void change(float (&scores)[TILES][4], const Attention &a, u32 group, u32 row, u32 key) const {
#pragma unroll 1
        for (u32 s = 0; s < a.count; s++) {
            const ScoreStep &step = a.steps[s];
            if (step.code == SCALE) {
                for (auto &tile : scores)
                    for (float &x : tile) x *= step.number;
                continue;
            }
            const u32 begin = step.group.of(a.plan, group);
            const u32 upper = begin + step.row.of(a.plan, min(row + g, a.rows - 1));
            const u32 lower = begin + step.row.of(a.plan, min(row + 8 + g, a.rows - 1));
            // Behind the last key it reads what the last one has.
            auto place = [&](u32 j, u32 n) { return (n < 2 ? upper : lower) + min(key + 8 * j + n % 2, a.keys - 1) * step.key; };
            if (step.code == ADD_INPUT) {
                float more[TILES][4];
#pragma unroll
                for (u32 j = 0; j < TILES; j++)
                    for (u32 n = 0; n < 4; n++) more[j][n] = ((const float *)step.input)[place(j, n)];
#pragma unroll
                for (u32 j = 0; j < TILES; j++)
                    for (u32 n = 0; n < 4; n++) scores[j][n] += more[j][n];
            } else {
                bool stays[TILES][4];
#pragma unroll
                for (u32 j = 0; j < TILES; j++)
                    for (u32 n = 0; n < 4; n++)
                        stays[j][n] = (((const unsigned char *)step.input)[place(j, n)] != 0) == (step.keep != 0);
#pragma unroll
                for (u32 j = 0; j < TILES; j++)
                    for (u32 n = 0; n < 4; n++)
                        if (!stays[j][n]) scores[j][n] = step.number;
            }
        }
#pragma unroll
        for (u32 j = 0; j < TILES; j++)
            for (u32 n = 0; n < 4; n++)
                if (key + 8 * j + n % 2 >= a.keys) scores[j][n] = -infinity();
    }

    // Makes weights of scores, relative to the largest so far. A row without any has 0 for it, so that weights are 0.
    __device__ void weigh(float (&scores)[TILES][4]) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            float most = largest[h];
            for (u32 j = 0; j < TILES; j++) most = larger(larger(most, scores[j][2 * h]), scores[j][2 * h + 1]);
            most = larger(most, __shfl_xor_sync(~0u, most, 1));
            most = larger(most, __shfl_xor_sync(~0u, most, 2));
            const float from = most == -infinity() ? 0 : most, before = exponential_of(largest[h] - from);
            largest[h] = most;
            sum[h] *= before;
            for (auto &tile : made) tile[2 * h] *= before, tile[2 * h + 1] *= before;
            for (u32 j = 0; j < TILES; j++)
                for (u32 n = 2 * h; n < 2 * h + 2; n++) {
                    scores[j][n] = exponential_of(scores[j][n] - from);
                    sum[h] += scores[j][n];
                }
        }
    }

    // Of a column's place in a line only two bits of its chunk hang on the thread: of each fourth eight it is the same.
    __device__ void add_values(const float (&weights)[TILES][4], const char *values) {
        if constexpr (Line::ELEMENT < sizeof(float)) {
#pragma unroll
            for (u32 n = 0; n < COLUMNS; n += 2) add_weighed(made[n], made[n + 1], weights, values, n);
        } else {
            const char *from[4];
            for (u32 n = 0; n < 4; n++) from[n] = values + Line::value_place(2 * t, 2 * n + g / 4) + g % 4 * sizeof(float);
#pragma unroll
            for (u32 n = 0; n < COLUMNS; n++) {
                auto value = [&](u32 key) { return *(const float *)(from[n % 4] + key * Line::BYTES + n / 4 * 8 * CHUNK); };
                add_weighed((Terms *)nullptr, made[n], weights, value);
            }
        }
    }
};

// Four outputs of a row from `column` on, as many as there are.
template <class Element> __device__ __forceinline__ void put(const Attention &a, Element *to, float4 made, u32 column) {
    if (a.fours) {
        store4(to, made);
        return;
    }
    const float value[4] = {made.x, made.y, made.z, made.w};
    for (u32 e = 0; e < 4; e++)
        if (column + e < a.width) set(to[e], value[e]);
}

// The rows of a block from what its warps have, in planes: a thread has four columns of every eighth row.
template <int QW, int KW>
__device__ __forceinline__ void write_rows(const Attention &a, u32 group, u32 first, const float *planes, const float *states) {
    constexpr u32 PITCH = LINE_ELEMENTS + 8;
    constexpr u32 QUADS = LINE_ELEMENTS / 4, AT_ONCE = ATTENTION_THREADS / QUADS;
    const u32 column = 4 * (threadIdx.x % QUADS), begin = a.output_group.of(a.plan, group);
#pragma unroll 2
    for (u32 row = threadIdx.x / QUADS; row < 16 * QW; row += AT_ONCE) {
        if (first + row >= a.rows || column >= a.width) return;
        const u32 warp = row / 16, line = row % 16;
        float most = -infinity(), sum = 0;
#pragma unroll
        for (u32 k = 0; k < KW; k++) most = larger(most, states[(k * QW + warp) * 32 + line]);
        const float from = most == -infinity() ? 0 : most;
        float4 made = make_float4(0, 0, 0, 0);
#pragma unroll
        for (u32 k = 0; k < KW; k++) {
            const float *state = states + (k * QW + warp) * 32 + line;
            const float part = exponential_of(state[0] - from);
            const float4 x = load4(planes + ((k * QW + warp) * 16 + line) * PITCH + column);
            sum += part * state[16];
            made = made + make_float4(part * x.x, part * x.y, part * x.z, part * x.w);
        }
        const float by = 1 / sum;
        made = make_float4(made.x * by, made.y * by, made.z * by, made.w * by);
        if (a.none_is_zero && !(sum > 0)) made = make_float4(0, 0, 0, 0);
        const u64 at = (u64)(begin + a.output_row.of(a.plan, first + row)) * a.width + column;
        if (a.halves)
            put(a, (Half *)a.output + at, made, column);
        else
            put(a, (float *)a.output + at, made, column);
    }
}

template <class Terms, int QW, int KW>
__device__ __forceinline__ void attend(reef::Turns &turns, const Attention &a) {
    extern __shared__ __align__(128) char memory[];
    static_assert(QW * KW == 4, "four warps");
    typedef tensor::Line<Terms> Line;
    typedef AttentionRows<Terms, KW> Rows;
    constexpr u32 TILE = TILE_KEYS * Line::BYTES, QUERIES = 16 * QW * Line::BYTES;
    reef::Block block(turns, reef::AHEAD);
    reef::wait_for_previous();
    const u32 group = block.index / a.tiles, first = (block.index - group * a.tiles) * 16 * QW;
    const u32 warp = threadIdx.x / 32, q = warp % QW, part = warp / QW * (TILE_KEYS / KW);
    const u32 chunk = threadIdx.x % Line::CHUNKS, line = threadIdx.x / Line::CHUNKS, tiles = (a.keys + TILE_KEYS - 1) / TILE_KEYS;
    // The thread's chunk of its first line, and how far it is to the next one.
    const char *from[2];
    u64 steps[2];
#pragma unroll
    for (u32 n = 0; n < 2; n++) {
        const AttentionSide &side = a.sides[1 + n];
        from[n] = side.data + ((u64)side.group.of(a.plan, group) + line * side.row.step + Line::OF_CHUNK * chunk) * Line::ELEMENT;
        steps[n] = (u64)side.row.step * Line::AT_ONCE * Line::ELEMENT;
    }
    u32 exist = a.keys;
    auto bring_tile = [&](u32 tile) {
        if (tile >= tiles) return;
        char *keys = memory + QUERIES + tile % 2 * 2 * TILE;
        auto next = [&](u32 side) {
            return [&, side](u32) {
                const char *at = from[side];
                from[side] += steps[side];
                return at;
            };
        };
        bring_lines<TILE_KEYS, Line>(keys + Line::place(line, chunk), a.depth, exist, a.wide, next(0));
        bring_lines<TILE_KEYS, Line>(keys + TILE + Line::value_place(line, chunk), a.width, exist, a.wide, next(1));
        exist -= min(exist, TILE_KEYS);
    };
    const AttentionSide &queries = a.sides[0];
    const u32 queries_from = queries.group.of(a.plan, group) + Line::OF_CHUNK * chunk;
    bring_lines<16 * QW, Line>(memory + Line::place(line, chunk), a.depth, a.rows - first, a.wide, [&](u32 n) {
        const u32 row = min(first + line + n * Line::AT_ONCE, a.rows - 1);
        return queries.data + (u64)(queries_from + queries.row.of(a.plan, row)) * Line::ELEMENT;
    });
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
    Rows rows;
    rows.take_queries(memory + q * 16 * Line::BYTES);
    for (u32 tile = 0;;) {
        const char *keys = memory + QUERIES + tile % 2 * 2 * TILE;
        rows.add(a, group, first + 16 * q, keys, keys + TILE, part, tile * TILE_KEYS);
        __syncthreads();
        if (++tile == tiles) break;
        const u32 round = tile % TILES_PER_POLL;
        if (round == TILES_PER_POLL - 1) block.poll();
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
    reef::let_next_start(); // as in product.h
    __syncthreads();
    float *planes = (float *)memory, *states = planes + 4 * 16 * Rows::PITCH;
    rows.store(planes + warp * 16 * Rows::PITCH, states + warp * 32);
    __syncthreads();
    write_rows<QW, KW>(a, group, first, planes, states);
}

} // namespace tensor

#endif
