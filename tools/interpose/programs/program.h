// What the programs share. Each prints one line: its name and a digest of what it computed, the same in every run.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t is = (call);                                                                  \
        if (is != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(is)); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

constexpr uint64_t MULTIPLIER = 6364136223846793005ull;
constexpr int WORDS = 1 << 14;

// Shows order, and how often it ran: neither commutes nor is done twice unseen.
static __global__ void mix(uint64_t *words, int count, uint64_t value) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) words[at] = words[at] * MULTIPLIER + value + at;
}

// Takes other words up.
static __global__ void join(uint64_t *words, const uint64_t *others, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) words[at] = words[at] * MULTIPLIER + others[at];
}

static inline dim3 blocks() { return dim3((WORDS + 255) / 256); }

static inline uint64_t digest(const std::vector<uint64_t> &words, uint64_t start = 14695981039346656037ull) {
    for (uint64_t word : words) start = (start ^ word) * 1099511628211ull;
    return start;
}

static inline std::vector<uint64_t> fetch(const uint64_t *from, int count = WORDS) {
    std::vector<uint64_t> words(count);
    CHECK(cudaMemcpy(words.data(), from, count * sizeof(uint64_t), cudaMemcpyDefault));
    return words;
}

static inline uint64_t *zeroed(int count = WORDS) {
    uint64_t *words;
    CHECK(cudaMalloc(&words, count * sizeof(uint64_t)));
    CHECK(cudaMemset(words, 0, count * sizeof(uint64_t)));
    return words;
}

static inline int end(const char *name, uint64_t digest) {
    CHECK(cudaDeviceSynchronize());
    printf("{\"program\": \"static-%s\", \"digest\": \"%016llx\"}\n", name, (unsigned long long)digest);
    return 0;
}
