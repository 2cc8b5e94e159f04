// How many blocks a microsecond leave at their beginning: at once, after a poll of a word, or after a poll that all threads
// of the block share at a barrier.
//
//     nvcc -O3 -arch=sm_90 -o leave tools/variants/leave.cu && ./leave
#include <cstdio>
#include <cuda_runtime.h>

__global__ void at_once(const int *) {}

__global__ void by_each(const int *word) {
    if (*static_cast<const volatile int *>(word)) asm volatile("trap;");
}

__global__ void by_one(const int *word) {
    bool leaves = threadIdx.x == 0 && *static_cast<const volatile int *>(word) == 0;
    if (!__syncthreads_or(leaves)) asm volatile("trap;");
}

int main() {
    int *word;
    cudaMalloc(&word, 4);
    cudaMemset(word, 0, 4);
    cudaEvent_t from, to;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    const unsigned blocks = 1 << 20;
    void (*kernels[])(const int *) = {at_once, by_each, by_one};
    const char *names[] = {"at once", "after a poll of each thread", "after a poll of one, and a barrier"};
    for (int which = 0; which < 3; which++)
        for (int shared : {0, 100 << 10})
            for (int threads : {64, 256, 1024}) {
                if (shared) cudaFuncSetAttribute(kernels[which], cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
                float best = 1e9, took;
                for (int round = 0; round < 4; round++) {
                    cudaEventRecord(from);
                    kernels[which]<<<blocks, threads, shared>>>(word);
                    cudaEventRecord(to);
                    cudaEventSynchronize(to);
                    cudaEventElapsedTime(&took, from, to);
                    if (took < best) best = took;
                }
                std::printf("%s, %d threads, %d KiB of shared memory: %.0f blocks a microsecond\n", names[which], threads, shared >> 10,
                            blocks / best / 1e3);
            }
    return cudaGetLastError();
}
