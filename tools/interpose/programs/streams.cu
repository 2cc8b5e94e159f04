// Four streams of three threads, the legacy default stream among them, copies, fills and stream-ordered memory.
#include "program.h"
#include <thread>

constexpr int ROUNDS = 400;

static void work(int number, uint64_t *words) {
    cudaStream_t stream;
    uint64_t *host;
    CHECK(cudaStreamCreateWithFlags(&stream, number == 1 ? cudaStreamNonBlocking : cudaStreamDefault));
    CHECK(cudaMallocHost(&host, WORDS * sizeof(uint64_t)));
    for (int at = 0; at < WORDS; at++) host[at] = at + number;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t *pool;
        for (int kernel = 0; kernel < 20; kernel++) mix<<<blocks(), 256, 0, stream>>>(words, WORDS, kernel);
        CHECK(cudaMallocAsync(&pool, WORDS * sizeof(uint64_t), stream));
        CHECK(cudaMemcpyAsync(pool, host, WORDS * sizeof(uint64_t), cudaMemcpyHostToDevice, stream));
        mix<<<blocks(), 256, 0, stream>>>(pool, WORDS, round);
        join<<<blocks(), 256, 0, stream>>>(words, pool, WORDS);
        CHECK(cudaFreeAsync(pool, stream));
        // The legacy stream comes after the blocking streams' work, and before what follows there.
        if (number != 1) mix<<<blocks(), 256>>>(words, WORDS, round);
        if (round % 50 == 0) CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(host));
}

int main() {
    uint64_t *words[3] = {zeroed(), zeroed(), zeroed()};
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; number++) threads.emplace_back(work, number, words[number]);
    for (auto &thread : threads) thread.join();
    CHECK(cudaDeviceSynchronize());
    uint64_t all = digest(fetch(words[0]));
    all = digest(fetch(words[1]), all);
    return end("streams", digest(fetch(words[2]), all));
}
