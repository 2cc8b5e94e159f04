// A real-time program for tools/variants/processes.py: a small kernel RATE times a second for SECONDS, at random times. Prints the
// microseconds from the launch to the end of its wait: median, 99th percentile, maximum.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda_runtime.h>
#include <random>
#include <unistd.h>
#include <vector>

__global__ void request(float *y) { y[threadIdx.x + blockIdx.x * blockDim.x] += 1; }

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
    double rate = argc > 1 ? atof(argv[1]) : 100, seconds = argc > 2 ? atof(argv[2]) : 5;
    float *y;
    cudaStream_t stream;
    if (cudaMalloc(&y, 1 << 20) || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) return 1;
    auto once = [&] {
        request<<<32, 256, 0, stream>>>(y);
        return cudaStreamSynchronize(stream);
    };
    for (int i = 0; i < 10; i++) once();
    std::printf("begin\n");
    std::fflush(stdout);
    std::mt19937 random(7);
    std::exponential_distribution<double> gap(rate);
    std::vector<double> times;
    double begin = now(), next = begin;
    while (now() - begin < seconds) {
        next = std::max(next + gap(random), now());
        double left = next - now();
        if (left > 1e-3) usleep(useconds_t((left - 1e-3) * 1e6));
        while (now() < next) {}
        double from = now();
        if (once()) return 1;
        times.push_back((now() - from) * 1e6);
    }
    std::sort(times.begin(), times.end());
    std::printf("end requests %zu p50 %.1f p99 %.1f max %.1f\n", times.size(), times[times.size() / 2],
                times[times.size() * 99 / 100], times.back());
}
