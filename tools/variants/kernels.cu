// Kernels that are run with and without their variants. Each takes buffers of floats and a count.
#include <cstdint>

extern "C" __global__ void saxpy(float *y, const float *x, const float *, uint32_t n) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = 2.5f * x[i] + y[i];
}

extern "C" __global__ void stencil(float *y, const float *x, const float *, uint32_t n) {
    __shared__ float tile[256 + 8];
    uint32_t i = blockIdx.x * 256 + threadIdx.x;
    for (uint32_t at = threadIdx.x; at < 264; at += 256) {
        uint32_t from = blockIdx.x * 256 + at;
        tile[at] = from >= 4 && from < n + 4 ? x[from - 4] : 0.0f;
    }
    __syncthreads();
    float sum = 0;
    for (int d = 0; d < 9; d++) sum += tile[threadIdx.x + d] * (d + 1);
    if (i < n) y[i] = sum;
}

// 1024 columns a row: softmax of each row.
extern "C" __global__ void softmax(float *y, const float *x, const float *, uint32_t) {
    __shared__ float part[256];
    const float *row = x + size_t(blockIdx.x) * 1024;
    float most = -1e30f, sum = 0;
    for (int c = threadIdx.x; c < 1024; c += 256) most = fmaxf(most, row[c]);
    part[threadIdx.x] = most;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    most = part[0];
    __syncthreads();
    for (int c = threadIdx.x; c < 1024; c += 256) sum += __expf(row[c] - most);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int c = threadIdx.x; c < 1024; c += 256) y[size_t(blockIdx.x) * 1024 + c] = __expf(row[c] - most) / part[0];
}

// Square matrices of n rows, n a multiple of 32; a grid of two dimensions.
extern "C" __global__ void product(float *y, const float *a, const float *b, uint32_t n) {
    __shared__ float left[32][33], right[32][33];
    uint32_t row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (uint32_t k = 0; k < n; k += 32) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 32; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    y[row * n + column] = sum;
}

// In place, so that a block that ran twice or not at all is seen.
extern "C" __global__ void add_in_place(float *y, const float *x, const float *, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] * 1.5f + x[i];
}

// Sums over the grid: the last block to arrive adds the others' parts.
extern "C" __global__ void count_in_place(float *y, const float *x, const float *, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(reinterpret_cast<unsigned *>(y) + (i * 7919u) % 4096u, unsigned(x[i] * 16.0f) & 15u);
}

// Arithmetic alone for `n` rounds.
extern "C" __global__ void busy(float *y, const float *x, const float *, uint32_t n) {
    float value = x[threadIdx.x];
    for (uint32_t i = 0; i < n; i++) value = value * 0.999f + 0.5f;
    y[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

// What a real-time request is here: it notes when it runs.
extern "C" __global__ void note(uint64_t *at) {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    *at = now;
}

// Counts the words in which two buffers differ.
extern "C" __global__ void differs(const uint32_t *a, const uint32_t *b, uint32_t n, uint32_t *count) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        if (a[i] != b[i]) atomicAdd(count, 1);
}
