// A best-effort program for tools/twins/processes.py: a long kernel again and again, by the driver's calls that NVIDIA's runtime
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

static void check(cudaError_t code) {
    if (code) { std::fprintf(stderr, "%s\n", cudaGetErrorString(code)); std::exit(1); }
}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

// be KIND LAUNCHES SECONDS ROUNDS: runs LAUNCHES launches, or as many as fit into SECONDS if LAUNCHES is 0.
int main(int argc, char **argv) {
    bool is_product = argc > 1 && argv[1][0] == 'p';
    long launches = argc > 2 ? atol(argv[2]) : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 5;
    uint32_t rounds = argc > 4 ? atol(argv[4]) : 4000;
    const uint32_t side = 4096, n = side * side;
    float *y, *a, *b;
    check(cudaMalloc(&y, 4ull * n));
    check(cudaMalloc(&a, 4ull * n));
    check(cudaMalloc(&b, 4ull * n));
    float *all[] = {y, a, b};
    for (float *each : all) fill<<<n / 256, 256>>>(each, n);
    check(cudaDeviceSynchronize());
    std::printf("begin\n");
    std::fflush(stdout);
    double begin = now(), said = begin;
    long done = 0;
    while (launches ? done < launches : now() - begin < seconds) {
        if (is_product) product<<<dim3(side / 32, side / 32), dim3(32, 32)>>>(y, a, b, side);
        else busy<<<n / 256, 256>>>(y, n, rounds);
        done++;
        if (done % 4 == 0) check(cudaDeviceSynchronize());
        if (now() - said > 1) {
            said = now();
            std::printf("%.3f %ld\n", said - begin, done);
            std::fflush(stdout);
        }
    }
    check(cudaDeviceSynchronize());
    double passed = now() - begin;
    uint32_t *host = static_cast<uint32_t *>(std::malloc(4ull * n));
    check(cudaMemcpy(host, y, 4ull * n, cudaMemcpyDeviceToHost));
    uint64_t sum = 1469598103934665603ull;
    for (uint32_t i = 0; i < n; i++) sum = (sum ^ host[i]) * 1099511628211ull;
    std::printf("end launches %ld seconds %.4f digest %016lx\n", done, passed, sum);
}
