// Ways to hold memory of a device, each in a process of its own: what was held, what the accounts say, and what NVML says.
//   REEF_MEMORY=1GiB LD_PRELOAD=libreef_cuda_shim.so evade [WAY...]
// Each way takes pieces of 256 MiB until it is refused or has 4 GiB. Right: refused, with no more than the limit held,
// and NVML's number without a context's own within 64 MiB of the accounts. The exit code is the number of ways that aren't.
// Nothing else may use the first device meanwhile. Needs no daemon.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Larger than the limit: what the runtime loads as soon as it is used.
__device__ unsigned char linked[3 << 29];
__global__ void touch(size_t at) { linked[at] = 1; }

static const size_t MIB = 1 << 20, PIECE = 256 * MIB, STEPS = 16, CLOSE = 64 * MIB;

#define NAME_(f) #f
#define NAME(f) NAME_(f)
// A function of the driver as programs find it: under the library's name.
#define CU(f, ...) ((decltype(&f))driver(NAME(f)))(__VA_ARGS__)
#define TRY(call) do { CUresult code_ = (call); if (code_ != CUDA_SUCCESS) return code_; } while (0)

static void* driver(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = library ? dlsym(library, name) : nullptr;
    if (!found) { printf("no %s\n", name); _exit(99); }
    return found;
}

struct Nvml {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    void* device = nullptr;
    Nvml() {
        if (!library) return;
        ((int (*)())dlsym(library, "nvmlInit_v2"))();
        ((int (*)(unsigned, void**))dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
    }
    size_t used() const { // of the whole device
        struct { unsigned long long total, free, used; } memory = {0, 0, 0};
        if (device) ((int (*)(void*, void*))dlsym(library, "nvmlDeviceGetMemoryInfo"))(device, &memory);
        return memory.used;
    }
};

static CUstream stream;
static size_t held = 0;
static const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

static CUmemPoolProps pool_props(CUmemLocationType type) {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = here;
    props.location.type = type;
    return props;
}
static CUresult piece(CUmemGenericAllocationHandle* handle, bool shared, bool tiles = false) {
    CUmemAllocationProp props;
    memset(&props, 0, sizeof props);
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = here;
    if (tiles) props.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL; // of sparse arrays
    if (shared) props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return CU(cuMemCreate, handle, PIECE, &props, 0);
}
static CUresult map(CUmemGenericAllocationHandle handle) {
    CUdeviceptr at;
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location = here;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TRY(CU(cuMemAddressReserve, &at, PIECE, 0, 0, 0));
    TRY(CU(cuMemMap, at, PIECE, 0, handle, 0));
    TRY(CU(cuMemSetAccess, at, PIECE, &access, 1));
    return CU(cuMemsetD8, at, 1, PIECE);
}

// One step of a way; the number of the step.
static CUresult alloc(size_t) { CUdeviceptr at; TRY(CU(cuMemAlloc, &at, PIECE)); return CU(cuMemsetD8, at, 1, PIECE); }
static CUresult managed(size_t) {
    CUdeviceptr at;
    TRY(CU(cuMemAllocManaged, &at, PIECE, CU_MEM_ATTACH_GLOBAL));
    TRY(CU(cuMemsetD8, at, 1, PIECE));
    return CU(cuCtxSynchronize);
}
static CUresult pitch(size_t) { CUdeviceptr at; size_t row; return CU(cuMemAllocPitch, &at, &row, 1, PIECE / 512, 4); }
static CUresult async(size_t) { CUdeviceptr at; TRY(CU(cuMemAllocAsync, &at, PIECE, stream)); return CU(cuStreamSynchronize, stream); }
static CUresult pool(CUmemLocationType type, bool destroys) {
    CUmemPoolProps props = pool_props(type);
    CUmemoryPool pool;
    CUdeviceptr at;
    TRY(CU(cuMemPoolCreate, &pool, &props));
    TRY(CU(cuMemAllocFromPoolAsync, &at, PIECE, pool, stream));
    TRY(CU(cuMemsetD8Async, at, 1, PIECE, stream));
    TRY(CU(cuStreamSynchronize, stream));
    return destroys ? CU(cuMemPoolDestroy, pool) : CUDA_SUCCESS;
}
static CUresult pools(size_t) { return pool(CU_MEM_LOCATION_TYPE_DEVICE, true); }
static CUresult kept_pools(size_t) { return pool(CU_MEM_LOCATION_TYPE_DEVICE, false); }
static CUresult host_pools(size_t) { return pool(CU_MEM_LOCATION_TYPE_HOST, false); }
static CUresult exported(size_t) {
    CUmemGenericAllocationHandle handle, import;
    int file;
    TRY(piece(&handle, true));
    TRY(CU(cuMemExportToShareableHandle, &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    TRY(CU(cuMemRelease, handle));
    TRY(CU(cuMemImportFromShareableHandle, &import, (void*)(long)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return map(import);
}
static CUresult mapped(size_t) { CUmemGenericAllocationHandle handle; TRY(piece(&handle, false)); TRY(map(handle)); return CU(cuMemRelease, handle); }
static CUresult run(CUgraph graph, bool uploads) {
    CUgraphExec exec;
    TRY(CU(cuGraphInstantiateWithFlags, &exec, graph, 0));
    for (int i = 0; i < 2; i++) { // no more memory for the second one; without an end the driver refuses it
        CUresult code = uploads ? CU(cuGraphUpload, exec, stream) : i ? CUDA_SUCCESS : CU(cuGraphLaunch, exec, stream);
        TRY(code);
    }
    return CU(cuStreamSynchronize, stream);
}
static CUresult graph_any(size_t) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps = pool_props(CU_MEM_LOCATION_TYPE_DEVICE);
    params.alloc.bytesize = PIECE;
    TRY(CU(cuGraphCreate, &graph, 0));
#if CUDA_VERSION >= 13000
    TRY(CU(cuGraphAddNode, &node, graph, nullptr, nullptr, 0, &params));
#else
    TRY(CU(cuGraphAddNode, &node, graph, nullptr, 0, &params));
#endif
    return run(graph, false);
}
static CUresult typed(bool uploads) {
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.poolProps = pool_props(CU_MEM_LOCATION_TYPE_DEVICE);
    params.bytesize = PIECE;
    TRY(CU(cuGraphCreate, &graph, 0));
    TRY(CU(cuGraphAddMemAllocNode, &node, graph, nullptr, 0, &params));
    return run(graph, uploads);
}
static CUresult graph_typed(size_t) { return typed(false); }
static CUresult graph_upload(size_t) { return typed(true); }
static CUresult graph_captured(size_t) {
    CUgraph graph;
    CUdeviceptr at;
    TRY(CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult code = CU(cuMemAllocAsync, &at, PIECE, stream);
    TRY(CU(cuStreamEndCapture, stream, &graph));
    TRY(code);
    return run(graph, false);
}
static CUresult launch_text(const char* text) {
    CUmodule module;
    CUfunction function;
    TRY(CU(cuModuleLoadData, &module, text));
    TRY(CU(cuModuleGetFunction, &function, module, "f"));
    TRY(CU(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    return CU(cuStreamSynchronize, stream);
}
static CUresult heap(size_t step) { // taken when a kernel uses it
    return CU(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, (step + 1) * PIECE);
}
static CUresult heap_at_once(size_t step) {
    if (step) return CUDA_ERROR_OUT_OF_MEMORY;
    TRY(CU(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, STEPS * PIECE));
    held += (STEPS - 1) * PIECE;
    return launch_text(".version 7.0\n.target sm_70\n.address_size 64\n.extern .func (.param .b64 r) malloc (.param .b64 n);\n"
        ".visible .entry f(){.reg .u64 %a;{.param .b64 n;st.param.b64 [n],16;.param .b64 r;call.uni (r),malloc,(n);}ret;}\n");
}
static CUresult stack(size_t step) {
    int units = 0, threads = 0;
    TRY(CU(cuDeviceGetAttribute, &units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    TRY(CU(cuDeviceGetAttribute, &threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
    TRY(CU(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 1024 + (step + 1) * (PIECE / ((size_t)units * threads) / 16 * 16)));
    return launch_text(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f(){ret;}\n");
}
static CUresult printed(size_t step) {
    return CU(cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, (step + 1) * PIECE);
}
static const char* GLOBAL = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .b8 g[268435456];\n.visible .entry f(){ret;}\n";
static CUresult global(size_t) { CUmodule module; return CU(cuModuleLoadData, &module, GLOBAL); }
static CUresult library(size_t) {
    CUlibrary library;
    CUdeviceptr at;
    size_t bytes;
    TRY(CU(cuLibraryLoadData, &library, GLOBAL, nullptr, nullptr, 0, nullptr, nullptr, 0));
    return CU(cuLibraryGetGlobal, &at, &bytes, library, "g");
}
static CUresult linked_in(size_t step) {
    if (step) return CUDA_ERROR_OUT_OF_MEMORY;
    touch<<<1, 1>>>(sizeof linked - 1);
    cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess) code = cudaDeviceSynchronize();
    if (code == cudaSuccess) held += sizeof linked - PIECE;
    return (CUresult)code;
}
static CUresult array(size_t) { CUarray array; CUDA_ARRAY_DESCRIPTOR of = {16384, 4096, CU_AD_FORMAT_FLOAT, 1}; return CU(cuArrayCreate, &array, &of); }
static CUresult rows(size_t) { // narrow arrays: 64 MiB by the rows' units
    for (int i = 0; i < 256; i++) {
        CUarray array;
        CUDA_ARRAY_DESCRIPTOR of = {1, 16384, CU_AD_FORMAT_FLOAT, 1};
        TRY(CU(cuArrayCreate, &array, &of));
    }
    return CUDA_SUCCESS;
}
static CUresult levels(size_t) {
    for (int i = 0; i < 1500; i++) {
        CUmipmappedArray array;
        CUDA_ARRAY3D_DESCRIPTOR of = {64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0};
        TRY(CU(cuMipmappedArrayCreate, &array, &of, 7));
    }
    return CUDA_SUCCESS;
}
static CUresult sparse(size_t) {
    CUmemGenericAllocationHandle handle;
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR of = {16384, 16384, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE};
    TRY(CU(cuArray3DCreate, &array, &of));
    CUDA_ARRAY_SPARSE_PROPERTIES tiles;
    TRY(CU(cuArrayGetSparseProperties, &tiles, array));
    TRY(piece(&handle, false, true));
    CUarrayMapInfo info;
    memset(&info, 0, sizeof info);
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    info.subresource.sparseLevel.extentWidth = tiles.tileExtent.width;
    info.subresource.sparseLevel.extentHeight = tiles.tileExtent.height;
    info.subresource.sparseLevel.extentDepth = std::max(1u, tiles.tileExtent.depth);
    info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    TRY(CU(cuMemMapArrayAsync, &info, 1, stream));
    TRY(CU(cuStreamSynchronize, stream));
    return CU(cuMemRelease, handle);
}
static CUresult multicast(size_t) {
    CUmemGenericAllocationHandle object, handle;
    CUmulticastObjectProp of;
    memset(&of, 0, sizeof of);
    of.numDevices = 1;
    of.size = PIECE;
    of.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    TRY(CU(cuMulticastCreate, &object, &of));
    TRY(CU(cuMulticastAddDevice, object, 0));
    TRY(piece(&handle, false));
    TRY(CU(cuMulticastBindMem, object, 0, handle, 0, PIECE, 0));
    return CU(cuMemRelease, handle);
}
static CUresult odd(size_t) { for (int i = 0; i < 128; i++) { CUdeviceptr at; TRY(CU(cuMemAlloc, &at, MIB + 1)); } return CUDA_SUCCESS; }
static CUresult small(size_t) { for (int i = 0; i < 1 << 18; i++) { CUdeviceptr at; TRY(CU(cuMemAlloc, &at, 1)); } return CUDA_SUCCESS; }
static CUresult contexts(size_t) {
    CUcontext context;
#if CUDA_VERSION >= 13000
    return CU(cuCtxCreate, &context, nullptr, 0, 0);
#else
    return CU(cuCtxCreate, &context, 0, 0);
#endif
}
static CUresult local(size_t step) { // local memory of a kernel: a gap without a daemon
    if (step) return CUDA_ERROR_OUT_OF_MEMORY;
    return launch_text(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f(){.local .align 8 .b8 x[16384];.reg .u64 %a, %b;"
        "mov.u64 %a, x;cvta.local.u64 %b, %a;st.volatile.u64 [%b], 1;ret;}\n");
}
static CUresult nothing(size_t) { return CUDA_ERROR_OUT_OF_MEMORY; }

struct Way {
    const char* name;
    CUresult (*step)(size_t);
    size_t each;  // what a step holds by the program's own count, 0: unknown
    enum { CHECKED, BOUND, FREE, SHOWN } kind; // must be refused; must not hold more than is charged; must not be charged; shown alone
};
static const Way WAYS[] = {
    {"nothing", nothing, 0, Way::SHOWN}, {"alloc", alloc, PIECE, Way::CHECKED}, {"managed", managed, PIECE, Way::CHECKED},
    {"pitch", pitch, PIECE, Way::CHECKED}, {"async", async, PIECE, Way::CHECKED}, {"pools", pools, PIECE, Way::CHECKED},
    {"kept-pools", kept_pools, PIECE, Way::CHECKED}, {"host-pools", host_pools, 0, Way::FREE}, {"export", exported, PIECE, Way::CHECKED},
    {"mapped", mapped, PIECE, Way::CHECKED}, {"graph", graph_any, PIECE, Way::CHECKED}, {"graph-typed", graph_typed, PIECE, Way::CHECKED},
    {"graph-captured", graph_captured, PIECE, Way::CHECKED}, {"graph-upload", graph_upload, 0, Way::BOUND},
    {"heap", heap_at_once, PIECE, Way::CHECKED}, {"heap-steps", heap, PIECE, Way::CHECKED}, {"stack", stack, PIECE, Way::CHECKED},
    {"printed", printed, PIECE, Way::CHECKED}, {"global", global, PIECE, Way::CHECKED}, {"library", library, PIECE, Way::CHECKED},
    {"linked", linked_in, PIECE, Way::CHECKED}, {"array", array, PIECE, Way::CHECKED}, {"rows", rows, 0, Way::CHECKED},
    {"levels", levels, 0, Way::CHECKED}, {"sparse", sparse, PIECE, Way::CHECKED}, {"multicast", multicast, PIECE, Way::CHECKED},
    {"odd", odd, 0, Way::CHECKED}, {"small", small, 0, Way::CHECKED}, {"contexts", contexts, 0, Way::CHECKED}, {"local", local, 0, Way::SHOWN},
};

static size_t limit() { // as the library reads REEF_MEMORY, in GiB alone
    const char* text = getenv("REEF_MEMORY");
    return text ? strtoull(text, nullptr, 10) << 30 : 0;
}

// Goes one way, and says how far it came: 1 if that is wrong. `before` is what the device had, `context` what a context has.
static int go(const Way& way, size_t before, size_t context) {
    CUdevice device;
    CUcontext primary;
    size_t left = 0, all = 0;
    CUresult code = CU(cuInit, 0);
    if (!code) code = CU(cuDeviceGet, &device, 0);
    if (!code) code = CU(cuDevicePrimaryCtxRetain, &primary, device);
    if (!code) code = CU(cuCtxSetCurrent, primary);
    if (!code) code = CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    for (size_t step = 0; !code && step < STEPS; step++) {
        code = way.step(step);
        if (!code) held += way.each;
    }
    const char* name = "?";
    CU(cuGetErrorName, code, &name);
    CU(cuCtxSetCurrent, primary);
    CU(cuMemGetInfo, &left, &all);
    const size_t most = limit(), nvml = Nvml().used() - before;
    const size_t used = most ? std::min(all, most) - std::min(left, most) : 0, beyond = nvml > context ? nvml - context : 0;
    if (way.step == nothing) { printf("%zu\n", nvml); fflush(stdout); return 0; } // _exit flushes nothing
    const char* end = code == CUDA_ERROR_OUT_OF_MEMORY ? "refused" : code == CUDA_SUCCESS ? "not refused" : name;
    printf("%-15s %-12s held %5zu MiB  accounts %5zu MiB  NVML %5zu MiB", way.name, end, held / MIB, used / MIB, beyond / MIB);
    bool wrong = false;
    if (most && code != CUDA_ERROR_NOT_SUPPORTED && code != CUDA_ERROR_NOT_PERMITTED) {
        const size_t apart = beyond > used ? beyond - used : used - beyond;
        if (way.kind == Way::CHECKED) wrong = code != CUDA_ERROR_OUT_OF_MEMORY || held > most || beyond > most + CLOSE;
        if (way.kind == Way::FREE) wrong = code != CUDA_SUCCESS || used > CLOSE;
        if ((way.kind == Way::CHECKED || way.kind == Way::BOUND) && (beyond > used + CLOSE || beyond > most + CLOSE)) wrong = true;
        printf("%s%s", wrong ? "  WRONG" : "  right", apart > CLOSE ? "  (apart)" : "");
    }
    printf("\n");
    fflush(stdout);
    return wrong;
}

// Runs this program once more for a way, and gives what it says first.
static int child(const char* self, const char* way, size_t context, std::string* said) {
    const std::string command = std::string(self) + " =" + way + " " + std::to_string(Nvml().used()) + " " + std::to_string(context);
    FILE* pipe = popen(command.c_str(), "r");
    char line[512];
    while (fgets(line, sizeof line, pipe)) {
        if (said) *said = line; else fputs(line, stdout);
        fflush(stdout);
    }
    const int status = pclose(pipe);
    usleep(300000); // until the driver has let go
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

int main(int count, char** arguments) {
    if (count == 4 && arguments[1][0] == '=')
        for (const Way& way : WAYS)
            if (!strcmp(way.name, arguments[1] + 1)) _exit(go(way, strtoull(arguments[2], 0, 10), strtoull(arguments[3], 0, 10)));
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 99;
    std::string said;
    child(self, "nothing", 0, &said);
    const size_t context = strtoull(said.c_str(), 0, 10);
    printf("limit %zu MiB, a context takes %zu MiB\n", limit() / MIB, context / MIB);
    int wrong = 0, gone = 0;
    for (const Way& way : WAYS) {
        const bool wanted = count < 2 || std::any_of(arguments + 1, arguments + count, [&](char* name) { return !strcmp(name, way.name); });
        if (!wanted || way.step == nothing) continue;
        const int code = child(self, way.name, context, nullptr);
        if (code > 1) printf("%-15s ended with %d\n", way.name, code);
        wrong += code != 0;
        gone++;
    }
    printf("%d of %d ways are wrong\n", wrong, gone);
    return std::min(wrong, 98);
}
