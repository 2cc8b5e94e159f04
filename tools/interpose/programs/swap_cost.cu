// What it costs to move a program's memory to the host and back, other than by the driver's checkpoint:
//
//     nvcc -O2 -arch=native -o swap_cost tools/interpose/programs/swap_cost.cu -lcuda -lpthread && ./swap_cost 40
//
// Prints seconds and GB/s (10^9) of each way, for the GiB of the argument (40).
#include <cuda.h>
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#define CHECK(call)                                                                          \
    do {                                                                                     \
        CUresult code = call;                                                                \
        if (code != CUDA_SUCCESS) { printf("%s: code %d\n", #call, code); exit(1); }         \
    } while (0)

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static const size_t MIB = 1 << 20, GIB = 1 << 30;
static CUcontext context;

static void report(const char *what, size_t bytes, double seconds) {
    printf("%-64s %8.3f s %7.1f GB/s\n", what, seconds, bytes / seconds / 1e9);
    fflush(stdout);
}

static char *pageable(size_t bytes) {
    char *at = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) { perror("mmap"); exit(1); }
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

static void in_threads(int threads, std::function<void(int)> run) {
    std::vector<std::thread> all;
    for (int at = 0; at < threads; at++) all.emplace_back(run, at);
    for (auto &one : all) one.join();
}

static void touch(char *at, size_t bytes, int threads) {
    in_threads(threads, [=](int which) {
        size_t part = bytes / threads;
        for (size_t byte = 0; byte < part; byte += 4096) at[which * part + byte] = 1;
    });
}

__global__ void fill(unsigned *words, size_t count, unsigned seed) {
    for (size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x; at < count; at += (size_t)gridDim.x * blockDim.x)
        words[at] = (unsigned)at * 2654435761u + seed;
}
__global__ void verify(const unsigned *words, size_t count, unsigned seed, unsigned long long *wrong) {
    for (size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x; at < count; at += (size_t)gridDim.x * blockDim.x)
        if (words[at] != (unsigned)at * 2654435761u + seed) atomicAdd(wrong, 1ull);
}

// Device memory at one address, in pieces that leave and come back.
struct Memory {
    CUdeviceptr at;
    size_t bytes, piece;
    std::vector<CUmemGenericAllocationHandle> pieces;
    CUmemAllocationProp properties;
    Memory(size_t bytes, size_t piece) : bytes(bytes), piece(piece) {
        memset(&properties, 0, sizeof properties);
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    }
    void take() {
        pieces.resize(bytes / piece);
        for (size_t which = 0; which < pieces.size(); which++) {
            CHECK(cuMemCreate(&pieces[which], piece, &properties, 0));
            CHECK(cuMemMap(at + which * piece, piece, 0, pieces[which], 0));
        }
        CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CHECK(cuMemSetAccess(at, bytes, &access, 1));
    }
    void give() {
        CHECK(cuMemUnmap(at, bytes));
        for (auto handle : pieces) CHECK(cuMemRelease(handle));
    }
};

// Copies by a ring of pinned buffers for each of some threads.
static void staged(CUdeviceptr device, char *host, size_t bytes, int threads, size_t chunk, char *pinned, bool is_out) {
    std::atomic<size_t> next{0};
    in_threads(threads, [&](int which) {
        CHECK(cuCtxSetCurrent(context));
        CUstream stream;
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        char *buffers[2] = {pinned + (2 * which) * chunk, pinned + (2 * which + 1) * chunk};
        CUevent events[2];
        CHECK(cuEventCreate(&events[0], CU_EVENT_DISABLE_TIMING));
        CHECK(cuEventCreate(&events[1], CU_EVENT_DISABLE_TIMING));
        size_t before[2] = {SIZE_MAX, SIZE_MAX};
        for (int turn = 0;; turn ^= 1) {
            size_t at = next.fetch_add(chunk);
            bool is_over = at >= bytes;
            if (is_out) {
                if (!is_over) {
                    CHECK(cuMemcpyDtoHAsync(buffers[turn], device + at, chunk, stream));
                    CHECK(cuEventRecord(events[turn], stream));
                }
                before[turn] = is_over ? SIZE_MAX : at;
                int other = turn ^ 1;
                if (before[other] != SIZE_MAX) {
                    CHECK(cuEventSynchronize(events[other]));
                    memcpy(host + before[other], buffers[other], chunk);
                    before[other] = SIZE_MAX;
                }
                if (is_over) break;
            } else {
                if (is_over) break;
                if (before[turn] != SIZE_MAX) CHECK(cuEventSynchronize(events[turn]));
                memcpy(buffers[turn], host + at, chunk);
                CHECK(cuMemcpyHtoDAsync(device + at, buffers[turn], chunk, stream));
                CHECK(cuEventRecord(events[turn], stream));
                before[turn] = at;
            }
        }
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy(stream));
    });
}

int main(int count, char **arguments) {
    size_t gib = count > 1 ? atoi(arguments[1]) : 40, bytes = gib * GIB, some = 8 * GIB;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    cudaFree(nullptr);
    printf("%zu GiB, %u threads of the host\n", gib, std::thread::hardware_concurrency());

    // Pinned memory.
    void *host;
    double begin = now();
    CHECK(cuMemHostAlloc(&host, some, CU_MEMHOSTALLOC_PORTABLE));
    report("cuMemHostAlloc of 8 GiB", some, now() - begin);
    CUdeviceptr plain;
    CHECK(cuMemAlloc(&plain, some));
    for (int turn = 0; turn < 2; turn++) {
        begin = now();
        CHECK(cuMemcpyDtoH(host, plain, some));
        report("out of cuMemAlloc into pinned memory", some, now() - begin);
        begin = now();
        CHECK(cuMemcpyHtoD(plain, host, some));
        report("in from pinned memory", some, now() - begin);
    }
    begin = now();
    CHECK(cuMemFreeHost(host));
    report("cuMemFreeHost", some, now() - begin);
    CHECK(cuMemFree(plain));
    for (int threads : {1, 4, 8, 16}) {
        char *at = pageable(some);
        char name[64];
        begin = now();
        touch(at, some, threads);
        snprintf(name, sizeof name, "first touch of 8 GiB, %d threads", threads);
        report(name, some, now() - begin);
        if (threads == 1 || threads == 8) {
            begin = now();
            in_threads(threads, [=](int which) {
                CHECK(cuCtxSetCurrent(context));
                CHECK(cuMemHostRegister(at + which * (some / threads), some / threads, CU_MEMHOSTREGISTER_PORTABLE));
            });
            snprintf(name, sizeof name, "cuMemHostRegister of touched memory, %d threads", threads);
            report(name, some, now() - begin);
            begin = now();
            in_threads(threads, [=](int which) {
                CHECK(cuCtxSetCurrent(context));
                CHECK(cuMemHostUnregister(at + which * (some / threads)));
            });
            report("cuMemHostUnregister", some, now() - begin);
        }
        munmap(at, some);
    }

    // Device memory by handles.
    for (size_t piece : {2 * MIB, 64 * MIB, GIB}) {
        char name[64];
        Memory memory(bytes, piece);
        for (int turn = 0; turn < 2; turn++) {
            begin = now();
            memory.take();
            snprintf(name, sizeof name, "create, map, access in pieces of %zu MiB", piece / MIB);
            report(name, bytes, now() - begin);
            begin = now();
            memory.give();
            report("unmap, release", bytes, now() - begin);
        }
        CHECK(cuMemAddressFree(memory.at, bytes));
    }

    // All of it.
    Memory memory(bytes, 64 * MIB);
    memory.take();
    size_t words = bytes / 4;
    fill<<<1024, 256>>>((unsigned *)memory.at, words, 7);
    CHECK(cuCtxSynchronize());
    unsigned long long *wrong, *wrong_here = (unsigned long long *)malloc(8);
    CHECK(cuMemAlloc((CUdeviceptr *)&wrong, 8));
    struct { int threads; size_t chunk; } ways[] = {{4, 16 * MIB}, {8, 4 * MIB}, {8, 16 * MIB}, {12, 8 * MIB}, {16, 4 * MIB}};
    char *kept = nullptr;
    for (auto way : ways) {
        for (int turn = 0; turn < 2; turn++) { // the second time into memory that is there
            char name[96];
            double total = now();
            void *pinned;
            CHECK(cuMemHostAlloc(&pinned, 2 * way.threads * way.chunk, CU_MEMHOSTALLOC_PORTABLE));
            double ring = now() - total;
            if (turn == 0) kept = pageable(bytes);
            begin = now();
            staged(memory.at, kept, bytes, way.threads, way.chunk, (char *)pinned, true);
            double copied = now() - begin;
            memory.give();
            snprintf(name, sizeof name, "OUT, %d threads of %zu MiB, %s (ring %.3f s, copy %.3f)", way.threads, way.chunk / MIB,
                     turn == 0 ? "fresh" : "warm", ring, copied);
            report(name, bytes, now() - total);
            total = now();
            memory.take();
            double taken = now() - total;
            staged(memory.at, kept, bytes, way.threads, way.chunk, (char *)pinned, false);
            snprintf(name, sizeof name, "IN (take %.3f s)", taken);
            report(name, bytes, now() - total);
            CHECK(cuMemFreeHost(pinned));
            CHECK(cuMemsetD8((CUdeviceptr)wrong, 0, 8));
            verify<<<1024, 256>>>((unsigned *)memory.at, words, 7, wrong);
            CHECK(cuMemcpyDtoH(wrong_here, (CUdeviceptr)wrong, 8));
            if (*wrong_here) printf("  %llu WRONG WORDS\n", *wrong_here);
        }
        begin = now();
        munmap(kept, bytes);
        report("  munmap", bytes, now() - begin);
    }
    return 0;
}
