// What a program may hold by small allocations, of which it frees all but one in each block of 2 MiB:
// `nvcc -std=c++17 small.cu -lcuda -o small`, then `./small` and `reef exec --memory 1GiB -- ./small`.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <vector>

using Clock = std::chrono::steady_clock;

static double micros_each(Clock::time_point begin, size_t count) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / double(count);
}

static size_t free_mib() {
    size_t free, total;
    cuMemGetInfo(&free, &total);
    return free >> 20;
}

/// Allocates 4 KiB up to `most` times. Returns the code that ended it.
static CUresult fill(std::vector<CUdeviceptr> &all, size_t most) {
    CUdeviceptr at;
    CUresult code = CUDA_SUCCESS;
    while (all.size() < most && (code = cuMemAlloc(&at, 4096)) == CUDA_SUCCESS) all.push_back(at);
    return code;
}

int main() {
    CUdevice device;
    CUcontext context;
    CUdeviceptr at;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) {
        fprintf(stderr, "no device\n");
        return 1;
    }
    std::vector<CUdeviceptr> all;
    auto begin = Clock::now();
    fill(all, 20000);
    printf("%zu allocations of 4 KiB, %.2f us each\n", all.size(), micros_each(begin, all.size()));
    begin = Clock::now();
    for (CUdeviceptr one : all) cuMemFree(one);
    printf("%.2f us for each free\n", micros_each(begin, all.size()));
    all.clear();

    CUresult code = fill(all, 300000);
    printf("%zu allocations, %zu MiB, code %d\n", all.size(), all.size() * 4096 >> 20, int(code));
    std::set<unsigned long long> blocks;
    for (CUdeviceptr one : all) blocks.insert(one >> 21);
    size_t count = blocks.size();
    std::vector<CUdeviceptr> kept;
    for (CUdeviceptr one : all) {
        if (blocks.erase(one >> 21)) kept.push_back(one);
        else cuMemFree(one);
    }
    size_t free = free_mib();
    code = cuMemAlloc(&at, 64 << 20);
    printf("one kept in each of %zu blocks: %zu MiB free, 64 MiB more: code %d\n", count, free, int(code));
    if (code == CUDA_SUCCESS) cuMemFree(at);
    for (CUdeviceptr one : kept) cuMemFree(one);
    free = free_mib();
    code = cuMemAlloc(&at, 900u << 20);
    printf("none kept: %zu MiB free, 900 MiB more: code %d\n", free, int(code));
}
