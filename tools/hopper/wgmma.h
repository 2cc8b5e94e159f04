// Products and convolutions by what Hopper alone has: `wgmma`, whose operands lie in shared memory, filled by the copy engine.
//
//   block = (part of the sum, tile of x, tile of y); warps: WX x 4 that multiply, and one that asks for slabs
//
// A slab is 128 bytes of terms of each line. x is the side of 64 lines an instruction, y the other. Either is the activations:
// lines of a matrix, or the windows of a picture (`im2col`), never written out. The other are weights: one line for each output.
//
// Parts of a sum are added by the last block of a tile to come, or by a cluster of blocks through shared memory.

#pragma once

#include "element.h"
#include <cuda.h>

namespace hopper {

enum Sum : u32 { WHOLE, BY_LAST, BY_CLUSTER };
enum Act : u32 { PLAIN, RELU, GELU };

struct Job {
    CUtensorMap x, y;
    const float *bias; // of outputs
    void *output;
    float *partials;
    u32 *arrivals;
    u32 rows, columns; // of the output: activations' lines, and weights'
    u32 tiles_x, splits, slabs;
    u32 sum, act;
    u32 late; // whether the next launch starts when the sums are made, and not at once
    // Pictures: slabs of a tap, taps of a line, pixels of a line.
    u32 tap_slabs, window, line;
};

struct F16 { typedef Half Element; };
struct Tf32 { typedef float Element; };
template <class Math, int COLUMNS> struct Multiply;

#include "wgmma_made.h"

__device__ inline u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }

__device__ inline void barrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ inline void bring_matrix(u32 to, const CUtensorMap &map, u32 barrier, int term, int line) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(to), "l"(&map), "r"(barrier), "r"(term), "r"(line) : "memory");
}
__device__ inline void bring_windows(u32 to, const CUtensorMap &map, u32 barrier, int channel, int column, int row, u32 right,
                                     u32 down) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 ::"r"(to), "l"(&map), "r"(barrier), "r"(channel), "r"(column), "r"(row), "r"(0), "h"((u16)right),
                 "h"((u16)down) : "memory");
}

// Lines of 128 bytes, eight of them 1024, swizzled.
__device__ inline u64 matrix_at(u32 address) {
    return (u64)(address >> 4 & 0x3fff) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
__device__ inline float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// As `gelu` of kernels/product.h.
__device__ inline float gelu(float v) {
    const float x = v * 0.70710678118654752f, t = reciprocal(1.0f + 0.3275911f * fabsf(x));
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    return 0.5f * v * (1.0f + copysignf(1.0f - sum * t * power_of_two(-1.4426950408889634f * x * x), x));
}

__device__ inline float become(float x, u32 act) { return act == RELU ? at_least(x, 0) : act == GELU ? gelu(x) : x; }

__device__ inline u32 rank_in_cluster() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ inline void meet_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ inline float4 load_peer(u32 address, u32 rank) {
    float4 four;
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w) : "r"(there) : "memory");
    return four;
}

// `SWAPPED`: weights are x. `PICTURES`: activations are windows.
template <class M, int X, int Y, int DEPTH, bool PICTURES, bool SWAPPED> struct Tile {
    typedef M Math;
    typedef typename Math::Element Element;
    static constexpr int GROUPS = X / 64, WORKERS = 128 * GROUPS, THREADS = WORKERS + 32, SUMS = Y / 2;
    static constexpr int ROWS = SWAPPED ? Y : X, COLUMNS = SWAPPED ? X : Y; // of the output
    static constexpr u32 TERMS = 128 / sizeof(Element), STAGE = (X + Y) * 128, LINE = COLUMNS + 4;
    static constexpr u32 SLABS = DEPTH * STAGE, PLANE = ROWS * LINE * 4;
    static constexpr u32 BARRIERS = SLABS > PLANE ? SLABS : PLANE;
    static constexpr u32 SHARED = BARRIERS + 16 * DEPTH + 1024;

    // Which part of the sum, and which tile.
    struct Place {
        u32 split, tile, x, y, begin, count;
        __device__ Place(const Job &job) {
            split = blockIdx.x % job.splits;
            tile = blockIdx.x / job.splits;
            x = tile % job.tiles_x;
            y = tile / job.tiles_x;
            begin = split * job.slabs / job.splits;
            count = (split + 1) * job.slabs / job.splits - begin;
        }
    };

    __device__ static void bring_weights(const Job &job, const Place &p, u32 stage, u32 full, u32 n) {
        const u32 term = (p.begin + n) * TERMS, to = SWAPPED ? stage : stage + X * 128, first = SWAPPED ? p.x * X : p.y * Y;
        const CUtensorMap &map = SWAPPED ? job.x : job.y;
        bring_matrix(to, map, full, term, first);
    }

    __device__ static void bring_activations(const Job &job, const Place &p, u32 stage, u32 full, u32 n) {
        const u32 to = SWAPPED ? stage + X * 128 : stage, first = SWAPPED ? p.y * Y : p.x * X, slab = p.begin + n;
        const CUtensorMap &map = SWAPPED ? job.y : job.x;
        if (!PICTURES) {
            bring_matrix(to, map, full, slab * TERMS, first);
            return;
        }
        const u32 tap = slab / job.tap_slabs, down = tap / job.window, row = first / job.line;
        bring_windows(to, map, full, (slab - tap * job.tap_slabs) * TERMS, (int)(first - row * job.line) - (int)(job.window / 2),
                      (int)row - (int)(job.window / 2), tap - down * job.window, down);
    }

    // One thread.
    __device__ static void bring(const Job &job, const Place &p, u32 slabs, u32 full) {
        const u32 free = full + 8 * DEPTH, ahead = min(p.count, (u32)DEPTH);
        for (u32 n = 0; n < ahead; n++) {
            barrier_expect(full + 8 * n, STAGE);
            bring_weights(job, p, slabs + n * STAGE, full + 8 * n, n);
        }
        reef::wait_for_previous();
        for (u32 n = 0; n < ahead; n++) bring_activations(job, p, slabs + n * STAGE, full + 8 * n, n);
        for (u32 n = DEPTH; n < p.count; n++) {
            const u32 at = n % DEPTH;
            barrier_wait(free + 8 * at, (n / DEPTH + 1) & 1);
            barrier_expect(full + 8 * at, STAGE);
            bring_weights(job, p, slabs + at * STAGE, full + 8 * at, n);
            bring_activations(job, p, slabs + at * STAGE, full + 8 * at, n);
        }
    }

    __device__ static void multiply(float (&sums)[SUMS], const Place &p, u32 slabs, u32 full) {
        const u32 free = full + 8 * DEPTH, group = threadIdx.x / 128;
        for (float &sum : sums) sum = 0;
        for (u32 n = 0; n < p.count; n++) {
            const u32 at = n % DEPTH, stage = slabs + at * STAGE;
            barrier_wait(full + 8 * at, n / DEPTH & 1);
            const u64 x = matrix_at(stage + group * 64 * 128), y = matrix_at(stage + X * 128);
            for (float &sum : sums) asm volatile("" : "+f"(sum)::"memory");
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (u32 step = 0; step < 4; step++) Multiply<Math, Y>::go(sums, x + 2 * step, y + 2 * step);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (n > 0 && threadIdx.x % 128 == 0) barrier_arrive(free + 8 * ((n - 1) % DEPTH));
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (float &sum : sums) asm volatile("" : "+f"(sum)::"memory");
    }

    __device__ static void workers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

    // Sums as rows and columns of the output.
    __device__ static void store(const float (&sums)[SUMS], float *plane) {
        const u32 lane = threadIdx.x % 32, x = threadIdx.x / 32 * 16 + lane / 4, y = lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < Y / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float a = sums[4 * j + 2 * half], b = sums[4 * j + 2 * half + 1];
                const u32 at_x = x + 8 * half, at_y = 8 * j + y;
                if (SWAPPED) {
                    plane[at_y * LINE + at_x] = a;
                    plane[(at_y + 1) * LINE + at_x] = b;
                } else {
                    *(float2 *)(plane + at_x * LINE + at_y) = make_float2(a, b);
                }
            }
    }

    // Four adjoining outputs.
    __device__ static void write(const Job &job, u32 row, u32 column, float4 sum) {
        const float4 bias = load4(job.bias + column);
        sum = make_float4(become(sum.x + bias.x, job.act), become(sum.y + bias.y, job.act), become(sum.z + bias.z, job.act),
                          become(sum.w + bias.w, job.act));
        store4((Element *)job.output + (u64)row * job.columns + column, sum);
    }

    static constexpr u32 QUADS = COLUMNS / 4, ALL = ROWS * QUADS;

    __device__ static void finish(const Job &job, const Place &p, const float *plane) {
        const u32 first_row = (SWAPPED ? p.y : p.x) * ROWS, first_column = (SWAPPED ? p.x : p.y) * COLUMNS;
        const u32 parts = job.sum == BY_CLUSTER ? job.splits : 1, rank = job.sum == BY_CLUSTER ? p.split : 0;
        if (job.sum == BY_LAST) {
            float *mine = job.partials + ((u64)p.tile * job.splits + p.split) * ALL * 4;
            for (u32 q = threadIdx.x; q < ALL; q += WORKERS) store4(mine + q * 4, load4(plane + q / QUADS * LINE + q % QUADS * 4));
            __shared__ bool last;
            workers_meet();
            if (threadIdx.x == 0) {
                u32 before;
                asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(job.arrivals + p.tile) : "memory");
                last = before == job.splits - 1;
                if (last) job.arrivals[p.tile] = 0;
            }
            workers_meet();
            if (!last) return;
        }
        const u32 begin = ALL * rank / parts, end = ALL * (rank + 1) / parts;
#pragma unroll 4
        for (u32 q = begin + threadIdx.x; q < end; q += WORKERS) {
            const u32 row = q / QUADS, column = q % QUADS * 4;
            if (first_row + row >= job.rows) continue;
            float4 sum = make_float4(0, 0, 0, 0);
            if (job.sum == WHOLE) sum = load4(plane + row * LINE + column);
            if (job.sum == BY_LAST)
                for (u32 s = 0; s < job.splits; s++)
                    sum = sum + __ldcg((const float4 *)(job.partials + ((u64)p.tile * job.splits + s) * ALL * 4 + q * 4));
            if (job.sum == BY_CLUSTER)
                for (u32 s = 0; s < parts; s++) sum = sum + load_peer(shared_address(plane + row * LINE + column), s);
            write(job, first_row + row, first_column + column, sum);
        }
    }
};

template <class T> __global__ void __launch_bounds__(T::THREADS, 1) run(const __grid_constant__ Job job) {
    extern __shared__ char raw[];
    char *memory = raw + (1024 - shared_address(raw) % 1024) % 1024;
    const u32 slabs = shared_address(memory), full = slabs + T::BARRIERS;
    const u32 depth = (T::SHARED - 1024 - T::BARRIERS) / 16;
    const typename T::Place place(job);
    if (threadIdx.x == 0) {
        for (u32 n = 0; n < depth; n++) barrier_init(full + 8 * n, 1), barrier_init(full + 8 * (depth + n), T::GROUPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    float *plane = (float *)memory;
    if (threadIdx.x >= T::WORKERS) {
        if (threadIdx.x == T::WORKERS) T::bring(job, place, slabs, full);
        __syncwarp();
    }
    if (threadIdx.x < T::WORKERS) {
        if (!job.late) reef::let_next_start();
        float sums[T::SUMS];
        T::multiply(sums, place, slabs, full);
        reef::wait_for_previous();
        if (job.late) reef::let_next_start();
        T::workers_meet();
        T::store(sums, plane);
        T::workers_meet();
    }
    if (job.sum == BY_CLUSTER) meet_cluster();
    if (threadIdx.x < T::WORKERS) T::finish(job, place, plane);
    if (job.sum == BY_CLUSTER) meet_cluster(); // a block lasts as long as others read from it
}

} // namespace hopper
