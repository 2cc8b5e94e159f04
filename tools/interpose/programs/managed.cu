// Managed memory that the host and the device write in turns, with prefetches.
#include "program.h"

constexpr int ROUNDS = 200;

static void prefetch(uint64_t *words, size_t bytes, int device, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
    cudaMemLocation location = {};
    location.type = cudaMemLocationTypeDevice;
    location.id = device;
    cudaError_t code = cudaMemPrefetchAsync(words, bytes, location, 0, stream);
#else
    cudaError_t code = cudaMemPrefetchAsync(words, bytes, device, stream);
#endif
    if (code != cudaSuccess) (void)cudaGetLastError(); // where memory can't be moved ahead
}

int main() {
    cudaStream_t stream;
    uint64_t *words;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocManaged(&words, WORDS * sizeof(uint64_t)));
    for (int at = 0; at < WORDS; at++) words[at] = at;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 3 == 0) prefetch(words, WORDS * sizeof(uint64_t), 0, stream);
        for (int kernel = 0; kernel < 30; kernel++) mix<<<blocks(), 256, 0, stream>>>(words, WORDS, kernel);
        CHECK(cudaStreamSynchronize(stream));
        for (int at = round; at < WORDS; at += 97) words[at] ^= round;
    }
    std::vector<uint64_t> left(words, words + WORDS);
    return end("managed", digest(left));
}
