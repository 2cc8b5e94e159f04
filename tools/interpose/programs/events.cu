// Streams that pass work to each other by events, host functions in a stream's order, queries and times.
#include "program.h"

constexpr int ROUNDS = 1000;

static void CUDART_CB count(void *at) { ++*static_cast<uint64_t *>(at); }

int main() {
    cudaStream_t streams[2];
    cudaEvent_t passed[2], begin, last;
    uint64_t *words[2] = {zeroed(), zeroed()}, calls = 0;
    for (int side = 0; side < 2; side++) {
        CHECK(cudaStreamCreateWithFlags(&streams[side], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&passed[side], cudaEventDisableTiming));
    }
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&last));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(begin, streams[0]));
    for (int round = 0; round < ROUNDS; round++) {
        int from = round % 2, to = 1 - from;
        for (int kernel = 0; kernel < 10; kernel++) mix<<<blocks(), 256, 0, streams[from]>>>(words[from], WORDS, kernel);
        CHECK(cudaLaunchHostFunc(streams[from], count, &calls));
        CHECK(cudaEventRecord(passed[from], streams[from]));
        CHECK(cudaStreamWaitEvent(streams[to], passed[from], 0));
        join<<<blocks(), 256, 0, streams[to]>>>(words[to], words[from], WORDS);
        if (round % 100 == 0) {
            cudaError_t code;
            while ((code = cudaEventQuery(passed[from])) == cudaErrorNotReady) {}
            CHECK(code);
        }
    }
    CHECK(cudaEventRecord(last, streams[ROUNDS % 2]));
    CHECK(cudaEventSynchronize(last));
    float time;
    CHECK(cudaEventElapsedTime(&time, begin, last));
    if (time <= 0 || calls != ROUNDS) {
        fprintf(stderr, "%f ms, %llu calls\n", time, (unsigned long long)calls);
        return 1;
    }
    return end("events", digest(fetch(words[1]), digest(fetch(words[0]))));
}
