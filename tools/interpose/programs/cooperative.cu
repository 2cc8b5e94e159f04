// A cooperative kernel, whose blocks wait for each other: it must start whole, and can't be stopped in its middle.
#include "program.h"
#include <cooperative_groups.h>

constexpr int ROUNDS = 16, LAUNCHES = 6000;

static __global__ void waves(uint64_t *words, uint64_t *next, int count) {
    auto grid = cooperative_groups::this_grid();
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = grid.thread_rank(); at < count; at += grid.size())
            next[at] = words[at] * MULTIPLIER + words[(at + 1) % count] + round;
        grid.sync();
        uint64_t *former = words;
        words = next;
        next = former;
    }
}

int main() {
    int device = 0, units, fit, can;
    CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, device));
    CHECK(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, waves, 256, 0));
    if (!can || !fit) return 2;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uint64_t *words = zeroed(), *next = zeroed();
    CHECK(cudaDeviceSynchronize());
    for (int launch = 0; launch < LAUNCHES; launch++) {
        int count = WORDS;
        void *args[] = {&words, &next, &count};
        mix<<<blocks(), 256, 0, stream>>>(words, WORDS, launch);
        // What is computed doesn't depend on the number of blocks.
        CHECK(cudaLaunchCooperativeKernel((void *)waves, dim3(units), dim3(256), args, 0, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    return end("cooperative", digest(fetch(words)));
}
