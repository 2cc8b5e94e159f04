// Kernels that may be stopped. Each shows one pattern; ../golden.txt has the verdicts.
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void add(const float *x, const float *y, float *out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] + y[at];
}

// In place: a second run doubles again.
extern "C" __global__ void twice_in_place(u32 *x, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    x[at] = x[at] * 2 + 1;
}

extern "C" __global__ void fill(u32 *out, u32 value, int n) {
    int at = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < n) out[at] = value + at + gridDim.y;
}

extern "C" __global__ void histogram(const u32 *x, u32 *counts, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) atomicAdd(&counts[x[at] & 15], 1u);
}

// `red.max` gives the same again, but needs memory that is not read.
extern "C" __global__ void maximum(const u32 *x, u32 *out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) atomicMax(out, x[at]);
}

// The last block sums what all wrote: a counter, and no wait.
extern "C" __global__ void sum_by_last_block(const u32 *x, u32 *partial, u32 *count, u32 *out, int n) {
    __shared__ u32 sums[64];
    __shared__ bool last;
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    sums[threadIdx.x] = at < n ? x[at] : 0;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sums[0];
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        u32 sum = 0;
        for (int block = 0; block < gridDim.x; ++block) sum += ((volatile u32 *)partial)[block];
        *out = sum;
        *count = 0;
    }
}

// Blocks take their numbers from a counter.
extern "C" __global__ void by_ticket(const u32 *x, u32 *next, u32 *out, int n) {
    __shared__ u32 ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(next, 1u);
    __syncthreads();
    int at = ticket * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] * 3;
}

extern "C" __global__ void product(const float *a, const float *b, float *c, int n) {
    __shared__ float left[8][8], right[8][8];
    int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < n / 8; ++tile) {
        left[threadIdx.y][threadIdx.x] = a[row * n + tile * 8 + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(tile * 8 + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 8; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// A long loop of threads that share nothing, before the only store.
extern "C" __global__ void iterate(const u32 *x, u32 *out, int turns) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 value = x[at];
    for (int turn = 0; turn < turns; ++turn) value = value * 1664525u + 1013904223u;
    out[at] = value;
}

extern "C" __global__ void gather(const float *table, const u64 *index, float *out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = table[index[at]];
}

// Stores through an address that memory holds.
extern "C" __global__ void scatter(const float *x, float **targets, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) targets[at][0] = x[at];
}

// A compare-and-swap that is repeated waits for no block.
extern "C" __global__ void add_by_swap(const float *x, float *sum, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    u32 *word = (u32 *)sum, old = *word, expected;
    do {
        expected = old;
        old = atomicCAS(word, expected, __float_as_uint(__uint_as_float(expected) + x[at]));
    } while (old != expected);
}

extern "C" __global__ void time_of_blocks(u64 *out) {
    if (threadIdx.x == 0) out[blockIdx.x] = clock64();
}

struct Pair { const float *from; float *to; int n; };

extern "C" __global__ void by_struct(Pair pair) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < pair.n) pair.to[at] = pair.from[at] + 1;
}

__device__ __noinline__ u32 place(u32 width) { return blockIdx.x * width + threadIdx.x; }

extern "C" __global__ void by_function(const u32 *x, u32 *out) {
    u32 at = place(blockDim.x);
    out[at] = x[at] + 1;
}

extern "C" __global__ void nothing() {}
