// ResNet-50 (batch 1, 224 x 224, fp16, made-up weights) as 57 launches and as one persistent launch: tools/resident_study/README.md
//
// A layer is a list of tiles. `LAUNCHED` has a block for each tile and a launch for each layer. A resident block takes every
// gridDim.x-th tile of the whole network, in order. A tile waits only for tiles of earlier layers, so the earliest tile that isn't
// done can always run, if all blocks are on the device at once.
//
// No buffer is written twice in a request, so readers are never late.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string>
#include <vector>

typedef unsigned u32;
typedef unsigned long long u64;
const int THREADS = 128, STAGES = 4;
const int SLAB = 64, ROW = 2 * SLAB;  // halves of a row of a slab in shared memory, and its bytes: 8 chunks of 16
const int FLAG = 8;                   // words from a flag to the next
const int TILE_BYTES = STAGES * (64 + 64) * ROW;
const long long GUARD = 4000000000ll; // cycles of a wait, after which the kernel traps: 2 s

enum Kind { CONV_64X64, CONV_32X64, CONV_32X32, CONVERT, MAX_POOL, MEAN, LINEAR, KINDS };
enum Mode { LAUNCHED, BARRIER, FLAGS };

struct Layer {
    const half *input, *weights, *residual; // [pixel][channel], [output][k], as the output
    void *output;                           // half [pixel][output]; LINEAR: float
    const float *bias;
    float *partials;            // [tile][split][float4 of a thread][thread]
    u32 *arrivals;              // of each tile that is split, 0 between launches
    u32 *done;                  // tiles that are done of each row of tiles, of all requests
    const u32 *input_done, *residual_done;
    u32 input_target, residual_target; // tiles of a row of tiles of these layers
    int input_shift, residual_shift;   // log2 of the pixels of a row of tiles
    int index, kind, rows, first;      // rows of a tile; the first tile's number in the network
    int tiles, tiles_n, splits, slabs, k;
    int h, w, log_c; // input
    int wo, m, n;    // output: columns, pixels, channels
    int window, stride, pad, relu, unused;
};
static_assert(sizeof(Layer) == 176, "copied in 16 bytes");

struct Stamp {
    u64 begin, end, wait; // ns, ns, cycles of the first thread of each block
};
struct Run {
    u32 epoch; // request of this form, from 1
    int early; // 1: the first weights are asked for before the wait; 2: and the rest of them brought to the L2 cache
    Stamp *stamps;
    u32 *barriers, *report;
};
struct Turn {
    const Run &run;
    bool is_first; // of this block in this layer
};

// --- Waiting and telling -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ u64 global_ns() {
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
__device__ __forceinline__ u32 acquire(const u32 *word) {
    u32 value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

// Until the word has reached the target.
__device__ __forceinline__ void spin(const u32 *word, u32 target, const Run &run, int index) {
    if (int(acquire(word) - target) >= 0) return;
    const long long from = clock64();
    for (;;) {
        const u32 value = acquire(word);
        if (int(value - target) >= 0) return;
        if (clock64() - from < GUARD) continue;
        volatile u32 *report = run.report;
        report[1] = blockIdx.x, report[2] = index, report[3] = value, report[4] = target;
        __threadfence_system();
        report[0] = 1;
        __threadfence_system();
        __trap();
    }
}

// Until pixels lo..=hi of the input are there, and m0..=m1 of what is added. All threads come here. Returns cycles.
template <int MODE>
__device__ __forceinline__ long long await(const Layer &layer, const Turn &turn, int lo, int hi, int m0, int m1) {
    const Run &run = turn.run;
    const long long from = clock64();
    if (MODE == LAUNCHED) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (MODE == BARRIER) {
        const int before = layer.index - 1;
        if (turn.is_first && before >= 0 && threadIdx.x == 0)
            spin(run.barriers + before * FLAG, run.epoch * gridDim.x, run, layer.index);
        __syncthreads();
    }
    if (MODE == FLAGS) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (warp == 0 && layer.input_done)
            for (int i = (lo >> layer.input_shift) + lane; i <= hi >> layer.input_shift; i += 32)
                spin(layer.input_done + i * FLAG, run.epoch * layer.input_target, run, layer.index);
        if (warp == 1 && layer.residual_done)
            for (int i = (m0 >> layer.residual_shift) + lane; i <= m1 >> layer.residual_shift; i += 32)
                spin(layer.residual_done + i * FLAG, run.epoch * layer.residual_target, run, layer.index);
        __syncthreads();
    }
    return clock64() - from;
}
template <int MODE> __device__ __forceinline__ void let_next_start() {
    if (MODE == LAUNCHED) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// A tile of this row of tiles has been written. Shared memory is free behind it.
template <int MODE> __device__ __forceinline__ void publish(const Layer &layer, int row_tile) {
    if (MODE == LAUNCHED) return;
    __syncthreads();
    if (MODE == FLAGS && threadIdx.x == THREADS - 32 && layer.done) {
        __threadfence();
        atomicAdd(layer.done + row_tile * FLAG, 1u);
    }
}

// Whether all other splits of the tile have written their sums. Nobody waits.
__device__ __forceinline__ bool comes_last(u32 *arrivals, u32 splits) {
    __shared__ int last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(arrivals, 1u) == splits - 1;
        if (last) *arrivals = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// --- Tiles ---------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void copy16(u32 to, const half *from, bool is_inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_inside ? 16 : 0) : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
__device__ __forceinline__ void load_matrices(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void unpack(float (&to)[8], uint4 from) {
    const __half2 *pairs = reinterpret_cast<const __half2 *>(&from);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = __half22float2(pairs[i]);
        to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
    }
}

// Pixels of the input that output pixels m0..=m1 read; a few more where the stride is 2.
__device__ __forceinline__ void pixels_of(const Layer &layer, int m0, int m1, int &lo, int &hi) {
    if (layer.stride == 1) {
        const int reach = layer.pad * (layer.w + 1);
        lo = max(m0 - reach, 0), hi = min(m1 + reach, layer.h * layer.w - 1);
        return;
    }
    const int top = m0 / layer.wo * layer.stride - layer.pad;
    const int bottom = m1 / layer.wo * layer.stride - layer.pad + layer.window - 1;
    lo = max(top, 0) * layer.w, hi = min(bottom, layer.h - 1) * layer.w + layer.w - 1;
}

// Four warps, 2 x 2 over BM pixels and BN outputs.
template <int MODE, int BM, int BN>
__device__ __forceinline__ long long conv_tile(const Layer &layer, int tile, const Turn &turn, char *memory) {
    constexpr int MT = BM / 32, NT = BN / 16, STAGE = (BM + BN) * ROW, COPIED = THREADS / 8; // rows at a time
    constexpr int LINE = BN + 8, CHUNKS = BN / 8, STEP = THREADS / CHUNKS, EACH = BM / STEP; // of the end: 8 outputs a thread
    constexpr int GROUP = EACH >= 4 ? 1 : 4 / EACH; // splits that are asked for at once
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int splits = layer.splits, slabs = layer.slabs, k = layer.k;
    const int split = tile % splits, whole = tile / splits;
    const int row_tile = whole / layer.tiles_n, m0 = row_tile * BM, n0 = whole % layer.tiles_n * BN;
    const int begin = split * slabs / splits, end = (split + 1) * slabs / splits;
    const u32 base = (u32)__cvta_generic_to_shared(memory);

    // A thread copies chunk `chunk` of rows `row`, `row + 16`, ... Chunk c of row r lies at c ^ (r & 7).
    const int chunk = tid % 8, row = tid / 8;
    const u32 place = row * ROW + (chunk ^ (row & 7)) * 16;
    const half *weights = layer.weights + size_t(n0 + row) * k + chunk * 8;
    auto bring_weights = [&](int slab, int stage) {
#pragma unroll
        for (int i = 0; i < BN / COPIED; i++)
            copy16(base + stage * STAGE + BM * ROW + place + i * COPIED * ROW, weights + size_t(i) * COPIED * k + slab * SLAB, true);
    };
    const half *input = layer.input;
    const int h = layer.h, w = layer.w, log_c = layer.log_c, window = layer.window;
    int top[BM / COPIED], left[BM / COPIED]; // of the window of each of the thread's pixels
#pragma unroll
    for (int i = 0; i < BM / COPIED; i++) {
        const int pixel = m0 + row + i * COPIED, line = pixel / layer.wo;
        top[i] = pixel < layer.m ? line * layer.stride - layer.pad : -(1 << 20);
        left[i] = (pixel - line * layer.wo) * layer.stride - layer.pad;
    }
    // Where the chunk is in the window: with 64 channels or more a slab is part of a tap, with 8 it is eight taps.
    const int channels = 1 << log_c, at = begin * SLAB + chunk * 8;
    int channel = at & (channels - 1), down = (at >> log_c) / window, right = (at >> log_c) % window;
    auto bring_pixels = [&](int stage) { // of the next slab
#pragma unroll
        for (int i = 0; i < BM / COPIED; i++) {
            const int y = top[i] + down, x = left[i] + right;
            const bool is_inside = u32(y) < u32(h) && u32(x) < u32(w) && down < window;
            const int offset = is_inside ? ((y * w + x) << log_c) + channel : 0;
            copy16(base + stage * STAGE + place + i * COPIED * ROW, input + offset, is_inside);
        }
        if (log_c >= 6) {
            channel += SLAB;
            if (channel >= channels) channel -= channels, right++;
        } else {
            down++, right++; // 8 taps are a line of 7 and one
        }
        if (right >= window) right -= window, down++;
    };

    if (turn.run.early)
        for (int stage = 0; stage < STAGES - 1; stage++)
            if (begin + stage < end) bring_weights(begin + stage, stage);
    if (turn.run.early > 1)
        for (int i = tid; i < BN * (end - begin - (STAGES - 1)); i += THREADS) {
            const half *line = layer.weights + size_t(n0 + i % BN) * k + (begin + STAGES - 1 + i / BN) * SLAB;
            asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
        }
    const int column = tid % CHUNKS * 8;
    const float4 *bias = reinterpret_cast<const float4 *>(layer.bias + n0 + column);
    const float4 bias0 = __ldg(bias), bias1 = __ldg(bias + 1);
    const int m1 = min(m0 + BM, layer.m) - 1;
    int lo, hi;
    pixels_of(layer, m0, m1, lo, hi);
    const long long waited = await<MODE>(layer, turn, lo, hi, m0, m1);

    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (begin + stage < end) {
            if (!turn.run.early) bring_weights(begin + stage, stage);
            bring_pixels(stage);
        }
        end_copies();
    }
    uint4 residual[EACH];
    auto bring_residual = [&]() {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int pixel = m0 + tid / CHUNKS + e * STEP;
            residual[e] = make_uint4(0, 0, 0, 0);
            if (layer.residual && pixel < layer.m)
                residual[e] = __ldcg(reinterpret_cast<const uint4 *>(layer.residual + size_t(pixel) * layer.n + n0 + column));
        }
    };
    if (splits == 1) bring_residual();

    const int wm = warp % 2 * (BM / 2), wn = warp / 2 * (BN / 2); // corner of the warp's part
    const u32 a_row = (wm + lane % 16) * ROW, b_row = (BM + wn + lane / 16 * 8 + lane % 8) * ROW;
    float sums[MT][NT][4] = {};
    for (int slab = begin, reading = 0, writing = STAGES - 1; slab < end; slab++) {
        wait_copies<STAGES - 2>();
        __syncthreads(); // the slab is here, and all have read the one before
        if (slab + STAGES - 1 < end) {
            bring_weights(slab + STAGES - 1, writing);
            bring_pixels(writing);
        }
        end_copies();
        const u32 stage = base + reading * STAGE;
#pragma unroll
        for (int step = 0; step < SLAB / 16; step++) {
            u32 a[MT][4], b[NT / 2][4];
            const u32 a_chunk = ((2 * step + lane / 16) ^ (lane & 7)) * 16, b_chunk = ((2 * step + lane / 8 % 2) ^ (lane & 7)) * 16;
#pragma unroll
            for (int i = 0; i < MT; i++) load_matrices(a[i], stage + a_row + 16 * i * ROW + a_chunk);
#pragma unroll
            for (int j = 0; j < NT / 2; j++) load_matrices(b[j], stage + b_row + 16 * j * ROW + b_chunk);
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < NT; j++) multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
        reading = reading == STAGES - 1 ? 0 : reading + 1;
        writing = writing == STAGES - 1 ? 0 : writing + 1;
    }
    let_next_start<MODE>();

    // The sums go through shared memory, so that a thread has eight adjoining outputs.
    __syncthreads();
    float *shared = reinterpret_cast<float *>(memory);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float *corner = shared + (wm + 16 * i + lane / 4) * LINE + wn + 8 * j + lane % 4 * 2;
            *reinterpret_cast<float2 *>(corner) = make_float2(sums[i][j][0], sums[i][j][1]);
            *reinterpret_cast<float2 *>(corner + 8 * LINE) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
    __syncthreads();
    float4 mine[EACH][2];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const float *from = shared + (tid / CHUNKS + e * STEP) * LINE + column;
        mine[e][0] = *reinterpret_cast<const float4 *>(from);
        mine[e][1] = *reinterpret_cast<const float4 *>(from + 4);
    }
    if (splits > 1) {
        float4 *parts = reinterpret_cast<float4 *>(layer.partials) + size_t(whole) * splits * (2 * EACH * THREADS) + tid;
#pragma unroll
        for (int e = 0; e < 2 * EACH; e++) __stcg(parts + (split * 2 * EACH + e) * THREADS, mine[e / 2][e % 2]);
        if (!comes_last(layer.arrivals + whole, splits)) return waited;
        bring_residual();
#pragma unroll
        for (int e = 0; e < 2 * EACH; e++) mine[e / 2][e % 2] = make_float4(0, 0, 0, 0);
        for (int first = 0; first < splits; first += GROUP) {
            float4 part[GROUP][2 * EACH];
#pragma unroll
            for (int g = 0; g < GROUP; g++)
#pragma unroll
                for (int e = 0; e < 2 * EACH; e++)
                    if (first + g < splits) part[g][e] = __ldcg(parts + ((first + g) * 2 * EACH + e) * THREADS);
#pragma unroll
            for (int g = 0; g < GROUP; g++)
#pragma unroll
                for (int e = 0; e < 2 * EACH; e++)
                    if (first + g < splits) {
                        float4 &sum = mine[e / 2][e % 2];
                        const float4 &more = part[g][e];
                        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
                    }
        }
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int pixel = m0 + tid / CHUNKS + e * STEP;
        const float4 x = mine[e][0], y = mine[e][1];
        float value[8] = {x.x + bias0.x, x.y + bias0.y, x.z + bias0.z, x.w + bias0.w,
                          y.x + bias1.x, y.y + bias1.y, y.z + bias1.z, y.w + bias1.w};
        float added[8];
        unpack(added, residual[e]);
        uint4 packed;
        __half2 *pairs = reinterpret_cast<__half2 *>(&packed);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            value[i] += added[i];
            if (layer.relu) value[i] = fmaxf(value[i], 0.f);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) pairs[i] = __floats2half2_rn(value[2 * i], value[2 * i + 1]);
        if (pixel < layer.m) *reinterpret_cast<uint4 *>((half *)layer.output + size_t(pixel) * layer.n + n0 + column) = packed;
    }
    publish<MODE>(layer, row_tile);
    return waited;
}

// 1024 pixels of 3 channels become 1024 of 8.
template <int MODE> __device__ __forceinline__ long long convert_tile(const Layer &layer, int tile, const Turn &turn, char *memory) {
    const long long waited = await<MODE>(layer, turn, 0, 0, 0, 0);
    let_next_start<MODE>();
    const uint4 *from = reinterpret_cast<const uint4 *>(layer.input) + tile * 384;
    uint4 *raw = reinterpret_cast<uint4 *>(memory);
#pragma unroll
    for (int i = 0; i < 3; i++) raw[threadIdx.x + i * THREADS] = __ldcv(from + threadIdx.x + i * THREADS);
    __syncthreads();
    const unsigned short *halves = reinterpret_cast<const unsigned short *>(memory);
    uint4 *to = reinterpret_cast<uint4 *>(layer.output) + tile * 1024;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int pixel = i * THREADS + threadIdx.x;
        const unsigned short *three = halves + 3 * pixel;
        to[pixel] = make_uint4(u32(three[0]) | u32(three[1]) << 16, three[2], 0, 0);
    }
    publish<MODE>(layer, tile);
    return waited;
}

// 16 pixels of 64 channels, of 3 x 3 each.
template <int MODE> __device__ __forceinline__ long long max_pool_tile(const Layer &layer, int tile, const Turn &turn) {
    const int pixel = tile * 16 + threadIdx.x / 8, chunk = threadIdx.x % 8;
    int lo, hi;
    pixels_of(layer, tile * 16, tile * 16 + 15, lo, hi);
    const long long waited = await<MODE>(layer, turn, lo, hi, 0, 0);
    let_next_start<MODE>();
    const int top = pixel / layer.wo * 2 - 1, left = pixel % layer.wo * 2 - 1;
    __half2 best[4];
#pragma unroll
    for (int i = 0; i < 4; i++) best[i] = __float2half2_rn(-65504.f);
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
        const int y = top + tap / 3, x = left + tap % 3;
        if (u32(y) >= u32(layer.h) || u32(x) >= u32(layer.w)) continue;
        const uint4 value = __ldcg(reinterpret_cast<const uint4 *>(layer.input + (y * layer.w + x) * 64 + chunk * 8));
        const __half2 *pairs = reinterpret_cast<const __half2 *>(&value);
#pragma unroll
        for (int i = 0; i < 4; i++) best[i] = __hmax2(best[i], pairs[i]);
    }
    uint4 packed;
    __half2 *pairs = reinterpret_cast<__half2 *>(&packed);
#pragma unroll
    for (int i = 0; i < 4; i++) pairs[i] = best[i];
    *reinterpret_cast<uint4 *>((half *)layer.output + pixel * 64 + chunk * 8) = packed;
    publish<MODE>(layer, tile);
    return waited;
}

// The means of 64 channels.
template <int MODE> __device__ __forceinline__ long long mean_tile(const Layer &layer, int tile, const Turn &turn, char *memory) {
    const int pixels = layer.h * layer.w, chunk = threadIdx.x % 8, part = threadIdx.x / 8;
    const long long waited = await<MODE>(layer, turn, 0, pixels - 1, 0, 0);
    let_next_start<MODE>();
    float sum[8] = {};
    for (int pixel = part; pixel < pixels; pixel += 16) {
        float value[8];
        unpack(value, __ldcg(reinterpret_cast<const uint4 *>(layer.input + (pixel << layer.log_c) + tile * 64 + chunk * 8)));
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += value[i];
    }
    float *shared = reinterpret_cast<float *>(memory);
#pragma unroll
    for (int i = 0; i < 8; i++) shared[part * 64 + chunk * 8 + i] = sum[i];
    __syncthreads();
    if (threadIdx.x < 64) {
        float all = 0;
        for (int i = 0; i < 16; i++) all += shared[i * 64 + threadIdx.x];
        ((half *)layer.output)[tile * 64 + threadIdx.x] = __float2half_rn(all / pixels);
    }
    publish<MODE>(layer, 0);
    return waited;
}

// 8 outputs of 2048 terms, two of each warp.
template <int MODE> __device__ __forceinline__ long long linear_tile(const Layer &layer, int tile, const Turn &turn) {
    const int lane = threadIdx.x % 32, first = tile * 8 + threadIdx.x / 32 * 2;
    uint4 weights[2][8];
#pragma unroll
    for (int o = 0; o < 2; o++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            weights[o][i] = __ldg(reinterpret_cast<const uint4 *>(layer.weights + size_t(first + o) * layer.k) + i * 32 + lane);
    const long long waited = await<MODE>(layer, turn, 0, 0, 0, 0);
    let_next_start<MODE>();
    float sums[2] = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float x[8], y[8];
        unpack(x, __ldcg(reinterpret_cast<const uint4 *>(layer.input) + i * 32 + lane));
#pragma unroll
        for (int o = 0; o < 2; o++) {
            unpack(y, weights[o][i]);
#pragma unroll
            for (int e = 0; e < 8; e++) sums[o] = fmaf(x[e], y[e], sums[o]);
        }
    }
#pragma unroll
    for (int o = 0; o < 2; o++) {
#pragma unroll
        for (int far = 16; far > 0; far /= 2) sums[o] += __shfl_xor_sync(~0u, sums[o], far);
        if (lane == 0) ((float *)layer.output)[first + o] = sums[o] + layer.bias[first + o];
    }
    publish<MODE>(layer, 0);
    return waited;
}

template <int MODE, int KIND>
__device__ __forceinline__ void run_tile(const Layer &layer, int tile, const Turn &turn, char *memory) {
    Stamp *stamps = turn.run.stamps;
    const u64 begin = stamps ? global_ns() : 0;
    long long waited = 0;
    if constexpr (KIND == CONV_64X64) waited = conv_tile<MODE, 64, 64>(layer, tile, turn, memory);
    if constexpr (KIND == CONV_32X64) waited = conv_tile<MODE, 32, 64>(layer, tile, turn, memory);
    if constexpr (KIND == CONV_32X32) waited = conv_tile<MODE, 32, 32>(layer, tile, turn, memory);
    if constexpr (KIND == CONVERT) waited = convert_tile<MODE>(layer, tile, turn, memory);
    if constexpr (KIND == MAX_POOL) waited = max_pool_tile<MODE>(layer, tile, turn);
    if constexpr (KIND == MEAN) waited = mean_tile<MODE>(layer, tile, turn, memory);
    if constexpr (KIND == LINEAR) waited = linear_tile<MODE>(layer, tile, turn);
    if (!stamps || threadIdx.x) return;
    atomicMin(&stamps[layer.index].begin, begin);
    atomicMax(&stamps[layer.index].end, global_ns());
    atomicAdd(&stamps[layer.index].wait, u64(waited));
}

extern __shared__ __align__(128) char memory[];
template <int KIND>
__global__ void __launch_bounds__(THREADS, 3) launched(const __grid_constant__ Layer layer, const __grid_constant__ Run run) {
    const Turn turn{run, true};
    run_tile<LAUNCHED, KIND>(layer, blockIdx.x, turn, memory);
}
template <int MODE>
__global__ void __launch_bounds__(THREADS, 3) resident(const Layer *table, int layers, const __grid_constant__ Run run) {
    Layer *near = reinterpret_cast<Layer *>(memory + TILE_BYTES);
    for (int i = threadIdx.x; i < layers * int(sizeof(Layer) / 16); i += THREADS)
        reinterpret_cast<uint4 *>(near)[i] = reinterpret_cast<const uint4 *>(table)[i];
    __syncthreads();
    int next = blockIdx.x;
    for (int l = 0; l < layers; l++) {
        const Layer &layer = near[l];
        const int first = layer.first, behind = first + layer.tiles, kind = layer.kind;
        for (bool is_first = true; next < behind; next += int(gridDim.x), is_first = false) {
            const Turn turn{run, is_first};
            const int tile = next - first;
            switch (kind) {
            case CONV_64X64: run_tile<MODE, CONV_64X64>(layer, tile, turn, memory); break;
            case CONV_32X64: run_tile<MODE, CONV_32X64>(layer, tile, turn, memory); break;
            case CONV_32X32: run_tile<MODE, CONV_32X32>(layer, tile, turn, memory); break;
            case CONVERT: run_tile<MODE, CONVERT>(layer, tile, turn, memory); break;
            case MAX_POOL: run_tile<MODE, MAX_POOL>(layer, tile, turn, memory); break;
            case MEAN: run_tile<MODE, MEAN>(layer, tile, turn, memory); break;
            default: run_tile<MODE, LINEAR>(layer, tile, turn, memory);
            }
        }
        if (MODE == BARRIER && threadIdx.x == 0) { // a tile ends with all threads
            __threadfence();
            atomicAdd(run.barriers + l * FLAG, 1u);
        }
    }
}

// --- What is compared ----------------------------------------------------------------------------------------------------------

struct Wrong {
    u32 count, worst; // bits of the largest error, which isn't negative
    float size;       // sum of the outputs' sizes
};
// Each output by plain loops in fp32, from the inputs that the layer had.
__global__ void reference(const __grid_constant__ Layer layer, Wrong *wrong) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= layer.m * layer.n) return;
    const int m = i / layer.n, o = i % layer.n, c = 1 << layer.log_c;
    const half *input = layer.input;
    float want = 0;
    if (layer.kind == CONVERT) {
        want = o < 3 ? __half2float(input[m * 3 + o]) : 0.f;
    } else if (layer.kind == MEAN) {
        for (int pixel = 0; pixel < layer.h * layer.w; pixel++) want += __half2float(input[pixel * c + o]);
        want /= layer.h * layer.w;
    } else if (layer.kind == LINEAR) {
        for (int k = 0; k < layer.k; k++) want += __half2float(input[k]) * __half2float(layer.weights[size_t(o) * layer.k + k]);
        want += layer.bias[o];
    } else {
        const bool is_pool = layer.kind == MAX_POOL;
        if (is_pool) want = -65504.f;
        for (int r = 0; r < layer.window; r++)
            for (int s = 0; s < layer.window; s++) {
                const int y = m / layer.wo * layer.stride - layer.pad + r, x = m % layer.wo * layer.stride - layer.pad + s;
                if (y < 0 || y >= layer.h || x < 0 || x >= layer.w) continue;
                const half *pixel = input + size_t(y * layer.w + x) * c;
                if (is_pool) {
                    want = fmaxf(want, __half2float(pixel[o]));
                    continue;
                }
                const half *weights = layer.weights + size_t(o) * layer.k + (r * layer.window + s) * c;
                for (int k = 0; k < c; k++) want += __half2float(pixel[k]) * __half2float(weights[k]);
            }
        if (!is_pool) want += layer.bias[o];
        if (layer.residual) want += __half2float(layer.residual[size_t(m) * layer.n + o]);
        if (layer.relu) want = fmaxf(want, 0.f);
    }
    const float got = layer.kind == LINEAR ? ((const float *)layer.output)[o] : __half2float(((const half *)layer.output)[i]);
    const float off = fabsf(got - want);
    if (!(off <= 2e-3f + 2e-3f * fabsf(want))) atomicAdd(&wrong->count, 1u);
    atomicMax(&wrong->worst, __float_as_uint(off));
    atomicAdd(&wrong->size, fabsf(got));
}
__global__ void compare(const u32 *one, const u32 *other, size_t words, u32 *different) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += size_t(gridDim.x) * blockDim.x)
        if (one[i] != other[i]) atomicAdd(different, 1u);
}
__device__ float made_up(u32 i, u32 seed) { // -1 to 1
    u32 x = (i ^ seed * 0x9e3779b9u) * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0xc2b2ae35u;
    x = (x ^ x >> 13) * 0x27d4eb2fu;
    return float((x ^ x >> 16) >> 8) * (2.f / 16777216.f) - 1.f;
}
__global__ void make_halves(half *to, int count, int k, int c, int real_c, int taps, float scale, u32 seed) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int at = i % k;
    to[i] = __float2half_rn(at / c < taps && at % c < real_c ? scale * made_up(i, seed) : 0.f);
}
__global__ void make_floats(float *to, int count, float scale, u32 seed) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = scale * made_up(i, seed);
}

// --- The network ---------------------------------------------------------------------------------------------------------------

static volatile u32 *report; // of a deadlock: 1, and what `spin` writes
static u32 *report_device;
static void check(cudaError_t code, const char *call, int line) {
    if (code == cudaSuccess) return;
    std::printf("study.cu:%d: %s: %s\n", line, call, cudaGetErrorString(code));
    if (report && report[0])
        std::printf("deadlock: block %u at layer %u waited 2 s for a word that was %u and must be %u\n", report[1], report[2],
                    report[3], report[4]);
    std::exit(1);
}
#define CHECK(call) check((call), #call, __LINE__)

struct Node {
    std::string name;
    int kind, input, residual;
    Layer layer; // but for what a plan says
    size_t offset; // of the output in the arena
};
static std::vector<Node> nodes;
static size_t arena_bytes;
static char *arena;
static half *image;        // on the device
static half *images[2];    // in the host's memory, which the device can read
static float *host_logits; // and write
static Stamp *stamps;
static u32 *barriers, *different;
static Wrong *wrong;
static cudaStream_t stream;
static cudaEvent_t begun, ended;
static int units;

template <class T> static T *device_memory(size_t count) {
    T *memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    CHECK(cudaDeviceSynchronize()); // `stream` doesn't wait for this one
    return memory;
}
static int log2_of(int power) { return power <= 1 ? 0 : 1 + log2_of(power / 2); }
static bool is_conv(int kind) { return kind <= CONV_32X32; }

static int add(const std::string &name, int kind, int input, int residual, int c, int n, int window, int stride, bool relu, float gain) {
    Node node{name, kind, input, residual, Layer{}, 0};
    Layer &l = node.layer;
    l.index = int(nodes.size());
    const Layer *before = input < 0 ? nullptr : &nodes[input].layer;
    l.w = before ? before->wo : 224, l.h = before ? before->m / before->wo : 224;
    l.log_c = log2_of(c), l.n = n, l.window = window, l.stride = stride, l.pad = (window - 1) / 2, l.relu = relu;
    const int ho = (l.h + 2 * l.pad - window) / stride + 1;
    l.wo = (l.w + 2 * l.pad - window) / stride + 1, l.m = ho * l.wo;
    if (kind == MEAN || kind == LINEAR) l.wo = l.m = 1;
    if (is_conv(kind) || kind == LINEAR) {
        const int taps = window * window, real_c = c == 8 ? 3 : c;
        l.k = (taps * c + SLAB - 1) / SLAB * SLAB, l.slabs = l.k / SLAB;
        half *weights = device_memory<half>(size_t(n) * l.k);
        float *bias = device_memory<float>(n);
        const float scale = gain * std::sqrt(6.f / float(taps * real_c));
        make_halves<<<(n * l.k + 255) / 256, 256, 0, stream>>>(weights, n * l.k, l.k, c, real_c, taps, scale, 2 * l.index + 1);
        make_floats<<<(n + 255) / 256, 256, 0, stream>>>(bias, n, 0.1f, 2 * l.index + 2);
        CHECK(cudaGetLastError());
        l.weights = weights, l.bias = bias;
    }
    node.offset = arena_bytes;
    arena_bytes += (size_t(l.m) * n * (kind == LINEAR ? 4 : 2) + 255) / 256 * 256;
    nodes.push_back(node);
    return l.index;
}
static void build() {
    int x = add("convert", CONVERT, -1, -1, 8, 8, 1, 1, false, 0);
    x = add("conv1", CONV_64X64, x, -1, 8, 64, 7, 2, true, 1);
    x = add("max_pool", MAX_POOL, x, -1, 64, 64, 3, 2, false, 0);
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 0, c = 64; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            const int narrow = 64 << stage, stride = block == 0 && stage > 0 ? 2 : 1;
            const std::string name = std::to_string(stage + 1) + "." + std::to_string(block) + ".";
            const int first = add(name + "conv1", CONV_64X64, x, -1, c, narrow, 1, 1, true, 1);
            const int added = block == 0 ? add(name + "down", CONV_64X64, x, -1, c, 4 * narrow, 1, stride, false, 0.7f) : x;
            const int second = add(name + "conv2", CONV_64X64, first, -1, narrow, narrow, 3, stride, true, 1);
            x = add(name + "conv3", CONV_64X64, second, added, narrow, 4 * narrow, 1, 1, true, 0.3f);
            c = 4 * narrow;
        }
    x = add("mean", MEAN, x, -1, 2048, 2048, 1, 1, false, 0);
    add("linear", LINEAR, x, -1, 2048, 1000, 1, 1, false, 0.7f);
    arena = device_memory<char>(arena_bytes);
}

// --- Plans and forms -----------------------------------------------------------------------------------------------------------

const int ROWS[KINDS] = {64, 32, 32, 1024, 16, 1, 1};
const int OUTPUTS[] = {64, 64, 32};
const double SLAB_US[] = {.13, .10, .09}; // guesses
const char *TILES[KINDS] = {"64x64", "32x64", "32x32", "", "", "", ""};
const int SHARED[KINDS] = {STAGES * 128 * ROW, STAGES * 96 * ROW, STAGES * 64 * ROW, 8192, 0, 8192, 0};
static void (*const KERNELS[KINDS])(Layer, Run) = {launched<CONV_64X64>, launched<CONV_32X64>, launched<CONV_32X32>, launched<CONVERT>,
                                                   launched<MAX_POOL>,   launched<MEAN>,       launched<LINEAR>};

struct Form {
    const char *name;
    Mode mode;
    bool starts_early; // LAUNCHED: programmatic dependent launch
    int early;
    bool is_cooperative;
};
const Form FORMS[] = {{"launched", LAUNCHED, false, 1, false},        {"launched, early start", LAUNCHED, true, 1, false},
                      {"barrier", BARRIER, false, 0, true},           {"barrier, weights early", BARRIER, false, 1, true},
                      {"flags", FLAGS, false, 0, true},               {"flags, weights early", FLAGS, false, 1, true},
                      {"flags, weights early + L2", FLAGS, false, 2, true}, {"the same, plain launch", FLAGS, false, 2, false}};
const int BEST = 6;
const char *BUFFERS[] = {"device", "host"}; // where the image and the answer are

struct Plan {
    int per_unit, grid; // resident blocks of a multiprocessor, and of all
    double split_us;    // guess at what it costs to split a sum
    std::vector<Layer> layers[2]; // by where the image and the answer are
    Layer *tables[2];
    u32 epochs[3] = {0, 0, 0}; // by mode
    cudaGraphExec_t graphs[2][2][2] = {}; // starts early, buffers, stamped
};

// The tile and the splits for which a rough model has the least time.
static void choose(Layer &l, int per_unit, double split_us) {
    double least = 1e9;
    for (int kind = CONV_64X64; kind <= CONV_32X32; kind++)
        for (int splits : {1, 2, 3, 4, 6, 8}) {
            if (splits > l.slabs) continue;
            const int tiles = (l.m + ROWS[kind] - 1) / ROWS[kind] * (l.n / OUTPUTS[kind]) * splits;
            const int slabs = (l.slabs + splits - 1) / splits, rounds = (tiles + units * per_unit - 1) / (units * per_unit);
            const double bytes = double((tiles + units - 1) / units) * slabs * (ROWS[kind] + OUTPUTS[kind]) * ROW;
            double us = std::max(rounds * (0.8 + slabs * SLAB_US[kind]), bytes / 95e3); // 48 bytes a cycle
            if (splits > 1) us += split_us + 0.05 * splits;
            if (us < least) least = us, l.kind = kind, l.splits = splits;
        }
}
static Plan make_plan(int per_unit, double split_us) {
    Plan plan;
    plan.per_unit = per_unit, plan.split_us = split_us, plan.grid = per_unit * units;
    std::vector<Layer> layers;
    int first = 0;
    size_t partial_bytes = 0;
    for (const Node &node : nodes) {
        Layer l = node.layer;
        l.kind = node.kind, l.splits = 1;
        int tiles_m = 1, tiles_n = 1;
        if (is_conv(l.kind)) {
            choose(l, per_unit, split_us);
            tiles_m = (l.m + ROWS[l.kind] - 1) / ROWS[l.kind], tiles_n = l.n / OUTPUTS[l.kind];
        } else if (l.kind == CONVERT || l.kind == MAX_POOL) {
            tiles_m = l.m / ROWS[l.kind];
        } else {
            tiles_n = l.kind == MEAN ? l.n / 64 : l.n / 8;
        }
        l.rows = ROWS[l.kind], l.tiles_n = tiles_n, l.tiles = tiles_m * tiles_n * l.splits, l.first = first;
        first += l.tiles;
        if (l.splits > 1) {
            const size_t floats = size_t(l.tiles) * ROWS[l.kind] * OUTPUTS[l.kind];
            l.partials = device_memory<float>(floats), partial_bytes += floats * 4;
            l.arrivals = device_memory<u32>(tiles_m * tiles_n);
        }
        l.done = device_memory<u32>(tiles_m * FLAG);
        l.output = arena + node.offset, l.input = image;
        if (node.input >= 0) {
            const Layer &in = layers[node.input];
            l.input = (const half *)in.output, l.input_done = in.done, l.input_target = in.tiles_n, l.input_shift = log2_of(in.rows);
        }
        if (node.residual >= 0) {
            const Layer &in = layers[node.residual];
            l.residual = (const half *)in.output, l.residual_done = in.done;
            l.residual_target = in.tiles_n, l.residual_shift = log2_of(in.rows);
        }
        layers.push_back(l);
    }
    plan.layers[0] = plan.layers[1] = layers;
    void *device = nullptr;
    CHECK(cudaHostGetDevicePointer(&device, images[0], 0));
    plan.layers[1].front().input = (const half *)device;
    CHECK(cudaHostGetDevicePointer(&device, host_logits, 0));
    plan.layers[1].back().output = device;
    for (int i = 0; i < 2; i++) {
        plan.tables[i] = device_memory<Layer>(layers.size());
        CHECK(cudaMemcpy(plan.tables[i], plan.layers[i].data(), layers.size() * sizeof(Layer), cudaMemcpyHostToDevice));
    }
    CHECK(cudaMemset(barriers, 0, nodes.size() * FLAG * 4));
    CHECK(cudaDeviceSynchronize());
    std::printf("plan for %d blocks of a multiprocessor, splits at %g us: %d tiles, %.1f MB of partial sums\n", per_unit, split_us, first,
                partial_bytes / 1e6);
    return plan;
}

static Run run_of(const Form &form, bool is_stamped) {
    return Run{0, form.early, is_stamped ? stamps : nullptr, barriers, report_device};
}
static cudaGraphExec_t capture(const Plan &plan, const Form &form, int buffers, bool is_stamped) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    const Run run = run_of(form, is_stamped);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (const Layer &layer : plan.layers[buffers]) {
        cudaLaunchAttribute attribute;
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(layer.tiles), config.blockDim = dim3(THREADS), config.stream = stream;
        config.dynamicSmemBytes = SHARED[layer.kind];
        config.attrs = &attribute, config.numAttrs = form.starts_early && layer.index > 0 ? 1 : 0;
        CHECK(cudaLaunchKernelEx(&config, KERNELS[layer.kind], layer, run));
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    return exec;
}
static int resident_shared() { return TILE_BYTES + int(nodes.size() * sizeof(Layer)); }
static void launch(Plan &plan, const Form &form, int buffers, bool is_stamped = false) {
    if (form.mode == LAUNCHED) {
        cudaGraphExec_t &exec = plan.graphs[form.starts_early][buffers][is_stamped];
        if (!exec) exec = capture(plan, form, buffers, is_stamped);
        CHECK(cudaGraphLaunch(exec, stream));
        return;
    }
    Run run = run_of(form, is_stamped);
    run.epoch = ++plan.epochs[form.mode];
    const Layer *table = plan.tables[buffers];
    int layers = int(nodes.size());
    void *arguments[] = {&table, &layers, &run};
    auto kernel = resident<FLAGS>;
    if (form.mode == BARRIER) kernel = resident<BARRIER>;
    const void *entry = (const void *)kernel;
    const dim3 grid(plan.grid), block(THREADS);
    const size_t shared = size_t(resident_shared());
    if (form.is_cooperative) {
        CHECK(cudaLaunchCooperativeKernel(entry, grid, block, arguments, shared, stream));
    } else {
        CHECK(cudaLaunchKernel(entry, grid, block, arguments, shared, stream));
    }
}

// --- Checks and times ----------------------------------------------------------------------------------------------------------

static u32 bad; // checks that failed
static void set_image(int which) {
    CHECK(cudaMemcpyAsync(image, images[which], 224 * 224 * 3 * sizeof(half), cudaMemcpyHostToDevice, stream));
}
static void check_layers(const Plan &plan) {
    double worst = 0, size = 0;
    u32 layers_wrong = 0;
    for (const Layer &layer : plan.layers[0]) {
        Wrong found = {};
        CHECK(cudaMemsetAsync(wrong, 0, sizeof(Wrong), stream));
        reference<<<(layer.m * layer.n + 127) / 128, 128, 0, stream>>>(layer, wrong);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        float off;
        std::memcpy(&off, &found.worst, 4);
        worst = std::max(worst, double(off)), size = found.size / (double(layer.m) * layer.n);
        if (found.count == 0 && size > 1e-3 && size < 1e3) continue;
        layers_wrong++;
        std::printf("WRONG: layer %s: %u of %d outputs are off, the worst by %g; mean size %g\n", nodes[layer.index].name.c_str(),
                    found.count, layer.m * layer.n, off, size);
    }
    bad += layers_wrong;
    std::printf("launched form against plain loops: %u of %zu layers wrong, largest error %g, mean size of the logits %g\n", layers_wrong,
                nodes.size(), worst, size);
}
// Two images in turns, so that what an earlier request left is wrong; half of the times all outputs are set to NaN before.
static void check_forms(Plan &plan) {
    char *kept[2];
    for (int i = 0; i < 2; i++) {
        kept[i] = device_memory<char>(arena_bytes);
        set_image(i);
        CHECK(cudaMemsetAsync(arena, 0xff, arena_bytes, stream));
        launch(plan, FORMS[0], 0);
        CHECK(cudaMemcpyAsync(kept[i], arena, arena_bytes, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        check_layers(plan);
    }
    for (const Form &form : FORMS) {
        u32 found = 0;
        CHECK(cudaMemsetAsync(different, 0, 4, stream));
        for (int i = 0; i < 80; i++) {
            set_image(i % 2);
            if (i % 4 < 2) CHECK(cudaMemsetAsync(arena, 0xff, arena_bytes, stream));
            launch(plan, form, 0);
            compare<<<4 * units, 256, 0, stream>>>((const u32 *)arena, (const u32 *)kept[i % 2], arena_bytes / 4, different);
            CHECK(cudaGetLastError());
        }
        CHECK(cudaMemcpyAsync(&found, different, 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        bad += found > 0;
        std::printf("%s%s: %u words of 80 requests differ from the launched form\n", found ? "WRONG: " : "", form.name, found);
    }
    // The same through the host's memory.
    std::vector<float> want(1000);
    CHECK(cudaMemcpy(want.data(), kept[0] + nodes.back().offset, 4000, cudaMemcpyDeviceToHost));
    for (const Form &form : FORMS) {
        std::memset(host_logits, 0xff, 4000);
        launch(plan, form, 1);
        CHECK(cudaStreamSynchronize(stream));
        if (std::memcmp(host_logits, want.data(), 4000) == 0) continue;
        bad++;
        std::printf("WRONG: %s: logits in the host's memory differ\n", form.name);
    }
    set_image(0);
    for (char *memory : kept) CHECK(cudaFree(memory));
}

static double now_us() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static double part(std::vector<double> times, double p) {
    std::sort(times.begin(), times.end());
    return times[std::min(times.size() - 1, size_t(times.size() * p))];
}
// Rows of the table. Returns the median from the host's first call to its return from the wait.
static double measure(Plan &plan, const Form &form, int buffers) {
    std::vector<double> host, device;
    for (int i = 0; i < 550; i++) {
        const double from = now_us();
        launch(plan, form, buffers);
        CHECK(cudaStreamSynchronize(stream));
        if (i >= 50) host.push_back(now_us() - from);
    }
    for (int i = 0; i < 550; i++) {
        float ms = 0;
        CHECK(cudaEventRecord(begun, stream));
        launch(plan, form, buffers);
        CHECK(cudaEventRecord(ended, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, begun, ended));
        if (i >= 50) device.push_back(ms * 1e3);
    }
    std::printf("%d\t%g\t%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\n", plan.per_unit, plan.split_us, BUFFERS[buffers], form.name, part(device, .5),
                part(device, .99), part(host, .5), part(host, .99));
    return part(host, .5);
}

// How long after the end of all earlier layers each layer ended, and what its blocks waited, in µs; means of 20 requests.
static void profile(Plan &plan, const Form &form, std::vector<double> &steps, std::vector<double> &waits, double khz) {
    const size_t count = nodes.size();
    std::vector<Stamp> seen(count), empty(count, Stamp{~0ull, 0, 0});
    steps.assign(count, 0), waits.assign(count, 0);
    for (int i = 0; i < 25; i++) {
        CHECK(cudaMemcpyAsync(stamps, empty.data(), count * sizeof(Stamp), cudaMemcpyHostToDevice, stream));
        launch(plan, form, 0, true);
        CHECK(cudaMemcpyAsync(seen.data(), stamps, count * sizeof(Stamp), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        u64 high = seen[0].begin;
        for (size_t l = 0; l < count; l++) {
            if (i >= 5 && seen[l].end > high) steps[l] += double(seen[l].end - high) * 1e-3 / 20;
            if (i >= 5) waits[l] += double(seen[l].wait) / khz * 1e3 / 20;
            high = std::max(high, seen[l].end);
        }
    }
}
static void profiles(Plan &plan, double khz) {
    const int which[] = {0, 1, 3, BEST};
    std::vector<double> steps[4], waits[4];
    for (int i = 0; i < 4; i++) profile(plan, FORMS[which[i]], steps[i], waits[i], khz);
    std::printf("layers, %d blocks of a multiprocessor, splits at %g us: us from the end of all earlier layers to the layer's end; with flags also what all "
                "tiles waited, and each\nlayer\ttile\ttiles\tsplits\tslabs\tlaunched\tearly_start\tbarrier\tflags\tflags_wait\tflags_wait_each\n",
                plan.per_unit, plan.split_us);
    double sums[5] = {};
    for (const Layer &l : plan.layers[0]) {
        const int i = l.index;
        std::printf("%s\t%s\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.2f\n", nodes[i].name.c_str(), TILES[l.kind], l.tiles, l.splits,
                    l.slabs, steps[0][i], steps[1][i], steps[2][i], steps[3][i], waits[3][i], waits[3][i] / l.tiles);
        for (int f = 0; f < 4; f++) sums[f] += steps[f][i];
        sums[4] += waits[3][i];
    }
    std::printf("all\t\t\t\t\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f of each resident block\n", sums[0], sums[1], sums[2], sums[3], sums[4],
                sums[4] / plan.grid);
}

template <class T> static void allow(T *kernel, int bytes) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
}

int main() {
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const double start = now_us();
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    CHECK(cudaSetDevice(0));
    cudaDeviceProp facts;
    CHECK(cudaGetDeviceProperties(&facts, 0));
    int khz = 0, cooperative = 0;
    CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
    units = facts.multiProcessorCount;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreate(&ended));
    u32 *words = nullptr;
    CHECK(cudaHostAlloc((void **)&words, 4096, cudaHostAllocMapped));
    std::memset(words, 0, 4096);
    report = words;
    CHECK(cudaHostGetDevicePointer((void **)&report_device, words, 0));
    const int image_halves = 224 * 224 * 3;
    image = device_memory<half>(image_halves);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaHostAlloc((void **)&images[i], image_halves * sizeof(half), cudaHostAllocMapped));
        make_halves<<<(image_halves + 255) / 256, 256, 0, stream>>>(image, image_halves, 3, 3, 3, 1, 1.7f, 1000 + i);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(images[i], image, image_halves * sizeof(half), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaHostAlloc((void **)&host_logits, 4096, cudaHostAllocMapped));
    build();
    stamps = device_memory<Stamp>(nodes.size());
    barriers = device_memory<u32>(nodes.size() * FLAG);
    different = device_memory<u32>(1);
    wrong = device_memory<Wrong>(1);
    CHECK(cudaDeviceSynchronize());
    for (int kind = 0; kind < KINDS; kind++) allow(KERNELS[kind], SHARED[kind]);
    allow(resident<BARRIER>, resident_shared());
    allow(resident<FLAGS>, resident_shared());
    int most = 0, other = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, resident<FLAGS>, THREADS, resident_shared()));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&other, resident<BARRIER>, THREADS, resident_shared()));
    most = std::min(most, other);
    std::printf("%s, %d multiprocessors, %d MHz, L2 %d MB, cooperative launch %d; %zu layers, outputs %.1f MB; %d resident blocks fit a "
                "multiprocessor\n", facts.name, units, khz / 1000, facts.l2CacheSize >> 20, cooperative, nodes.size(), arena_bytes / 1e6, most);
    double least[2][3] = {{1e9, 1e9, 1e9}, {1e9, 1e9, 1e9}}; // by buffers and mode
    const struct {
        int per_unit;
        double split_us;
    } choices[] = {{2, 1.3}, {3, 1.3}, {1, 1.3}, {2, 0.5}, {2, 3}};
    for (const auto &choice : choices) {
        if (choice.per_unit > most) continue;
        Plan plan = make_plan(choice.per_unit, choice.split_us);
        check_forms(plan);
        std::printf("blocks\tsplit_us\tbuffers\tform\tdevice_p50_us\tdevice_p99_us\thost_p50_us\thost_p99_us\n");
        for (int buffers = 0; buffers < 2; buffers++)
            for (const Form &form : FORMS) {
                double &best = least[buffers][form.mode];
                best = std::min(best, measure(plan, form, buffers));
            }
        profiles(plan, khz);
    }
    std::printf("best p50 host to host, us: launched, barrier, flags\n");
    for (int i = 0; i < 2; i++)
        std::printf("image and answer in the %s's memory\t%.1f\t%.1f\t%.1f\n", BUFFERS[i], least[i][0], least[i][1], least[i][2]);
    std::printf("%u checks failed, %.0f s\n", bad, (now_us() - start) * 1e-6);
    return bad > 0;
}
