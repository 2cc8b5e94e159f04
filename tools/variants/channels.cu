// Which streams wait for each other in the hardware although they don't by their order, and which calls of another thread keep a
// thread from launching. Prints a table.
//
//     nvcc -O2 -o channels tools/variants/channels.cu -lcuda && ./channels
//
// A stream waits for a word of the host. If a write on another stream doesn't come meanwhile, both share a channel of the device.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <functional>
#include <string>
#include <thread>
#include <vector>

static void check(CUresult code, const char *what) {
    if (code) { std::printf("%s: code %d\n", what, code); std::fflush(stdout); std::exit(1); }
}
#define CALL(call) check(call, #call)
using Clock = std::chrono::steady_clock;
static double micros(Clock::time_point from) { return std::chrono::duration<double, std::micro>(Clock::now() - from).count(); }

static volatile unsigned *host;
static CUdeviceptr device;
static unsigned turn = 0;
enum { BLOCK = 0, SEEN = 16 };

// Returns whether a write on `other` comes while `stream` waits.
static bool passes(CUstream stream, CUstream other) {
    turn++;
    CALL(cuStreamWaitValue32(stream, device + 4 * BLOCK, turn, CU_STREAM_WAIT_VALUE_GEQ));
    CALL(cuStreamWriteValue32(other, device + 4 * SEEN, turn, 0));
    auto from = Clock::now();
    bool came = false;
    while (!(came = host[SEEN] == turn) && micros(from) < 3000) {}
    host[BLOCK] = turn;
    CALL(cuStreamSynchronize(stream));
    CALL(cuStreamSynchronize(other));
    return came;
}

static const char *PTX = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry one() { ret; }\n";

int main() {
    CUdevice dev;
    CUcontext context;
    CALL(cuInit(0));
    CALL(cuDeviceGet(&dev, 0));
    CALL(cuDevicePrimaryCtxRetain(&context, dev));
    CALL(cuCtxSetCurrent(context));
    CALL(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < 1024; i++) host[i] = 0;
    CALL(cuMemHostGetDevicePointer(&device, (void *)host, 0));
    int least, greatest;
    CALL(cuCtxGetStreamPriorityRange(&least, &greatest));
    std::printf("priorities %d to %d, connections %s\n", least, greatest, getenv("CUDA_DEVICE_MAX_CONNECTIONS"));

    std::vector<CUstream> streams(40);
    for (auto &stream : streams) CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    std::vector<std::pair<std::string, CUstream>> others;
    for (int priority = least; priority >= greatest; priority--) {
        CUstream stream;
        CALL(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority));
        others.push_back({"priority " + std::to_string(priority), stream});
        if (priority == greatest) {
            CALL(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority));
            others.push_back({"priority " + std::to_string(priority) + " again", stream});
        }
    }
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream in_green, second;
    CUresult code = cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM);
    if (!code) code = cuDevResourceGenerateDesc(&description, &all, 1);
    if (!code) code = cuGreenCtxCreate(&green, description, dev, CU_GREEN_CTX_DEFAULT_STREAM);
    if (!code) code = cuGreenCtxStreamCreate(&in_green, green, CU_STREAM_NON_BLOCKING, 0);
    if (!code) code = cuGreenCtxStreamCreate(&second, green, CU_STREAM_NON_BLOCKING, greatest);
    std::printf("green context: code %d\n", code);
    if (!code) {
        others.push_back({"green context", in_green});
        others.push_back({"green context, greatest", second});
    }
    for (auto &[name, other] : others) {
        int blocked = 0;
        for (auto stream : streams) blocked += !passes(stream, other);
        std::printf("%-28s kept by %d of %zu streams of default priority", name.c_str(), blocked, streams.size());
        int among = 0;
        for (auto &[_, stream] : others) among += stream != other && !passes(stream, other);
        std::printf(", by %d of the others; by the legacy stream: %d\n", among, !passes(CU_STREAM_LEGACY, other));
        std::fflush(stdout);
    }

    // Launches while another thread is inside a call that waits.
    CUmodule module;
    CUfunction function;
    CALL(cuModuleLoadData(&module, PTX));
    CALL(cuModuleGetFunction(&function, module, "one"));
    CUstream launches = others.back().second, waits = streams[0];
    CALL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, launches, nullptr, nullptr));
    CALL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, waits, nullptr, nullptr));
    CALL(cuCtxSynchronize());
    CUdeviceptr memory[2];
    void *pinned, *page = aligned_alloc(4096, 4096);
    CUevent event;
    CUmodule extra, last;
    CALL(cuEventCreate(&event, 0));
    CUstream spare;
    CALL(cuStreamCreate(&spare, 0));
    for (auto &each : memory) CALL(cuMemAlloc(&each, 1 << 20));
    CALL(cuMemHostAlloc(&pinned, 4096, 0));
    CALL(cuMemHostRegister(page, 4096, 0));
    CALL(cuModuleLoadData(&last, PTX));
    char word[64];
    CUdeviceptr got;
    std::vector<std::pair<const char *, std::function<void()>>> calls = {
        {"cuStreamSynchronize", [&] { cuStreamSynchronize(waits); }},
        {"cuCtxSynchronize", [&] { cuCtxSynchronize(); }},
        {"cuEventSynchronize", [&] { cuEventSynchronize(event); }},
        {"cuMemcpyDtoH", [&] { cuMemcpyDtoH(word, memory[0], 64); }},
        {"cuMemcpyDtoHAsync, pageable", [&] { cuMemcpyDtoHAsync(word, memory[0], 64, waits); }},
        {"cuMemFree", [&] { cuMemFree(memory[1]); }},
        {"cuMemAlloc", [&] { cuMemAlloc(&got, 64 << 20); }},
        {"cuMemFreeHost", [&] { cuMemFreeHost(pinned); }},
        {"cuMemHostUnregister", [&] { cuMemHostUnregister(page); }},
        {"cuModuleLoadData", [&] { cuModuleLoadData(&extra, PTX); }},
        {"cuModuleUnload", [&] { cuModuleUnload(last); }},
        {"cuStreamDestroy", [&] { cuStreamDestroy(spare); }},
    };
    for (auto &[name, call] : calls) {
        turn++;
        CALL(cuStreamWaitValue32(waits, device + 4 * BLOCK, turn, CU_STREAM_WAIT_VALUE_GEQ));
        CALL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, waits, nullptr, nullptr));
        CALL(cuEventRecord(event, waits));
        std::atomic<bool> back{false}, launched{false};
        std::thread caller([&] { cuCtxSetCurrent(context); call(); back = true; });
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        bool was_back = back;
        std::thread launcher([&] {
            cuCtxSetCurrent(context);
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, launches, nullptr, nullptr);
            cuStreamWriteValue32(launches, device + 4 * SEEN, turn, 0);
            launched = true;
        });
        auto from = Clock::now();
        while (!launched && micros(from) < 30000) {}
        bool was_launched = launched;
        while (host[SEEN] != turn && micros(from) < 40000) {}
        bool came = host[SEEN] == turn;
        host[BLOCK] = turn;
        caller.join();
        launcher.join();
        CALL(cuCtxSynchronize());
        std::printf("inside %-28s %s; a launch of another thread %s, and %s\n", name, was_back ? "returned at once" : "waits",
                    was_launched ? "returns" : "IS KEPT", came ? "runs" : "DOES NOT RUN");
        std::fflush(stdout);
    }
    std::_Exit(0);
}
