// Errors: of each thread, kept until they are asked for, sticky or not.
#include "registered.h"
#include <pthread.h>

static void *other(void *unused) {
    CHECK(cudaPeekAtLastError()); // the first thread's error is not this one's
    EXPECT(1, cudaMalloc(0, 8));
    EXPECT(1, cudaPeekAtLastError());
    return unused;
}

static void *worker(void *memory) {
    for (int at = 0; at < 200; at++) CHECK(launch(add, memory, 1, 0));
    return 0;
}

int main(void) {
    uint64_t *memory, value = 0;
    pthread_t threads[8];
    EXPECT(98, launch(unregistered, 0, 0, 0)); // no context was needed to say so
    EXPECT(98, cudaPeekAtLastError());
    EXPECT(98, cudaGetLastError());
    CHECK(cudaGetLastError());
    EXPECT(98, launch(no_such, 0, 0, 0)); // registered, and not in the image
    CHECK(cudaMalloc((void **)&memory, 8));
    EXPECT(98, cudaPeekAtLastError()); // a success forgets nothing
    CHECK(pthread_create(&threads[0], 0, other, 0));
    CHECK(pthread_join(threads[0], 0));
    EXPECT(98, cudaGetLastError());
    CHECK(strcmp(cudaGetErrorName(98), "cudaErrorInvalidDeviceFunction"));
    CHECK(strcmp(cudaGetErrorName(12345), "unrecognized error code"));

    void *params[] = {&memory, &value};
    EXPECT(9, cudaLaunchKernel(add, (dim3){0, 1, 1}, ONE, params, 0, 0));
    EXPECT(9, cudaGetLastError());
    EXPECT(801, cudaCreateTextureObject(0, 0, 0, 0));
    EXPECT(801, cudaCreateTextureObject(0, 0, 0, 0));
    EXPECT(801, cudaGetLastError());
    EXPECT(101, cudaSetDevice(9));
    EXPECT(21, cudaMemcpy(memory, &value, 8, 5));
    EXPECT(21, cudaGetLastError());

    CHECK(cudaMemcpy(memory, &value, 8, TO_DEVICE));
    for (int at = 0; at < 8; at++) CHECK(pthread_create(&threads[at], 0, worker, memory));
    for (int at = 0; at < 8; at++) CHECK(pthread_join(threads[at], 0));
    CHECK(cudaMemcpy(&value, memory, 8, TO_HOST));
    EXPECT(1600, value);
    CHECK(cudaGetLastError());
    puts("all as it must be");
    return 0;
}
