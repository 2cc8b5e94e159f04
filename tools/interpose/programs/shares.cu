// Work of one sort at a time, for shares of a device's time: units of work in a second, and the clock.
// Kernels last for a time, not for a number of cycles, so a clock that rises below full load changes nothing.
//
//   nvcc -O2 -o shares shares.cu -lcuda && ./shares SORT SECONDS    graphs, long, seconds or short
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        cudaError_t code = (call);                                                                    \
        if (code != cudaSuccess) {                                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                        \
            std::exit(1);                                                                             \
        }                                                                                             \
    } while (0)

__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

__global__ void lasts(unsigned long long nanos, unsigned long long *cycles) {
    unsigned long long begin = now(), clock = clock64();
    while (now() - begin < nanos) {}
    cycles[0] = clock64() - clock;
    cycles[1] = now() - begin;
}

__global__ void brief(unsigned *word) { *word += 1; }

int main(int count, char **words) {
    if (count != 3) return std::fprintf(stderr, "shares SORT SECONDS\n"), 2;
    const char *sort = words[1];
    double seconds = std::atof(words[2]);
    unsigned long long *cycles, read[2] = {0, 0};
    unsigned *word;
    cudaStream_t stream;
    CHECK(cudaMalloc(&cycles, sizeof read));
    CHECK(cudaMalloc(&word, sizeof *word));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    bool is_graph = !std::strcmp(sort, "graphs"), is_short = !std::strcmp(sort, "short");
    bool is_long = !std::strcmp(sort, "long");
    if (!is_graph && !is_short && !is_long && std::strcmp(sort, "seconds")) return 2;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    if (is_graph) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int at = 0; at < 8; at++) lasts<<<1, 1, 0, stream>>>(220000, cycles);
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
    }
    // One step, which the program waits for: 7 ms of graphs, 21 ms of long kernels, 800 short ones, or 300 ms.
    auto step = [&] {
        for (int at = 0; at < 4 && is_graph; at++) CHECK(cudaGraphLaunch(exec, stream));
        for (int at = 0; at < 4 && is_long; at++) lasts<<<1, 1, 0, stream>>>(5300000, cycles);
        for (int at = 0; at < 800 && is_short; at++) brief<<<1, 1, 0, stream>>>(word);
        if (!is_graph && !is_long && !is_short) lasts<<<1, 1, 0, stream>>>(300000000, cycles);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
    };
    step();
    auto begin = std::chrono::steady_clock::now();
    auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    long steps = 0;
    for (; passed() < seconds; steps++) step();
    double time = passed();
    CHECK(cudaMemcpy(read, cycles, sizeof read, cudaMemcpyDeviceToHost));
    double clock = read[1] ? 1e3 * double(read[0]) / double(read[1]) : 0;
    std::printf("%s %.3f steps a second, clock %.0f MHz\n", sort, steps / time, clock);
}
