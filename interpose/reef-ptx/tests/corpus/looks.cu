// Kernels with loops, for looks: some may be thrown away while they run; ../golden.txt has which.
typedef unsigned int u32;

// A loop with two barriers, then effects that may not happen twice.
extern "C" __global__ void tiles_in_place(u32 *x, const u32 *y, u32 *count, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        tile[threadIdx.x] = value ^ y[turn];
        __syncthreads();
        value += tile[(threadIdx.x + 1) & 31] * 3;
        __syncthreads();
    }
    x[at] = value;
    if (threadIdx.x == 0) atomicAdd(count, value);
}

// Loops in a loop, whose lengths come from memory and from the block's index.
extern "C" __global__ void nested(u32 *x, const u32 *lengths, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        tile[threadIdx.x] = value;
        __syncthreads();
#pragma unroll 1
        for (u32 inner = 0; inner < (lengths[blockIdx.x] & 7); ++inner) {
            u32 next = tile[(threadIdx.x + inner) & 31];
            __syncthreads();
            tile[threadIdx.x] = next * 5 + 1;
            __syncthreads();
        }
        value += tile[31 - threadIdx.x];
        __syncthreads();
    }
    x[at] = value * 2 + x[at];
}

// Threads that end before the loop.
extern "C" __global__ void early_return(u32 *x, int n, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = 1;
    if (at >= n) return;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        __syncthreads();
        value = value * 3 + tile[threadIdx.x ^ 1];
    }
    x[at] = value;
}

// Thread 0 ends before the loop.
extern "C" __global__ void without_first(u32 *x, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = 1;
    if (threadIdx.x == 0) return;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        __syncthreads();
        value = value * 3 + tile[threadIdx.x ^ 1];
    }
    x[at] = value;
}

// A loop before the first effect, and one behind it.
extern "C" __global__ void two_phases(u32 *x, u32 *y, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        tile[threadIdx.x] = value;
        __syncthreads();
        value += tile[threadIdx.x ^ 3];
        __syncthreads();
    }
    x[at] = value;
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        tile[threadIdx.x] = value;
        __syncthreads();
        value += tile[threadIdx.x ^ 5];
        __syncthreads();
    }
    y[at] = y[at] + value;
}

// Loops of threads that share nothing.
extern "C" __global__ void alone_in_place(u32 *x, int turns) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        value ^= value << 3;
#pragma unroll 1
        for (int inner = 0; inner < turn; ++inner) value = value * 1664525u + 1013904223u;
    }
    x[at] = value;
}

// Copies that are under way in each turn.
extern "C" __global__ void copies(const u32 *x, u32 *out, int turns) {
    __shared__ u32 tile[2][32];
    u32 to = (u32)__cvta_generic_to_shared(&tile[0][threadIdx.x]), sum = 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1
    for (int turn = 1; turn < turns; ++turn) {
        const u32 *from = x + turn * 32 + threadIdx.x;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + (turn & 1) * 128), "l"(from) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        sum += tile[~turn & 1][31 - threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}

// One thread has an effect and leaves, before the others are in the loop.
extern "C" __global__ void effect_of_one(u32 *x, u32 *count, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = 1;
    if (threadIdx.x == 31) {
        atomicAdd(count, 1u);
        return;
    }
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        __syncthreads();
        value = value * 3 + tile[threadIdx.x ^ 1];
    }
    x[at] = value;
}

// Threads leave the loop one after the other, and have their effects meanwhile.
extern "C" __global__ void one_after_the_other(u32 *x, int turns) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 value = x[at];
#pragma unroll 1
    for (int turn = 0; turn < turns + (value & 7); ++turn) value = value * 1664525u + 8;
    x[at] = value;
}

// Two kinds of threads with barriers of their own, which are one to the device.
extern "C" __global__ void two_kinds(u32 *x, u32 *count, int turns) {
    __shared__ u32 tile[32];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = x[at];
    if (threadIdx.x < 16) {
#pragma unroll 1
        for (int turn = 0; turn < turns; ++turn) __syncthreads();
        x[at] = tile[threadIdx.x + 16] + 1;
    } else {
        __syncthreads();
        atomicAdd(count, 1u);
#pragma unroll 1
        for (int turn = 1; turn < turns; ++turn) __syncthreads();
        x[at] = x[at] + 3;
    }
}
