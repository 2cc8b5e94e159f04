// A program as for REEF's CUDA port: preempts one stream of two. Needs no kernels, so that it runs on any GPU and on the
// driver that is made of functions: each command copies a byte one place further, which shows how many have run, and that
// they ran in order.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <reef.h>
#include <thread>

extern "C" {
typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr;
int cuInit(unsigned flags);
int cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
int cuCtxSetCurrent(CUcontext context);
int cuMemAlloc_v2(CUdeviceptr *at, std::size_t bytes);
int cuMemsetD8Async(CUdeviceptr at, unsigned char value, std::size_t bytes, CUstream stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, std::size_t bytes, CUstream stream);
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuStreamQuery(CUstream stream);
int cuStreamSynchronize(CUstream stream);
int cuStreamBeginCapture_v2(CUstream stream, int mode);
}

namespace {

constexpr unsigned NON_BLOCKING = 1;
constexpr int NOT_READY = 600;
constexpr std::size_t CELLS = 4096;

void want(bool is_so, const char *what, int line) {
    if (!is_so) {
        std::printf("line %d: not so: %s (%s)\n", line, what, reef::reefPreemptError());
        std::exit(1);
    }
}
#define WANT(what) want((what), #what, __LINE__)

struct Stream {
    CUstream handle = nullptr;
    CUdeviceptr cells = 0;
    std::size_t given = 0;

    Stream() {
        WANT(cuStreamCreate(&handle, NON_BLOCKING) == 0);
        WANT(cuMemAlloc_v2(&cells, CELLS) == 0);
        WANT(cuMemsetD8Async(cells, 0, CELLS, handle) == 0);
        WANT(cuMemsetD8Async(cells, 1, 1, handle) == 0);
        WANT(cuStreamSynchronize(handle) == 0);
    }
    // The first one copies cell 0 to cell 1, and so on.
    void run(int commands) {
        WANT(given + commands < CELLS);
        for (int i = 0; i < commands; i++, given++)
            WANT(cuMemcpyDtoDAsync_v2(cells + given + 1, cells + given, 1, handle) == 0);
    }
    // Number of launches that have run, as another stream sees it.
    std::size_t ran(const Stream &reader) const {
        static unsigned char seen[CELLS];
        WANT(cuMemcpyDtoHAsync_v2(seen, cells, CELLS, reader.handle) == 0);
        WANT(cuStreamSynchronize(reader.handle) == 0);
        std::size_t count = 0;
        while (count + 1 < CELLS && seen[count + 1] == 1)
            count++;
        for (std::size_t at = count + 1; at < CELLS; at++)
            WANT(seen[at] == 0); // none out of order
        return count;
    }
    void finish(const Stream &reader) {
        WANT(cuStreamSynchronize(handle) == 0);
        WANT(ran(reader) == given);
    }
};

void misuse(Stream &stream) {
    reef::PreemptLevel level = reef::PreemptAll;
    WANT(reef::preempt(stream.handle) == reef::REEF_ERROR_NOT_FOUND);
    WANT(reef::restore(stream.handle) == reef::REEF_ERROR_NOT_FOUND);
    WANT(reef::disablePreemption(stream.handle) == reef::REEF_ERROR_NOT_FOUND);
    WANT(reef::enablePreemption(nullptr) == reef::REEF_ERROR_INVALID_VALUE);
    WANT(reef::preempt(nullptr, true) == reef::REEF_ERROR_INVALID_VALUE);
    WANT(reef::enablePreemption(stream.handle, {32, 8, -1, reef::PreemptAll}) == reef::REEF_ERROR_INVALID_VALUE);
    WANT(std::strstr(reef::reefPreemptError(), "level 2"));
    WANT(reef::enablePreemption(reinterpret_cast<CUstream>(std::uintptr_t(1))) == reef::REEF_ERROR_INVALID_VALUE);
    WANT(reef::enablePreemption(stream.handle) == reef::REEF_SUCCESS);
    WANT(reef::enablePreemption(stream.handle) == reef::REEF_ERROR_ALREADY_EXIST);
    WANT(reef::reefPreemptLevel(stream.handle, &level) == reef::REEF_SUCCESS && level == reef::PreemptHostQueue);
    WANT(reef::restore(stream.handle) == reef::REEF_SUCCESS);
    WANT(cuStreamBeginCapture_v2(stream.handle, 2) == 0);
    WANT(reef::preempt(stream.handle) == reef::REEF_ERROR_INVALID_VALUE);
    WANT(std::strstr(reef::reefPreemptError(), "captured"));
}

// The low stream stands while the high one runs, and goes on where it stood.
void preempts(Stream &low, Stream &high) {
    WANT(reef::enablePreemption(low.handle, {32, 8, -1, reef::PreemptHostQueue}) == reef::REEF_SUCCESS);
    for (int round = 1; round <= 20; round++) {
        low.run(8);
        WANT(reef::preempt(low.handle, true) == reef::REEF_SUCCESS);
        const std::size_t before = low.given;
        WANT(low.ran(high) == before); // it has waited
        low.run(8);
        WANT(reef::preempt(low.handle, round % 2) == reef::REEF_SUCCESS); // twice is once
        high.run(8);
        high.finish(high);
        WANT(low.ran(high) == before);
        WANT(cuStreamQuery(low.handle) == NOT_READY);
        WANT(reef::restore(low.handle) == reef::REEF_SUCCESS);
        if (round % 3 == 0)
            low.finish(high);
    }
    low.finish(high);
}

// One thread submits, and another one preempts and restores, without a context of its own.
void threads(Stream &low, Stream &high) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
        for (int i = 0; !stop; i++)
            WANT((i % 2 ? reef::restore(low.handle) : reef::preempt(low.handle, false)) == reef::REEF_SUCCESS);
    });
    for (int i = 0; i < 500; i++)
        low.run(1);
    stop = true;
    other.join();
    WANT(reef::restore(low.handle) == reef::REEF_SUCCESS);
    low.finish(high);
}

// Disabling restores.
void disables(Stream &low, Stream &high) {
    WANT(reef::preempt(low.handle) == reef::REEF_SUCCESS);
    low.run(1);
    WANT(reef::disablePreemption(low.handle) == reef::REEF_SUCCESS);
    low.finish(high);
    WANT(reef::preempt(low.handle) == reef::REEF_ERROR_NOT_FOUND);
    WANT(reef::enablePreemption(low.handle) == reef::REEF_SUCCESS);
    WANT(reef::disablePreemption(low.handle) == reef::REEF_SUCCESS);
}

} // namespace

int main() {
    static_assert(sizeof(reef::RFconfig) == 24, "as the port has it");
    Stream *never = nullptr;
    WANT(reef::enablePreemption(reinterpret_cast<CUstream>(&never)) == reef::REEF_ERROR_INVALID_VALUE); // no context
    CUcontext context;
    WANT(cuInit(0) == 0 && cuCtxCreate_v2(&context, 0, 0) == 0 && cuCtxSetCurrent(context) == 0);
    Stream low, high, other;
    preempts(low, high);
    threads(low, high);
    disables(low, high);
    misuse(other);
    std::puts("preempted and restored");
    return 0;
}
