// Products of matrices on tensor cores: `Contract` of singles in reef_op::tensor, where outputs are batches of rows of
// columns. Both inputs are rounded once, to tf32 or to halves; sums are singles.
//
//   block = (part of the sum, batch, tile of rows, tile of columns)
//
// Slabs of 64 terms come into shared memory as they are, by asynchronous copies, and are rounded on the way to registers.
// A slab lies in one of two ways, as its input does: line by line with terms side by side (`along`), or term by term with
// lines side by side. Chunks of 16 bytes are swizzled so that neither writing nor reading meets a bank twice.
//
// Inputs that are halves in memory are pairs of them to a product: words, two to a term of tensor cores. Where both sides
// are (pairs) terms are counted in words; where columns alone are (`narrow`), they have half a slab's bytes. Sides that
// lie along, and of which columns need no rounding, come by whole matrices (sums.h).

#pragma once

#include "plan.h"
#include "split.h"
#include "sums.h"

#if REEF_ASYNC

namespace tensor {

// Rows, or columns: lines of terms. `ProductSide` in operators/tensor/products/params.rs.
struct ProductSide {
    const char *data;
    u32 step, view;        // from a line to the next; or, if it isn't 0, which view of the plan says where they begin
    u32 batch_step, batch_view;
    u32 term_step;
    u32 input;             // its place in the table's pairs
    u32 along;             // whether terms lie side by side, and not lines
    u32 wide;              // whether those that lie side by side are copied four at a time
};

// What becomes of a sum, one step after the other. `Code` in operators/tensor/products/params.rs.
enum AfterCode : u32 { NOTHING, ADD_OPERAND, MUL_OPERAND, ADD_NUMBER, MUL_NUMBER, AT_LEAST, AT_MOST, GELU, GELU_BY_TANH };

struct After {
    const float *operand;
    u32 code;
    u32 row_step, column_step; // of the operand
    float number;
};
const u32 AFTERS = 4;

// `ProductParams` there.
struct Product {
    ProductSide sides[2]; // rows, columns
    After after[AFTERS];
    void *output;
    float *partials;
    u32 *arrivals;   // of each tile, 0 between launches
    const u32 *plan; // views, and the table of terms
    u32 rows, columns, terms;
    u32 table;       // of pairs of places in the plan; 0: terms are apart by `term_step`
    u32 across, down; // tiles
    u32 slabs, splits;
    u32 fours;       // whether outputs and operands can be taken four at a time
    u32 output_row, output_row_view; // from a row of the output to the next, or which view says where they begin
    u32 output_batch, output_batch_view;
    u32 halves;      // whether outputs are halves
};

// Products that don't hang on each other, as one launch: `GroupParams` there. Blocks of the second begin behind those of the
// first, and so on; where none begin is behind all.
const u32 PRODUCTS = 3;
struct ProductGroup {
    Product of[PRODUCTS];
    u32 begins[PRODUCTS + 1];
};

const u32 SLAB_TERMS = SLAB / sizeof(float);

// Where chunk `chunk` of a line of a slab lies, and that of a term.
__device__ inline u32 along_place(u32 line, u32 chunk) {
    return line * SLAB + (chunk ^ (line & 1) << 2) * CHUNK;
}
__device__ inline u32 narrow_place(u32 line, u32 chunk) {
    return line * (SLAB / 2) + (chunk ^ (line & 3) << 1) * CHUNK;
}
template <int TILE> __device__ inline u32 across_place(u32 term, u32 chunk) {
    return term * (TILE * sizeof(float)) + (chunk ^ (term / 4 & 3) << 1) * CHUNK;
}

// A thread's four terms of one line and one step of 16: those from 4 * (lane % 4) on. Tensor cores have them in another
// order, the same for both sides, so that the sum is that of all.
template <int TILE> __device__ __forceinline__ float4 four_terms(const char *slab, u32 along, u32 line, u32 step) {
    const u32 t = threadIdx.x % 4;
    if (along) return *(const float4 *)(slab + along_place(line, 4 * step + t));
    const char *from = slab + across_place<TILE>(16 * step + 4 * t, line / 4) + line % 4 * sizeof(float);
    const u32 next = TILE * sizeof(float);
    return make_float4(*(const float *)from, *(const float *)(from + next), *(const float *)(from + 2 * next),
                       *(const float *)(from + 3 * next));
}

// Where a batch and a line begin, in elements.
__device__ inline u32 batch_place(const Product &p, const ProductSide &s, u32 batch) {
    return s.batch_view ? offset_in(p.plan + s.batch_view, batch) : batch * s.batch_step;
}
__device__ inline u32 line_place(const Product &p, const ProductSide &s, u32 line) {
    return s.view ? offset_in(p.plan + s.view, line) : line * s.step;
}

// Brings slabs of one side to shared memory, one after the other. A thread copies the same chunk of several lines, or of
// several terms.
template <int TILE, int THREADS> class Feed {
  public:
    static constexpr u32 BYTES = TILE * SLAB;

    __device__ Feed(const Product &p, const ProductSide &s, u32 batch, u32 first, u32 lines, u32 begin)
        : product(p), side(s), slab(begin) {
        const u32 from = batch_place(p, s, batch);
        chunk = threadIdx.x % (s.along ? CHUNKS : ACROSS);
        row = threadIdx.x / (s.along ? CHUNKS : ACROSS);
#pragma unroll
        for (u32 n = 0; n < PASSES; n++) {
            u32 line = first + (s.along ? row + n * LINES : 4 * chunk + n);
            places[n] = line < lines ? from + line_place(p, s, min(line, lines - 1)) : NOWHERE;
        }
        ahead = s.along ? term_place(slab * SLAB_TERMS + 4 * chunk) : 0;
    }

    template <class Terms> __device__ void give(Terms &to, const char *slab, u32 line, u32 step) const {
        to.take(four_terms<TILE>(slab, side.along, line, step));
    }

    // Starts the copies of the next slab.
    __device__ void next(char *stage) {
        if (side.along)
            bring_along(stage, slab * SLAB_TERMS + 4 * chunk);
        else
            bring_across(stage, slab * SLAB_TERMS);
        slab++;
    }

  private:
    static constexpr u32 PASSES = TILE * CHUNKS / THREADS, ACROSS = TILE / 4;
    static constexpr u32 LINES = THREADS / CHUNKS, TERMS = THREADS / ACROSS; // of a pass
    static_assert(PASSES == 4, "a chunk's lines, and a pass's, have the same places");

    const Product &product;
    const ProductSide &side;
    u32 chunk, row, slab;
    u32 ahead;          // where the first term of the next slab's chunk lies
    u32 places[PASSES]; // of the lines of each pass, or of the chunk's lines

    __device__ u32 term_place(u32 term) const {
        if (term >= product.terms) return NOWHERE;
        return product.table ? product.plan[product.table + 2 * term + side.input] : term * side.term_step;
    }

    // What lies at the places of a line and of a term, if there are both.
    __device__ const char *source(u32 line, u32 term, bool &inside) const {
        inside = line != NOWHERE && term != NOWHERE;
        return side.data + (inside ? (u64)(line + term) * sizeof(float) : 0);
    }

    __device__ void bring_along(char *stage, u32 first) {
        u32 terms[4];
        terms[0] = ahead;
        ahead = term_place(first + SLAB_TERMS); // a table is read while a slab is multiplied
        if (!side.wide)
            for (u32 e = 1; e < 4; e++) terms[e] = term_place(first + e);
#pragma unroll
        for (u32 n = 0; n < PASSES; n++) {
            char *to = stage + along_place(row + n * LINES, chunk);
            bool inside;
            const char *from = source(places[n], terms[0], inside);
            if (side.wide) {
                copy_chunk(to, from, inside);
                continue;
            }
            copy_word(to, from, inside);
            for (u32 e = 1; e < 4; e++) {
                from = source(places[n], terms[e], inside);
                copy_word(to + e * sizeof(float), from, inside);
            }
        }
    }

    __device__ void bring_across(char *stage, u32 first) const {
#pragma unroll
        for (u32 n = 0; n < PASSES; n++) {
            const u32 term = row + n * TERMS, at = term_place(first + term);
            char *to = stage + across_place<TILE>(term, chunk);
            bool inside;
            const char *from = source(places[0], at, inside);
            if (side.wide) {
                copy_chunk(to, from, inside);
                continue;
            }
            copy_word(to, from, inside);
            for (u32 e = 1; e < 4; e++) {
                from = source(places[e], at, inside);
                copy_word(to + e * sizeof(float), from, inside);
            }
        }
    }
};

// The same of a side that is `wide` and has no table of terms: all places are known at the beginning, so that a copy is
// little more than its instruction. With two warps for a scheduler it is instructions that a slab's time is made of.
// `NARROW`: halves, terms side by side, next to a side of singles. `MATRICES`: as `MatrixTile` takes them.
template <bool ALONG, int TILE, int THREADS, bool NARROW = false, bool MATRICES = false> class WholeFeed {
  public:
    static constexpr u32 BYTES = TILE * SLAB / (NARROW ? 2 : 1);

    __device__ WholeFeed(const Product &p, const ProductSide &s, u32 batch, u32 first, u32 lines, u32 begin) {
        const u32 chunk = threadIdx.x % WIDTH, row = threadIdx.x / WIDTH, slab = begin * WORDS;
        const u32 from = batch_place(p, s, batch);
        left = (int)(p.terms / (NARROW ? 2 : 1) - slab) - (int)(ALONG ? 4 * chunk : row);
        step = ALONG ? LINE : SLAB_TERMS * s.term_step * sizeof(float);
        place = MATRICES ? swizzled(row, chunk)
                : NARROW ? narrow_place(row, chunk)
                : ALONG  ? along_place(row, chunk)
                         : across_place<TILE>(row, chunk);
        as_it_is(place);
#pragma unroll
        for (u32 n = 0; n < PASSES; n++) {
            const u32 line = first + (ALONG ? row + n * EACH : 4 * chunk);
            const u64 term = slab + (ALONG ? 4 * chunk : row + n * EACH);
            // Where there is no line of terms the last one is read: its sums are written nowhere. What isn't there of other lines isn't
            // read, but its place has to be one of whole chunks as well.
            exists[n] = ALONG || line < lines;
            const u64 at = exists[n] ? from + line_place(p, s, ALONG ? min(line, lines - 1) : line) + (ALONG ? term : term * s.term_step) : 0;
            data[n] = s.data + at * sizeof(float);
        }
    }

    template <class Terms> __device__ static void give(Terms &to, const char *slab, u32 line, u32 step) {
        const u32 t = threadIdx.x % 4;
        if constexpr (NARROW)
            to.take(*(const uint2 *)(slab + narrow_place(line, 2 * step + t / 2) + t % 2 * sizeof(uint2)));
        else
            to.take(four_terms<TILE>(slab, ALONG, line, step));
    }

    template <class Place> __device__ void next(Place stage) {
#pragma unroll
        for (u32 n = 0; n < PASSES; n++) {
            if constexpr (IN_PARTS)
                if (n == PASSES - 1 && threadIdx.x / WIDTH + n * EACH >= TILE) continue;
            copy_chunk(stage + place + n * EACH * LINE, data[n], exists[n] && left > (ALONG ? 0 : (int)(n * EACH)));
            data[n] += step;
        }
        left -= WORDS;
    }

  private:
    static constexpr u32 WORDS = SLAB_TERMS / (NARROW ? 2 : 1); // of a line of a slab
    static constexpr u32 LINE = ALONG ? WORDS * sizeof(float) : TILE * sizeof(float); // bytes of a line, or of a term
    static constexpr u32 WIDTH = LINE / CHUNK;                                        // and chunks
    static constexpr u32 EACH = THREADS / WIDTH, PASSES = (BYTES / CHUNK + THREADS - 1) / THREADS;
    static constexpr bool IN_PARTS = BYTES / CHUNK % THREADS != 0; // the last pass has no lines for some threads
    static_assert(EACH % 16 == 0 || ALONG && EACH % (MATRICES ? 8 : NARROW ? 4 : 2) == 0, "all passes are swizzled alike");
    static_assert(ALONG || !NARROW && !MATRICES && !IN_PARTS, "halves, matrices and parts of passes lie along");

    const char *data[PASSES];
    bool exists[PASSES];
    u32 place;
    u64 step;
    int left; // terms from the thread's first in the next slab on
};

// Four terms as tensor cores take them: two words for each of their products.
struct Tf32Terms {
    typedef ::Tf32 Math;
    u32 words[4];

    __device__ void take(float4 x) {
        const float from[4] = {x.x, x.y, x.z, x.w};
        for (u32 n = 0; n < 4; n++) words[n] = as_tf32(from[n]);
    }
    static constexpr u32 PRODUCTS = 2;
};

struct F16Terms {
    typedef ::F16 Math;
    u32 words[2];

    __device__ void take(float4 x) { words[0] = as_halves(x.x, x.y), words[1] = as_halves(x.z, x.w); }
    __device__ void take(uint2 x) { words[0] = x.x, words[1] = x.y; }
    static constexpr u32 PRODUCTS = 1;
};

// Eight terms that are halves already, four words of two.
struct PairTerms {
    typedef ::F16 Math;
    u32 words[4];

    __device__ void take(float4 x) {
        const float from[4] = {x.x, x.y, x.z, x.w};
        for (u32 n = 0; n < 4; n++) words[n] = __float_as_uint(from[n]);
    }
    static constexpr u32 PRODUCTS = 2;
};

// A block's tile of sums. Its warps stand WM x WN over the tile; WK of them share each place and split every slab.
template <class Terms, int BM, int BN, int WM, int WN, int WK, int DEPTH> class ProductTile {
  public:
    static constexpr int ROWS = BM, COLUMNS = BN, SHARES = WK, THREADS = 32 * WM * WN * WK;
    static constexpr int STAGES = DEPTH, BLOCKS = 2; // of a unit, at least
    static constexpr u32 LINE = BN + 8;              // floats of a row of sums in shared memory

    typedef char *Place;
    __device__ static Place place(char *memory) { return memory; }

    __device__ ProductTile() : lane(threadIdx.x % 32) {
        u32 warp = threadIdx.x / 32;
        share = warp / (WM * WN);
        row = warp % WM * (BM / WM);
        column = warp / WM % WN * (BN / WN);
        for (auto &line : sums)
            for (auto &tile : line)
                for (float &sum : tile) sum = 0;
    }

    // Adds the products of one slab, of which both sides give terms.
    template <class Rows, class Columns>
    __device__ void add(const Rows &rows, const char *row_slab, const Columns &columns, const char *column_slab) {
#pragma unroll
        for (u32 k = 0; k < STEPS / WK; k++) {
            const u32 step = k * WK + share;
            Terms a[MT][2], b[NT];
            for (int i = 0; i < MT; i++)
                for (int half = 0; half < 2; half++)
                    rows.give(a[i][half], row_slab, row + 16 * i + 8 * half + lane / 4, step);
            for (int j = 0; j < NT; j++) columns.give(b[j], column_slab, column + 8 * j + lane / 4, step);
            for (u32 p = 0; p < 2 * Terms::PRODUCTS; p += 2)
                for (int i = 0; i < MT; i++)
                    for (int j = 0; j < NT; j++) {
                        const u32 *upper = a[i][0].words + p, *lower = a[i][1].words + p;
                        const u32 words[4] = {upper[0], lower[0], upper[1], lower[1]};
                        Terms::Math::multiply(sums[i][j], words, b[j].words[p], b[j].words[p + 1]);
                    }
        }
    }

    // Writes the sums, one plane of `LINE * BM` floats for each share.
    __device__ void store(float *to) const {
        to += (share * BM + row + lane / 4) * LINE + column + lane % 4 * 2;
        for (int i = 0; i < MT; i++)
            for (int j = 0; j < NT; j++) {
                float *corner = to + 16 * i * LINE + 8 * j;
                const float (&c)[4] = sums[i][j];
                *(float2 *)corner = make_float2(c[0], c[1]);
                *(float2 *)(corner + 8 * LINE) = make_float2(c[2], c[3]);
            }
    }

  private:
    static constexpr int STEPS = SLAB_TERMS / 16, MT = BM / WM / 16, NT = BN / WN / 8;
    static_assert(STEPS % WK == 0, "shares of a slab");

    u32 lane, share, row, column;
    float sums[MT][NT][4];
};

// The same of sides that come as whole matrices: a register of each for each load, in the order in which tensor cores have them.
template <class Math, int BM, int BN, int WM, int WN, int WK, int DEPTH>
class MatrixTile : public Warps<Math, BM, BN, WM, WN, WK, DEPTH> {
  public:
    static constexpr int ROWS = BM, COLUMNS = BN;

    template <class Rows, class Columns>
    __device__ void add(const Rows &, SharedPlace row_slab, const Columns &, SharedPlace column_slab) {
        Warps<Math, BM, BN, WM, WN, WK, DEPTH>::add(row_slab, column_slab);
    }
};

// Sums as the threads of a block take them from shared memory, four adjoining columns at a time, and what is made of them.
template <class Tile> class ProductEnd {
  public:
    __device__ ProductEnd(const Product &p, u32 batch, u32 first_row, u32 first_column) : product(p) {
        column = first_column + threadIdx.x % QUADS * 4;
        row = first_row + threadIdx.x / QUADS;
        line = batch * p.rows + row;
        begin = p.output_batch_view ? offset_in(p.plan + p.output_batch_view, batch) : batch * p.output_batch;
    }

    // Asks for a bias, if that is what is added first, so that it is here in time. All that others write is there.
    __device__ void bring_bias() {
        const After &first = product.after[0];
        adds_bias = first.code == ADD_OPERAND && first.row_step == 0 && first.column_step == 1 && product.fours;
        if (adds_bias && column < product.columns) bias = load4(first.operand + column);
    }

    // Adds the shares up.
    __device__ void take(const float *from) {
        from += threadIdx.x / QUADS * Tile::LINE + threadIdx.x % QUADS * 4;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            sums[i] = load4(from + i * ROWS * Tile::LINE);
            for (u32 share = 1; share < Tile::SHARES; share++)
                sums[i] = sums[i] + load4(from + (share * Tile::ROWS + i * ROWS) * Tile::LINE);
        }
    }

    __device__ void write_partial(u32 tile, u32 split) const {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) store4(partial(tile, split, i), sums[i]);
    }

    // Adds up what all splits have written, in their order.
    __device__ void read_partials(u32 tile) {
#pragma unroll
        for (float4 &sum : sums) sum = make_float4(0, 0, 0, 0);
        for (u32 split = 0; split < product.splits; split += GROUP) {
            float4 parts[GROUP][EACH];
#pragma unroll
            for (u32 g = 0; g < GROUP; g++)
                for (u32 i = 0; i < EACH; i++)
                    if (split + g < product.splits) parts[g][i] = load_shared(partial(tile, split + g, i));
#pragma unroll
            for (u32 g = 0; g < GROUP; g++)
                for (u32 i = 0; i < EACH; i++)
                    if (split + g < product.splits) sums[i] = sums[i] + parts[g][i];
        }
    }

    __device__ void write() {
        if (adds_bias)
#pragma unroll
            for (float4 &sum : sums) sum = sum + bias;
        // One copy of the code of all steps: GELU is long, and each launch brings its code anew.
#pragma unroll 1
        for (u32 s = adds_bias; s < AFTERS && product.after[s].code != NOTHING; s++) apply(product.after[s]);
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (!exists(i)) continue;
            const u32 at = begin + row_place(row + i * ROWS) + column;
            if (product.halves)
                put((Half *)product.output + at, sums[i]);
            else
                put((float *)product.output + at, sums[i]);
        }
    }

  private:
    static constexpr u32 QUADS = Tile::COLUMNS / 4, ROWS = Tile::THREADS / QUADS, EACH = Tile::ROWS / ROWS;
    static constexpr u32 GROUP = EACH >= 8 ? 1 : 8 / EACH; // so that 8 loads are under way

    __device__ u32 row_place(u32 row) const {
        return product.output_row_view ? offset_in(product.plan + product.output_row_view, row) : row * product.output_row;
    }

    __device__ bool exists(u32 i) const { return row + i * ROWS < product.rows && column < product.columns; }

    template <class Element> __device__ void put(Element *to, float4 sum) const {
        if (product.fours) {
            store4(to, sum);
            return;
        }
        const float value[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
        for (u32 e = 0; e < 4; e++)
            if (column + e < product.columns) set(to[e], value[e]);
    }

    __device__ float *partial(u32 tile, u32 split, u32 i) const {
        u64 at = ((u64)tile * product.splits + split) * EACH + i;
        return product.partials + (at * Tile::THREADS + threadIdx.x) * 4;
    }

    __device__ float4 operand(const After &after, u32 i) const {
        if (!exists(i)) return make_float4(0, 0, 0, 0);
        const float *from = after.operand + (u64)(line + i * ROWS) * after.row_step + column * after.column_step;
        if (after.column_step == 0) return make_float4(*from, *from, *from, *from);
        if (product.fours) return load4(from);
        float four[4];
#pragma unroll
        for (u32 e = 0; e < 4; e++) four[e] = column + e < product.columns ? from[e * after.column_step] : 0;
        return make_float4(four[0], four[1], four[2], four[3]);
    }

    __device__ void apply(const After &after) {
        if (after.code == ADD_OPERAND || after.code == MUL_OPERAND) {
            float4 operands[EACH];
#pragma unroll
            for (u32 i = 0; i < EACH; i++) operands[i] = operand(after, i);
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
                float4 &x = sums[i], y = operands[i];
                x = after.code == ADD_OPERAND ? x + y : make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w);
            }
            return;
        }
#pragma unroll
        for (float4 &x : sums) {
            const float y = after.number;
            switch (after.code) {
            case ADD_NUMBER: x = x + make_float4(y, y, y, y); break;
            case MUL_NUMBER: x = make_float4(x.x * y, x.y * y, x.z * y, x.w * y); break;
            case AT_LEAST: x = make_float4(at_least(x.x, y), at_least(x.y, y), at_least(x.z, y), at_least(x.w, y)); break;
            case AT_MOST: x = make_float4(at_most(x.x, y), at_most(x.y, y), at_most(x.z, y), at_most(x.w, y)); break;
            case GELU: x = make_float4(gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w)); break;
            default: x = make_float4(by_tanh(x.x), by_tanh(x.y), by_tanh(x.z), by_tanh(x.w));
            }
        }
    }

    __device__ static float gelu(float x) { return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f)); }

    __device__ static float by_tanh(float x) {
        const float y = 0.79788456080286536f * (x + 0.044715f * x * x * x);
        return x * (1.0f - reciprocal(1.0f + power_of_two(2.8853900817779268f * y))); // x * (1 + tanh y) / 2
    }

    // Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: off by 1.5e-7 and what its parts are, which is nothing
    // next to sums of products of rounded numbers; a third of the instructions of `erff`.
    __device__ static float error_function(float x) {
        const float t = reciprocal(1.0f + 0.3275911f * fabsf(x));
        float sum = 1.061405429f;
        sum = sum * t - 1.453152027f;
        sum = sum * t + 1.421413741f;
        sum = sum * t - 0.284496736f;
        sum = sum * t + 0.254829592f;
        return copysignf(1.0f - sum * t * power_of_two(-1.4426950408889634f * x * x), x);
    }

    const Product &product;
    u32 row, column, line, begin;
    bool adds_bias;
    float4 bias, sums[EACH];
};

// Slabs between two preemption points.
const u32 SLABS_PER_POLL = 32;

// How both sides come: any way, or rows along and columns along or across, with all places known at the beginning. `CONSTANT`:
// columns were packed when the network was loaded, so that nobody who runs before writes them.
template <class Tile> struct AnySides {
    static constexpr bool CONSTANT = false;
    typedef Feed<Tile::ROWS, Tile::THREADS> Rows;
    typedef Feed<Tile::COLUMNS, Tile::THREADS> Columns;
};
template <class Tile> struct AlongSides {
    static constexpr bool CONSTANT = false;
    typedef WholeFeed<true, Tile::ROWS, Tile::THREADS> Rows;
    typedef WholeFeed<true, Tile::COLUMNS, Tile::THREADS> Columns;
};
template <class Tile> struct AcrossSides {
    static constexpr bool CONSTANT = false;
    typedef WholeFeed<true, Tile::ROWS, Tile::THREADS> Rows;
    typedef WholeFeed<false, Tile::COLUMNS, Tile::THREADS> Columns;
};

template <class Tile> struct NarrowSides {
    static constexpr bool CONSTANT = true;
    typedef WholeFeed<true, Tile::ROWS, Tile::THREADS> Rows;
    typedef WholeFeed<true, Tile::COLUMNS, Tile::THREADS, true> Columns;
};

// Of a `MatrixTile`.
template <class Tile> struct MatrixSides {
    static constexpr bool CONSTANT = true;
    typedef WholeFeed<true, Tile::ROWS, Tile::THREADS, false, true> Rows;
    typedef WholeFeed<true, Tile::COLUMNS, Tile::THREADS, false, true> Columns;
};

// `index`: which of the product's blocks this is.
template <class Tile, class Sides>
__device__ __forceinline__ void multiply(reef::Block &block, const Product &product, u32 index) {
    extern __shared__ __align__(128) char memory[];
    typedef typename Sides::Rows Rows;
    typedef typename Sides::Columns Columns;
    constexpr u32 STAGES = Tile::STAGES, STAGE_BYTES = Rows::BYTES + Columns::BYTES;
    const u32 column_tile = index % product.across, rest = index / product.across;
    const u32 row_tile = rest % product.down, split = rest / product.down % product.splits;
    const u32 batch = rest / product.down / product.splits;
    const u32 tile = (batch * product.down + row_tile) * product.across + column_tile;
    const u32 begin = split * product.slabs / product.splits, end = (split + 1) * product.slabs / product.splits;
    const u32 first_row = row_tile * Tile::ROWS, first_column = column_tile * Tile::COLUMNS;
    Rows rows(product, product.sides[0], batch, first_row, product.rows, begin);
    Columns columns(product, product.sides[1], batch, first_column, product.columns, begin);
    const typename Tile::Place slabs = Tile::place(memory);
    u32 fetched = begin, writing = 0, reading = 0;
    auto bring_next = [&](bool with_columns) {
        if (fetched < end) {
            rows.next(slabs + writing * STAGE_BYTES);
            if (with_columns) columns.next(slabs + writing * STAGE_BYTES + Rows::BYTES);
            fetched++;
        }
        writing = writing == STAGES - 1 ? 0 : writing + 1;
    };
    // What is constant comes while the launch before runs.
    for (u32 stage = 0; Sides::CONSTANT && stage < STAGES - 1; stage++)
        if (begin + stage < end) columns.next(slabs + stage * STAGE_BYTES + Rows::BYTES);
    reef::wait_for_previous();
    for (u32 stage = 0; stage < STAGES - 1; stage++) {
        bring_next(!Sides::CONSTANT);
        if (stage == 0) block.fetch();
        end_copies();
    }
    ProductEnd<Tile> ending(product, batch, first_row, first_column);
    ending.bring_bias();
    Tile sums;
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (block.evicted()) {
        wait_copies<0>();
        return;
    }
    for (u32 slab = begin;;) {
        bring_next(true);
        end_copies();
        const typename Tile::Place stage = slabs + reading * STAGE_BYTES;
        reading = reading == STAGES - 1 ? 0 : reading + 1;
        sums.add(rows, stage, columns, stage + Rows::BYTES);
        if (++slab == end) break;
        const u32 round = (slab - begin) % SLABS_PER_POLL;
        if (round == SLABS_PER_POLL - 1) block.poll();
        if (round == 0) block.post();
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (round == 0 && block.stop()) {
            wait_copies<0>();
            return;
        }
    }
    reef::let_next_start(); // not before: blocks that only wait are spread badly, and long ones would run next to each other
    __syncthreads();
    sums.store((float *)memory);
    __syncthreads();
    ending.take((const float *)memory);
    if (product.splits > 1) {
        ending.write_partial(tile, split);
        if (!comes_last(product.arrivals + tile, product.splits)) return;
        ending.read_partials(tile);
    }
    ending.write();
}

template <class Tile, class Sides> __device__ __forceinline__ void multiply_one(reef::Turns &turns, const Product &product) {
    reef::Block block(turns, reef::AHEAD);
    multiply<Tile, Sides>(block, product, block.index);
}

template <class Tile, class Sides>
__device__ __forceinline__ void multiply_group(reef::Turns &turns, const ProductGroup &group) {
    reef::Block block(turns, reef::AHEAD);
    u32 which = 0;
#pragma unroll
    for (u32 n = 1; n < PRODUCTS; n++) which += block.index >= group.begins[n];
    multiply<Tile, Sides>(block, group.of[which], block.index - group.begins[which]);
}

} // namespace tensor

#endif
