// Kernels that may not be stopped. Each shows one pattern; ../golden.txt has the verdicts.
typedef unsigned int u32;
typedef unsigned long long u64;

// A barrier of the whole grid, by a volatile counter.
extern "C" __global__ void grid_barrier(u32 *count, u32 *x) {
    x[blockIdx.x] = blockIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (*(volatile u32 *)count < gridDim.x) {}
    }
    __syncthreads();
    x[blockIdx.x] += x[(blockIdx.x + 1) % gridDim.x];
}

extern "C" __global__ void spin_lock(u32 *lock, float *sum) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0u, 1u) != 0) {}
        *sum += 1;
        __threadfence();
        atomicExch(lock, 0u);
    }
}

// The result of the swap reaches the branch through shared memory.
extern "C" __global__ void lock_through_shared_memory(u32 *lock, float *sum) {
    __shared__ u32 got;
    do {
        if (threadIdx.x == 0) got = atomicCAS(lock, 0u, 1u);
        __syncthreads();
    } while (got != 0);
    if (threadIdx.x == 0) { *sum += 1; __threadfence(); atomicExch(lock, 0u); }
}

// All threads poll, and vote by the barrier.
extern "C" __global__ void wait_by_vote(volatile u32 *flags, u32 *out) {
    while (!__syncthreads_and(flags[threadIdx.x] != 0)) {}
    out[blockIdx.x] = 1;
}

// A swap that changes nothing is a load: this waits.
extern "C" __global__ void wait_by_equal_swap(u32 *flag, u32 *out) {
    u32 old = 0;
    do { old = atomicCAS(flag, old, old); } while (old != 7);
    *out = 1;
}

// Looks back at what the block before it has published.
extern "C" __global__ void look_back(const u32 *x, u64 *state, u32 *out) {
    u32 sum = x[blockIdx.x], before = 0;
    if (blockIdx.x > 0) {
        u64 word;
        do {
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(state + blockIdx.x - 1));
        } while (word >> 32 == 0);
        before = (u32)word;
    }
    atomicExch(state + blockIdx.x, (1ull << 32) | (before + sum));
    out[blockIdx.x] = before + sum;
}

// Takes turns by acquiring loads, in a function of its own.
__device__ __noinline__ void wait_for(u32 *turn, u32 mine) {
    u32 now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn));
    } while (now != mine);
}

extern "C" __global__ void turns_by_function(u32 *turn, u32 *out) {
    wait_for(turn, blockIdx.x);
    out[0] += 1;
    __threadfence();
    atomicAdd(turn, 1u);
}

__device__ u32 total;
__constant__ float scale[4];

extern "C" __global__ void module_state(const float *x, float *out) {
    out[threadIdx.x] = x[threadIdx.x] * scale[threadIdx.x & 3];
    atomicAdd(&total, 1u);
}

extern "C" __device__ u32 elsewhere(u32);

extern "C" __global__ void unknown_function(u32 *out) { out[blockIdx.x] = elsewhere(blockIdx.x); }

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(u32 *out) {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    out[blockIdx.x] = rank;
}

typedef u32 (*Function)(u32);

extern "C" __global__ void by_pointer(Function *functions, u32 *out) {
    out[blockIdx.x] = functions[0](blockIdx.x);
}
