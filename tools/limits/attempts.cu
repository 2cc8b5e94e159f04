// Attempts to pass a limit that only a GPU can judge, among them races of threads: one case in a process.
//   reef exec --memory 1GiB -- attempts CASE
//   reef exec --compute 25% -- attempts CASE SECONDS
// The first prints what the program held at once in MiB, the code of a refusal, and what the device has more than before in MiB.
// The second prints the milliseconds of kernels that the program had in each second, and the code that ended it.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static const size_t MIB = 1 << 20;
static CUstream stream;
static size_t held = 0;

#define TRY(call) do { CUresult code_ = (call); if (code_ != CUDA_SUCCESS) return code_; } while (0)
// A call that no limit refuses.
#define MUST(call) do { CUresult code_ = (call); if (code_ != CUDA_SUCCESS) { printf("%s: code %d\n", #call, code_); fflush(stdout); _exit(3); } } while (0)

// MiB of the first device that are used, as nvidia-smi says it to a program without a limit.
static long used() {
    FILE* pipe = popen("env -u LD_PRELOAD -u REEF_MEMORY nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits", "r");
    long mib = -1;
    if (pipe && fscanf(pipe, "%ld", &mib) != 1) mib = -1;
    if (pipe) pclose(pipe);
    return mib;
}

// An attempt that the driver itself refuses: that is right as well.
static CUresult refused_by_driver(CUresult code) {
    printf("the driver says %d; ", code);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static const char* HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n";

static CUresult constants() { // many modules with 64 KiB of constants each
    const std::string text = std::string(HEAD) + ".visible .const .align 4 .b8 c[65536];\n";
    for (int i = 0; i < 1 << 16; i++, held += 64 << 10) {
        CUmodule module;
        TRY(cuModuleLoadData(&module, text.c_str()));
    }
    return CUDA_SUCCESS;
}
static CUresult aligned() { // variables of a byte that take 64 KiB each
    std::string text = HEAD;
    for (int i = 0; i < 1024; i++) text += ".visible .global .align 65536 .b8 g" + std::to_string(i) + "[1];\n";
    for (int i = 0; i < 64; i++, held += 64 * MIB) {
        CUmodule module;
        CUresult code = cuModuleLoadData(&module, text.c_str());
        if (code == CUDA_ERROR_INVALID_PTX) return refused_by_driver(code);
        TRY(code);
    }
    return CUDA_SUCCESS;
}
// A variable that is part of a file's name for a reader to which a backslash is an escape.
static CUresult quoted() {
    const std::string text = std::string(HEAD) + ".file 1 \"a\\\"\n.visible .global .align 4 .b8 g[268435456];\n.file 2 \"b\"\n";
    for (int i = 0; i < 16; i++, held += 256 * MIB) {
        CUmodule module;
        CUdeviceptr at;
        size_t bytes;
        CUresult code = cuModuleLoadData(&module, text.c_str());
        if (code == CUDA_ERROR_INVALID_PTX) return refused_by_driver(code);
        TRY(code);
        code = cuModuleGetGlobal(&at, &bytes, module, "g");
        if (code != CUDA_SUCCESS) return refused_by_driver(code);
    }
    return CUDA_SUCCESS;
}

// A module with a variable of some MiB, which a reader of the text may take for less.
static CUresult module_of(size_t mib, const std::string& variable) {
    const std::string text = HEAD + variable;
    for (size_t i = 0; i < 4096 / mib; i++, held += mib * MIB) {
        CUmodule module;
        CUresult code = cuModuleLoadData(&module, text.c_str());
        if (code == CUDA_ERROR_INVALID_PTX) return refused_by_driver(code);
        TRY(code);
    }
    return CUDA_SUCCESS;
}
static CUresult rows() {
    std::string variable = ".visible .global .align 4 .b8 g[][1048576] = {{}";
    for (int i = 1; i < 64; i++) variable += ",{}";
    return module_of(64, variable + "};\n");
}
static CUresult commented() { return module_of(256, "/*/ \"*/ .visible .global .align 4 .b8 g[268435456]; /* \" */\n"); }
static CUresult packed() { return module_of(256, ".visible .global .align 4 .f16x2 g[67108864];\n"); }
static CUresult textures() { return module_of(208, ".visible .global .texref t[4194304];\n"); }

static CUresult volumes() { // arrays of which the driver may pad the depth
    const size_t depths[] = {17, 33, 3, 65, 5, 9};
    for (int i = 0; i < 4096; i++) {
        CUDA_ARRAY3D_DESCRIPTOR of;
        CUarray array;
        memset(&of, 0, sizeof of);
        of.Width = 500; of.Height = 300; of.Depth = depths[i % 6]; of.Format = CU_AD_FORMAT_FLOAT; of.NumChannels = 1;
        TRY(cuArray3DCreate(&array, &of));
        held += of.Width * of.Height * of.Depth * 4;
    }
    return CUDA_SUCCESS;
}

static CUcontext new_context() {
    CUcontext context;
#if CUDA_VERSION >= 13000
    CUresult code = cuCtxCreate(&context, nullptr, 0, 0);
#else
    CUresult code = cuCtxCreate(&context, 0, 0);
#endif
    return code == CUDA_SUCCESS ? context : nullptr;
}
#if CUDA_VERSION >= 12040
// A green context of all multiprocessors, which is current from then on.
static CUresult new_green() {
    CUdevResource all;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext context;
    MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&desc, &all, 1));
    TRY(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuCtxFromGreenCtx(&context, green));
    return cuCtxSetCurrent(context);
}
#endif
// A library whose variable each context has, and its use in the current one.
static CUlibrary new_library() {
    const std::string text = std::string(HEAD) + ".visible .global .align 4 .b8 g[629145600];\n";
    CUlibrary library;
    CUresult code = cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    return code == CUDA_SUCCESS ? library : nullptr;
}
static CUresult use_library(CUlibrary library) {
    CUdeviceptr at;
    size_t bytes;
    TRY(cuLibraryGetGlobal(&at, &bytes, library, "g"));
    held += 600 * MIB;
    return CUDA_SUCCESS;
}
static CUresult library_in_green() { // a green context begins the primary one
#if CUDA_VERSION >= 12040
    if (new_context() == nullptr) return CUDA_ERROR_UNKNOWN;
    CUlibrary library = new_library();
    TRY(use_library(library));
    TRY(new_green());
    return use_library(library);
#else
    return refused_by_driver(CUDA_ERROR_NOT_SUPPORTED);
#endif
}
static CUresult library_early() { // before there is a context
    CUcontext context;
    CUlibrary library = new_library();
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    TRY(use_library(library));
    if (new_context() == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    return use_library(library);
}
static CUresult heap_in_green() { // the heap is that of the primary context
#if CUDA_VERSION >= 12040
    CUcontext primary, green;
    CUdeviceptr at;
    MUST(cuDevicePrimaryCtxRetain(&primary, 0));
    MUST(cuCtxSetCurrent(primary));
    TRY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 600 * MIB));
    TRY(new_green());
    MUST(cuCtxGetCurrent(&green));
    TRY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 600 * MIB));
    MUST(cuCtxSetCurrent(primary));
    TRY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
    MUST(cuCtxSetCurrent(green));
    TRY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 600 * MIB));
    held = 600 * MIB;
    TRY(cuMemAlloc(&at, 600 * MIB));
    held += 600 * MIB;
    return CUDA_SUCCESS;
#else
    return refused_by_driver(CUDA_ERROR_NOT_SUPPORTED);
#endif
}

static CUresult contexts_at_once() { // one of them is not charged
    std::atomic<int> ready{0}, made{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; i++) threads.emplace_back([&] {
        CUcontext context;
        for (ready++; ready < 16;) {}
#if CUDA_VERSION >= 13000
        made += cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS;
#else
        made += cuCtxCreate(&context, 0, 0) == CUDA_SUCCESS;
#endif
    });
    for (std::thread& thread : threads) thread.join();
    printf("%d contexts; ", made.load());
    return made == 16 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// Another thread overwrites the address of each allocation by that of a small one, which ends then.
static CUresult overwritten() {
    for (int i = 0; i < 64; i++, held += 64 * MIB) {
        CUdeviceptr other;
        TRY(cuMemAlloc(&other, 2 * MIB));
        volatile CUdeviceptr at = 0;
        std::atomic<bool> over{false};
        std::thread writer([&] { while (!over) at = other; });
        while (at == 0) {}
        CUresult code = cuMemAlloc((CUdeviceptr*)&at, 64 * MIB);
        over = true;
        writer.join();
        TRY(code);
        MUST(cuMemFree(other));
    }
    return CUDA_SUCCESS;
}

// Another thread maps something as soon as an address is free, before the call that frees it has returned.
static CUresult mapped_at_once() {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUcontext context;
    MUST(cuCtxGetCurrent(&context));
    for (int i = 0; i < 64; i++, held += 64 * MIB) {
        CUdeviceptr at;
        CUmemGenericAllocationHandle first, second;
        TRY(cuMemCreate(&second, 64 * MIB, &prop, 0));
        CUresult code = cuMemCreate(&first, 2 * MIB, &prop, 0);
        TRY(code);
        MUST(cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0));
        MUST(cuMemMap(at, 2 * MIB, 0, first, 0));
        std::atomic<bool> begun{false};
        std::thread mapper([&] {
            cuCtxSetCurrent(context);
            for (begun = true; cuMemMap(at, 64 * MIB, 0, second, 0) != CUDA_SUCCESS;) {}
        });
        while (!begun) {}
        MUST(cuMemUnmap(at, 2 * MIB));
        mapper.join();
        MUST(cuMemRelease(first));
        MUST(cuMemRelease(second));
    }
    return CUDA_SUCCESS;
}

static CUmemoryPool new_pool() {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool;
    MUST(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUresult range_of_pool() { // a file keeps memory that its pool has given back
    CUmemoryPool pool = new_pool();
    for (int i = 0; i < 16; i++, held += 256 * MIB) {
        CUdeviceptr at;
        int file = -1;
        TRY(cuMemAllocFromPoolAsync(&at, 256 * MIB, pool, stream));
        MUST(cuStreamSynchronize(stream));
        CUresult code = cuMemGetHandleForAddressRange(&file, at, 256 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
        if (code != CUDA_SUCCESS) return refused_by_driver(code);
        MUST(cuMemFreeAsync(at, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuMemPoolTrimTo(pool, 0));
    }
    return CUDA_SUCCESS;
}

static CUresult conditional_body() { // allocations that a graph makes only if a condition is true
#if CUDA_VERSION >= 12040
    CUcontext context;
    MUST(cuCtxGetCurrent(&context));
    for (int i = 0; i < 8; i++, held += 400 * MIB) {
        CUgraph graph;
        CUgraphNode node;
        CUgraphExec exec;
        CUgraphConditionalHandle handle;
        MUST(cuGraphCreate(&graph, 0));
        MUST(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
        CUgraphNodeParams params;
        memset(&params, 0, sizeof params);
        params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
        params.conditional.handle = handle;
        params.conditional.type = CU_GRAPH_COND_TYPE_IF;
        params.conditional.size = 1;
        params.conditional.ctx = context;
#if CUDA_VERSION >= 13000
        MUST(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
#else
        MUST(cuGraphAddNode(&node, graph, nullptr, 0, &params));
#endif
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        memset(&alloc, 0, sizeof alloc);
        alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        alloc.bytesize = 400 * MIB;
        CUresult code = cuGraphAddMemAllocNode(&node, params.conditional.phGraph_out[0], nullptr, 0, &alloc);
        if (code == CUDA_SUCCESS) code = cuGraphInstantiateWithFlags(&exec, graph, 0);
        if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY) return refused_by_driver(code);
        TRY(code);
        TRY(cuGraphLaunch(exec, stream));
        MUST(cuStreamSynchronize(stream));
    }
    return CUDA_SUCCESS;
#else
    return refused_by_driver(CUDA_ERROR_NOT_SUPPORTED);
#endif
}

static CUresult registered() { // page tables: a GiB of the host at 64 addresses. Its number alone is of interest
    int file = memfd_create("registered", 0);
    if (file < 0 || ftruncate(file, 1024 * MIB) != 0) return CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < 64; i++) {
        void* at = mmap(nullptr, 1024 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
        if (at == MAP_FAILED) return CUDA_ERROR_UNKNOWN;
        CUresult code = cuMemHostRegister(at, 1024 * MIB, CU_MEMHOSTREGISTER_DEVICEMAP);
        if (code != CUDA_SUCCESS) return refused_by_driver(code);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult run(const std::string& name) {
    if (name == "constants") return constants();
    if (name == "aligned") return aligned();
    if (name == "quoted") return quoted();
    if (name == "rows") return rows();
    if (name == "commented") return commented();
    if (name == "packed") return packed();
    if (name == "textures") return textures();
    if (name == "volumes") return volumes();
    if (name == "library-in-green") return library_in_green();
    if (name == "library-early") return library_early();
    if (name == "heap-in-green") return heap_in_green();
    if (name == "contexts-at-once") return contexts_at_once();
    if (name == "overwritten") return overwritten();
    if (name == "mapped-at-once") return mapped_at_once();
    if (name == "range-of-pool") return range_of_pool();
    if (name == "conditional-body") return conditional_body();
    if (name == "registered") return registered();
    printf("no case %s; ", name.c_str());
    return CUDA_ERROR_INVALID_VALUE;
}

__global__ void spin(long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}

// Launches kernels that take `millis` each until the time is over: how many have ended. `code` is that of a refusal.
static long work(const std::string& name, double seconds, long millis, cudaError_t* code) {
    cudaStream_t own;
    if ((*code = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)) != cudaSuccess) return 0;
    // While a capture is open, the driver waits for no whole device.
    auto wait = [&] { return name == "streams" ? cudaDeviceSynchronize() : cudaStreamSynchronize(own); };
    int multiprocessors = 0;
    if ((*code = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0)) != cudaSuccess) return 0;
    const int blocks = 2 * multiprocessors;
    auto begin = std::chrono::steady_clock::now();
    long made = 0;
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
        cudaStream_t in = own;
        if (name == "streams" && (*code = cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking)) != cudaSuccess) break;
        spin<<<blocks, 1024, 0, in>>>(millis * 1000000); // of all multiprocessors, so that none run at once
        if ((*code = cudaGetLastError()) != cudaSuccess) break;
        made++;
        if (in != own) cudaStreamDestroy(in);
        if (made % 8 == 0 && (*code = wait()) != cudaSuccess) break;
    }
    wait();
    return made;
}

static int share(const std::string& name, double seconds) {
    void* memory;
    cudaStream_t captured;
    cudaError_t code = cudaMalloc(&memory, 1); // the accounts are there from here on
    if (code == cudaSuccess) code = cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking);
    if (code == cudaSuccess && name == "capture-open") code = cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed);
    cudaFuncAttributes attributes;
    if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, spin); // loads the code
    rlimit none = {0, 0};
    if (name == "no-files") setrlimit(RLIMIT_NOFILE, &none);
    long millis = name == "long" ? 300 : 2, made = 0;
    auto begin = std::chrono::steady_clock::now();
    if (code == cudaSuccess) made = work(name, seconds, millis, &code);
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    printf("%s: %.0f ms a second, code %d\n", name.c_str(), made * millis / took, code);
    fflush(stdout);
    _exit(0); // with the capture that is open
}

int main(int count, char** names) {
    if (count == 3) return share(names[1], atof(names[2]));
    if (count != 2) { printf("usage: attempts CASE [SECONDS]\n"); return 2; }
    MUST(cuInit(0));
    const std::string name = names[1];
    if (name != "contexts-at-once" && name != "library-in-green" && name != "library-early" && name != "heap-in-green") {
        CUcontext context;
        MUST(cuDevicePrimaryCtxRetain(&context, 0));
        MUST(cuCtxSetCurrent(context));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    long before = used();
    auto begin = std::chrono::steady_clock::now();
    CUresult code = run(names[1]);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    printf("%s: held %zu MiB, code %d, device +%ld MiB, %.2f s\n", names[1], held >> 20, code, used() - before, seconds);
    fflush(stdout);
    _exit(0);
}
