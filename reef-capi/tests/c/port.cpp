// A program as for REEF's CUDA port: preempts one stream of two. Runs on the driver that is made of functions, whose kernel
// `mix(p, v)` is *p = *p * K + v: it shows order.

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
typedef struct CUfunc_st *CUfunction;
typedef struct CUmod_st *CUmodule;
int cuInit(unsigned flags);
int cuCtxCreate_v2(CUcontext *context, unsigned flags, int device);
int cuCtxSetCurrent(CUcontext context);
int cuModuleLoadData(CUmodule *module, const void *image);
int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
int cuMemAlloc_v2(std::uint64_t **at, std::size_t bytes);
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuStreamDestroy_v2(CUstream stream);
int cuStreamQuery(CUstream stream);
int cuStreamSynchronize(CUstream stream);
int cuStreamBeginCapture_v2(CUstream stream, int mode);
int cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                   CUstream stream, void **params, void **extra);
}

namespace {

constexpr std::uint64_t K = 6364136223846793005;
constexpr unsigned NON_BLOCKING = 1;

void want(bool is_so, const char *what, int line) {
    if (!is_so) {
        std::printf("line %d: not so: %s (%s)\n", line, what, reef::reefPreemptError());
        std::exit(1);
    }
}
#define WANT(what) want((what), #what, __LINE__)

CUfunction mix;

void launch(CUstream stream, std::uint64_t *to, std::uint64_t value) {
    void *params[] = {&to, &value};
    WANT(cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr) == 0);
}

struct Stream {
    CUstream handle = nullptr;
    std::uint64_t *word = nullptr;
    std::uint64_t expected = 0;

    Stream() {
        WANT(cuStreamCreate(&handle, NON_BLOCKING) == 0);
        WANT(cuMemAlloc_v2(&word, sizeof *word) == 0);
    }
    void run(std::uint64_t value) {
        launch(handle, word, value);
        expected = expected * K + value;
    }
    void finish() {
        WANT(cuStreamSynchronize(handle) == 0);
        WANT(*word == expected);
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
    for (std::uint64_t round = 1; round <= 20; round++) {
        for (int i = 0; i < 8; i++)
            low.run(round + i);
        const std::uint64_t before = low.expected;
        WANT(reef::preempt(low.handle, true) == reef::REEF_SUCCESS);
        WANT(*low.word == before); // it has waited
        for (int i = 0; i < 8; i++)
            low.run(round * i);
        WANT(reef::preempt(low.handle, round % 2) == reef::REEF_SUCCESS); // twice is once
        high.run(round);
        high.finish();
        WANT(*low.word == before);
        WANT(cuStreamQuery(low.handle) == 600);
        WANT(reef::restore(low.handle) == reef::REEF_SUCCESS);
        if (round % 3 == 0)
            low.finish();
    }
    low.finish();
}

// One thread preempts and another one restores, without a context of its own.
void threads(Stream &low) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
        for (int i = 0; !stop; i++)
            WANT((i % 2 ? reef::restore(low.handle) : reef::preempt(low.handle, false)) == reef::REEF_SUCCESS);
    });
    for (int i = 0; i < 500; i++)
        low.run(i);
    stop = true;
    other.join();
    WANT(reef::restore(low.handle) == reef::REEF_SUCCESS);
    low.finish();
}

// Disabling restores.
void disables(Stream &low) {
    WANT(reef::preempt(low.handle) == reef::REEF_SUCCESS);
    low.run(7);
    WANT(reef::disablePreemption(low.handle) == reef::REEF_SUCCESS);
    low.finish();
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
    CUmodule module;
    WANT(cuInit(0) == 0 && cuCtxCreate_v2(&context, 0, 0) == 0 && cuCtxSetCurrent(context) == 0);
    WANT(cuModuleLoadData(&module, "") == 0 && cuModuleGetFunction(&mix, module, "mix") == 0);
    Stream low, high, other;
    misuse(other);
    preempts(low, high);
    threads(low);
    disables(low);
    std::puts("preempted and restored");
    return 0;
}
