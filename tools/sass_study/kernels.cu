// Kernels of the study. Each changes y in place, so that a block that ran twice or not at all is seen.
#include <cstdint>

#define KERNEL(name) extern "C" __global__ void name(float *y, const float *x, const float *b, uint32_t n)
#define AT (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(vadd) {
    uint32_t i = AT;
    if (i < n) y[i] = y[i] * 1.5f + x[i];
}

// Square matrices of n rows; tiles of 32 through shared memory.
KERNEL(product) {
    __shared__ float left[32][33], right[32][33];
    uint32_t row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = y[row * n + column];
    for (uint32_t k = 0; k < n; k += 32) {
        left[threadIdx.y][threadIdx.x] = x[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 32; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    y[row * n + column] = sum;
}

// Sum of each block by a tree with a barrier a step.
KERNEL(reduce) {
    __shared__ float part[256];
    part[threadIdx.x] = x[AT];
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    y[AT] = y[AT] * 0.5f + part[0];
}

// 236 values that are live across a loop: all 255 registers.
KERNEL(wide) {
    float value[236];
    uint32_t i = AT;
#pragma unroll
    for (int k = 0; k < 236; k++) value[k] = x[(i + k * 37) % n];
#pragma unroll 1
    for (int round = 0; round < 12; round++)
#pragma unroll
        for (int k = 0; k < 236; k++) value[k] = value[k] * 0.75f + value[(k + 1) % 236];
    float sum = y[i];
#pragma unroll
    for (int k = 0; k < 236; k++) sum += value[k] * float(k + 1);
    y[i] = sum;
}

// 64 KiB of dynamic shared memory.
KERNEL(dynamic) {
    extern __shared__ float tile[];
    for (uint32_t k = threadIdx.x; k < 16384; k += blockDim.x) tile[k] = x[(blockIdx.x * 256 + k) % n];
    __syncthreads();
    float sum = y[AT];
    for (uint32_t k = 0; k < 64; k++) sum += tile[(threadIdx.x * 67 + k * 331) % 16384];
    y[AT] = sum;
}

// No parameters: state of the module.
__device__ float state[1 << 24];
extern "C" __global__ void bare() { state[AT] = state[AT] * 1.5f + float(threadIdx.x); }

extern "C" __global__ void __launch_bounds__(128, 16) bounded(float *y, const float *x, const float *b, uint32_t n) {
    float value = x[AT];
    for (uint32_t k = 0; k < 200; k++) value = value * 0.9f + b[(AT + k) % n];
    y[AT] = y[AT] * 0.5f + value;
}

// A local array: R1, which the first instruction loads, is used.
KERNEL(stack) {
    float value[64];
    for (int k = 0; k < 64; k++) value[k] = x[(AT + k) % n];
    float sum = y[AT];
    for (uint32_t k = 0; k < 64; k++) {
        uint32_t place = uint32_t(x[(AT + k) % n] * 64.0f) & 63u;
        sum += value[place];
        value[(place + k) & 63] = sum * 0.001f;
    }
    y[AT] = sum;
}

// A function that is called: its code lies behind the kernel's in the same section.
__device__ __noinline__ double called(double a, double b) { return a / b + sqrt(a); }
KERNEL(calls) { y[AT] = float(called(double(y[AT]) + 1.0, double(x[AT]) + 2.0)); }

// Named barriers with counts, and barrier 0 with a count.
KERNEL(named) {
    __shared__ float part[256];
    part[threadIdx.x] = x[AT];
    uint32_t half = threadIdx.x / 128;
    if (half) asm volatile("bar.sync 1, 128;" ::: "memory"); else asm volatile("bar.sync 2, 128;" ::: "memory");
    float value = part[half * 128 + (threadIdx.x + 5) % 128];
    asm volatile("bar.sync 0, 256;" ::: "memory");
    part[threadIdx.x] = value;
    asm volatile("bar.sync 0, 256;" ::: "memory");
    y[AT] = y[AT] * 0.5f + part[255 - threadIdx.x];
}

// Blocks and grid of three dimensions.
KERNEL(cube) {
    uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    uint32_t i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    y[i] = y[i] * 1.5f + x[i];
}

// A jump table.
KERNEL(jumps) {
    float value = y[AT];
    for (int k = 0; k < 8; k++) switch (uint32_t(b[(AT + k) % n] * 8.0f)) {
        case 0: value = value * 0.5f + 1.0f; break;
        case 1: value = sinf(value); break;
        case 2: value = value + x[AT]; break;
        case 3: value = value * value * 0.01f; break;
        case 4: value = sqrtf(fabsf(value)); break;
        case 5: value = expf(-fabsf(value)); break;
        case 6: value = value - 3.0f; break;
        default: value = cosf(value);
    }
    y[AT] = value;
}

// Early returns and warps that aren't whole.
KERNEL(odd) {
    if (threadIdx.x % 3 == 1) return;
    __syncwarp(__activemask());
    y[AT] = y[AT] * 1.5f + x[AT];
}

// A barrier in shared memory (mbarrier), where threads wait by looking.
KERNEL(phases) {
    __shared__ uint64_t barrier;
    __shared__ float part[256];
    uint32_t at = uint32_t(__cvta_generic_to_shared(&barrier)), done = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x) : "memory");
    __syncthreads();
    part[threadIdx.x] = x[AT];
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at) : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    y[AT] = y[AT] * 0.5f + part[(threadIdx.x + 77) % 256];
}

// Waits for the grid before it, if it was launched to start early.
KERNEL(waits) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    y[AT] = y[AT] * 1.5f + x[AT];
    asm volatile("griddepcontrol.launch_dependents;");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Warps of one group give registers to the others.
extern "C" __global__ void __launch_bounds__(384, 1) trade(float *y, const float *x, const float *b, uint32_t n) {
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        y[AT] = y[AT] * 1.5f + x[AT];
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float value[160];
#pragma unroll
        for (int k = 0; k < 160; k++) value[k] = x[(AT + k * 37) % n];
#pragma unroll 1
        for (int round = 0; round < 12; round++)
#pragma unroll
            for (int k = 0; k < 160; k++) value[k] = value[k] * 0.75f + value[(k + 1) % 160];
        float sum = y[AT];
#pragma unroll
        for (int k = 0; k < 160; k++) sum += value[k] * float(k + 1);
        y[AT] = sum;
    }
}
#endif

// Arithmetic alone for n rounds.
KERNEL(busy) {
    float value = x[threadIdx.x];
    for (uint32_t i = 0; i < n; i++) value = value * 0.999f + 0.5f;
    y[AT] += value;
}

// Counts words of y that aren't those of want.
extern "C" __global__ void differs(const uint32_t *y, const uint32_t *want, uint32_t n, uint32_t *count) {
    for (uint32_t i = AT; i < n; i += blockDim.x * gridDim.x)
        if (y[i] != want[i]) atomicAdd(count, 1u);
}
