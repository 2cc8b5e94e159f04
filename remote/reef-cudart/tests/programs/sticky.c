// An error that breaks the context stays the thread's last one. Others do not.
#include "registered.h"

int cuStreamWaitValue32_v2(stream_t, unsigned long long, unsigned, unsigned);
int cudaHostRegister(void *, size_t, unsigned);
int cudaHostUnregister(void *);

static uint32_t words[1024];

int main(void) {
    void *memory;
    uint64_t value;
    stream_t stream;
    CHECK(cudaMalloc(&memory, 8));
    CHECK(cudaStreamCreate(&stream));
    EXPECT(1, cudaMalloc(0, 8));
    EXPECT(1, cudaGetLastError());
    CHECK(cudaGetLastError()); // not sticky
    // A stream waits for a word that goes away.
    CHECK(cudaHostRegister(words, sizeof words, 0));
    CHECK(cuStreamWaitValue32_v2(stream, (uintptr_t)words, 1, 0));
    CHECK(cudaHostUnregister(words));
    EXPECT(700, cudaStreamSynchronize(stream));
    EXPECT(700, cudaGetLastError());
    EXPECT(700, cudaGetLastError());
    EXPECT(98, launch(unregistered, 0, 0, 0));
    EXPECT(700, cudaPeekAtLastError()); // the first one
    EXPECT(700, cudaMemcpy(&value, memory, 8, TO_HOST));
    puts("all as it must be");
    return 0;
}
