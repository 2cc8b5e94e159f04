// Memory that NVIDIA's driver takes for small allocations and for arrays: `nvcc -std=c++17 sizes.cu -lcuda && ./a.out`.
// For each size: what the device has less while all are there, while one of each block of 2 MiB is, and after the last.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <set>
#include <vector>

static long before;

static long free_kib() {
    size_t free, total;
    cuMemGetInfo(&free, &total);
    return long(free >> 10);
}

static void say(const char *when) { printf("  %s: %ld KiB\n", when, before - free_kib()); }

static void linear(size_t bytes, size_t count) {
    before = free_kib();
    std::vector<CUdeviceptr> all;
    std::set<uint64_t> blocks;
    CUdeviceptr at;
    while (all.size() < count && cuMemAlloc(&at, bytes) == CUDA_SUCCESS) all.push_back(at);
    for (CUdeviceptr one : all) blocks.insert(one >> 21);
    printf("%zu allocations of %zu bytes, in %zu blocks of 2 MiB\n", all.size(), bytes, blocks.size());
    say("all");
    std::vector<CUdeviceptr> kept;
    for (CUdeviceptr one : all) {
        if (blocks.erase(one >> 21)) kept.push_back(one);
        else cuMemFree(one);
    }
    say("one of each block");
    for (CUdeviceptr one : kept) cuMemFree(one);
    say("none");
}

static void arrays(CUDA_ARRAY3D_DESCRIPTOR of, unsigned levels) {
    before = free_kib();
    std::vector<CUmipmappedArray> mipmapped;
    std::vector<CUarray> all;
    for (int at = 0; at < 64; at++) {
        CUarray array;
        CUmipmappedArray steps;
        if (levels > 1) {
            if (cuMipmappedArrayCreate(&steps, &of, levels) == CUDA_SUCCESS) mipmapped.push_back(steps);
        } else if (cuArray3DCreate(&array, &of) == CUDA_SUCCESS) {
            all.push_back(array);
        }
    }
    size_t count = all.size() + mipmapped.size();
    printf("%zu arrays of %zu x %zu x %zu, %u channels, format %#x, %u levels: %.1f KiB each\n", count, of.Width, of.Height,
           of.Depth, of.NumChannels, unsigned(of.Format), levels, count ? double(before - free_kib()) / double(count) : 0.0);
    for (size_t at = 1; at < all.size(); at++) cuArrayDestroy(all[at]);
    if (!all.empty()) {
        say("one");
        cuArrayDestroy(all[0]);
    }
    for (CUmipmappedArray one : mipmapped) cuMipmappedArrayDestroy(one);
    say("none");
}

int main() {
    CUdevice device;
    CUcontext context;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) {
        fprintf(stderr, "no device\n");
        return 1;
    }
    for (size_t bytes : {1ul, 512ul, 4096ul, 65536ul, 262144ul, 1048576ul, 1048577ul, 2097152ul, 2097153ul, 4194305ul})
        linear(bytes, bytes < 65536 ? 4096 : 64);
    const CUarray_format byte = CU_AD_FORMAT_UNSIGNED_INT8, real = CU_AD_FORMAT_FLOAT;
    const CUDA_ARRAY3D_DESCRIPTOR shapes[] = {
        {64, 64, 0, byte, 4, 0},       {100, 100, 0, real, 1, 0},   {256, 256, 0, byte, 4, 0},
        {512, 512, 0, byte, 4, 0},     {513, 513, 0, byte, 4, 0},   {1000, 1000, 0, real, 1, 0},
        {1100, 1100, 0, real, 4, 0},   {64, 64, 64, real, 1, 0},    {100, 100, 100, real, 1, 0},
        {256, 256, 6, real, 1, CUDA_ARRAY3D_CUBEMAP},               {1024, 1024, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0},
        {4096, 4096, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0},              {100000, 0, 0, real, 1, 0},
        {500, 300, 3, real, 1, 0},     {500, 300, 5, real, 1, 0},   {500, 300, 9, real, 1, 0},
        {500, 300, 17, real, 1, 0},    {500, 300, 33, real, 1, 0},  {500, 300, 65, real, 1, 0},
        {100, 4, 33, real, 1, 0},      {500, 300, 5, real, 1, CUDA_ARRAY3D_LAYERED},
    };
    for (const CUDA_ARRAY3D_DESCRIPTOR &of : shapes) arrays(of, 1);
    arrays({1000, 1000, 0, byte, 4, 0}, 10);
}
