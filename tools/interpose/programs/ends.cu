// Streams that are destroyed with work, and a device that is reset in the middle: what was there before has run, and what
// comes after is as new.
#include "program.h"

constexpr int STREAMS = 100, KERNELS = 50, RESETS = 3;

int main() {
    uint64_t all = 14695981039346656037ull;
    for (int round = 0; round < RESETS; round++) {
        uint64_t *words = zeroed();
        cudaEvent_t last;
        CHECK(cudaEventCreateWithFlags(&last, cudaEventDisableTiming));
        for (int at = 0; at < STREAMS; at++) {
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            if (at > 0) CHECK(cudaStreamWaitEvent(stream, last, 0));
            for (int kernel = 0; kernel < KERNELS; kernel++)
                mix<<<blocks(), 256, 0, stream>>>(words, WORDS, 1000 * round + at + kernel);
            CHECK(cudaGetLastError());
            CHECK(cudaEventRecord(last, stream));
            CHECK(cudaStreamDestroy(stream)); // returns at once; its handle may be the next one's
        }
        CHECK(cudaEventSynchronize(last));
        all = digest(fetch(words), all);
        CHECK(cudaDeviceReset());
    }
    return end("ends", all);
}
