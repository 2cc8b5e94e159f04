// What nvcc makes of launches and variables. The driver of the tests runs `add` by its name.
#include <cstdio>

typedef unsigned long long word;

__device__ word variable[4];

extern "C" __global__ void add(word *to, word value) { *to += value; }

#define CHECK(call) do { int code = (call); if (code) { fprintf(stderr, "%s: %d\n", #call, code); return 1; } } while (0)

int main() {
    word *memory, value = 5, four[4] = {1, 2, 3, 4}, back[4] = {};
    cudaDeviceProp properties;
    CHECK(cudaMalloc(&memory, sizeof value));
    CHECK(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice));
    add<<<dim3(2, 3), 64>>>(memory, 37);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value != 42);
    CHECK(cudaMemcpyToSymbol(variable, four, sizeof four));
    CHECK(cudaMemcpyFromSymbol(back, variable, sizeof back));
    CHECK(back[3] != 4);
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(properties.multiProcessorCount != 4);
    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
    CHECK(blocks != 8);
    puts("all as it must be");
    return 0;
}
