// A best-effort program for tools/variants/processes.py: a long kernel again and again, by the driver's calls that NVIDIA's runtime
// makes. Prints a line each second, and a sum of the results at its end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda_runtime.h>

// In place, so that a block that ran twice or not at all is seen. Its duration goes with `rounds`.
__global__ void busy(float *y, uint32_t n, uint32_t rounds) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = y[i];
    for (uint32_t r = 0; r < rounds; r++) value = value * 0.999f + 0.5f;
    y[i] = value + 1e-3f * (blockIdx.x % 7);
}

// Square matrices of n rows; a grid of two dimensions.
__global__ void product(float *y, const float *a, const float *b, uint32_t n) {
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
    y[row * n + column] = y[row * n + column] * 0.5f + sum;
}

__global__ void fill(float *y, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = float(i * 2654435761u >> 20) * 1e-3f;
}

// Adds a number of each word and of its place, in whatever order.
__global__ void sum_up(const float *y, uint32_t n, unsigned long long *sum) {
    unsigned long long own = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        uint64_t x = (uint64_t(i) << 32 | __float_as_uint(y[i])) * 0x9e3779b97f4a7c15ull;
        x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
        own += x ^ x >> 32;
    }
    atomicAdd(sum, own);
}

static void check(cudaError_t code) {
    if (code) { std::fprintf(stderr, "%s\n", cudaGetErrorString(code)); std::exit(1); }
}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

// be KIND LAUNCHES SECONDS ROUNDS MILLIONS: runs LAUNCHES launches, or as many as fit into SECONDS if LAUNCHES is 0, on as many times
// 2^20 numbers.
int main(int argc, char **argv) {
    bool is_product = argc > 1 && argv[1][0] == 'p';
    long launches = argc > 2 ? atol(argv[2]) : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 5;
    uint32_t rounds = argc > 4 ? atol(argv[4]) : 4000;
    const uint32_t side = 4096, n = (argc > 5 ? atol(argv[5]) : 16) << 20;
    float *y, *a = nullptr, *b = nullptr;
    unsigned long long *sum, total = 0;
    check(cudaMalloc(&sum, 8));
    check(cudaMemset(sum, 0, 8));
    for (float **each : {&y, &a, &b}) {
        if (each != &y && !is_product) continue;
        check(cudaMalloc(each, 4ull * n));
        fill<<<n / 256, 256>>>(*each, n);
    }
    check(cudaDeviceSynchronize());
    std::printf("begin\n");
    std::fflush(stdout);
    double begin = now(), said = begin;
    long done = 0;
    while (launches ? done < launches : now() - begin < seconds) {
        if (is_product) product<<<dim3(side / 32, side / 32), dim3(32, 32)>>>(y, a, b, side);
        else busy<<<n / 256, 256>>>(y, n, rounds);
        done++;
        if (done % 4 == 0 || n >> 28) check(cudaDeviceSynchronize());
        if (now() - said > 1) {
            said = now();
            std::printf("%.3f %ld\n", said - begin, done);
            std::fflush(stdout);
        }
    }
    check(cudaDeviceSynchronize());
    double passed = now() - begin;
    sum_up<<<1024, 256>>>(y, n, sum);
    check(cudaMemcpy(&total, sum, 8, cudaMemcpyDeviceToHost));
    std::printf("end launches %ld seconds %.4f digest %016llx\n", done, passed, total);
}
