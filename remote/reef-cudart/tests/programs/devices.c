// Two devices, and a context of the program's own.
#include "registered.h"

int cuCtxCreate_v2(void **, unsigned, int);
int cuCtxGetCurrent(void **);
int cuCtxSetCurrent(void *);
int cudaGetDeviceProperties_v2(void *, int);
int cudaDeviceReset(void);

int main(void) {
    int count = 0, device = -1;
    void *of[2], *own, *now;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(2, count);
    for (int at = 0; at < 2; at++) {
        CHECK(cudaSetDevice(at));
        CHECK(cudaGetDevice(&device));
        EXPECT(at, device);
        CHECK(cuCtxGetCurrent(&of[at]));
        void *memory;
        uint64_t value = 0;
        CHECK(cudaMalloc(&memory, 8));
        CHECK(cudaMemset(memory, 0, 8));
        CHECK(launch(add, memory, 3 + at, 0));
        CHECK(cudaMemcpy(&value, memory, 8, TO_HOST));
        EXPECT(3 + at, value);
    }
    EXPECT(1, of[0] != of[1]);

    CHECK(cuCtxCreate_v2(&own, 0, 0)); // it is current now
    void *memory;
    CHECK(cudaMalloc(&memory, 8));
    CHECK(launch(add, memory, 1, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cuCtxGetCurrent(&now));
    EXPECT(1, now == own);
    CHECK(cudaGetDevice(&device));
    EXPECT(0, device); // its device, not that of the last cudaSetDevice
    CHECK(cudaSetDevice(1));
    CHECK(cuCtxGetCurrent(&now));
    EXPECT(1, now == of[1]);
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&memory, 8)); // it begins again
    puts("all as it must be");
    return 0;
}
