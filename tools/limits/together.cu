// Memory that is there at once only because of what comes later, and memory that fits a limit: one case in a process.
//   reef exec --memory 1GiB -- together CASE
// Prints what the program held at once in MiB, the code of a refusal, and what the device has more than before in MiB.
#include <cuda.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
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
#define MUST(call) do { CUresult code_ = (call); if (code_ != CUDA_SUCCESS) { printf("%s: code %d\n", #call, code_); _exit(3); } } while (0)

// MiB of the first device that are used, as nvidia-smi says it to a program without a limit.
static long used() {
    FILE* pipe = popen("env -u LD_PRELOAD -u REEF_MEMORY nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits", "r");
    long mib = -1;
    if (pipe && fscanf(pipe, "%ld", &mib) != 1) mib = -1;
    if (pipe) pclose(pipe);
    return mib;
}

static CUmemPoolProps on_device() {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return props;
}

static CUstream new_stream() {
    CUstream made;
    MUST(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

// A graph that allocates, fills or not, and frees that again or leaves it.
struct Graph { CUgraph graph; CUdeviceptr at; };
static Graph graph(size_t bytes, bool frees, bool fills = true) {
    Graph made;
    CUgraphNode node, fill, end;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.poolProps = on_device();
    params.bytesize = bytes;
    MUST(cuGraphCreate(&made.graph, 0));
    MUST(cuGraphAddMemAllocNode(&node, made.graph, nullptr, 0, &params));
    made.at = params.dptr;
    CUDA_MEMSET_NODE_PARAMS set;
    memset(&set, 0, sizeof set);
    set.dst = made.at; set.elementSize = 1; set.width = bytes; set.height = 1; set.value = 1;
    CUcontext context;
    MUST(cuCtxGetCurrent(&context));
    if (fills) MUST(cuGraphAddMemsetNode(&fill, made.graph, &node, 1, &set, context));
    else fill = node;
    if (frees) MUST(cuGraphAddMemFreeNode(&end, made.graph, &fill, 1, made.at));
    return made;
}
static CUgraphExec exec_of(const Graph& graph) {
    CUgraphExec exec;
    MUST(cuGraphInstantiateWithFlags(&exec, graph.graph, 0));
    return exec;
}

static CUresult graphs_again() { // launched in turn, then together
    std::vector<CUgraphExec> all;
    for (int i = 0; i < 8; i++) {
        Graph made = graph(400 * MIB, false);
        all.push_back(exec_of(made));
        TRY(cuGraphLaunch(all.back(), stream));
        TRY(cuMemFreeAsync(made.at, stream));
        TRY(cuStreamSynchronize(stream));
    }
    for (CUgraphExec exec : all) {
        TRY(cuGraphLaunch(exec, stream));
        TRY(cuStreamSynchronize(stream));
        held += 400 * MIB;
    }
    return CUDA_SUCCESS;
}
static CUresult graphs_uploaded() {
    for (int i = 0; i < 8; i++) {
        CUDA_GRAPH_INSTANTIATE_PARAMS params;
        memset(&params, 0, sizeof params);
        params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
        params.hUploadStream = stream;
        CUgraphExec exec;
        TRY(cuGraphInstantiateWithParams(&exec, graph(400 * MIB, false).graph, &params));
        TRY(cuStreamSynchronize(stream));
        TRY(cuGraphLaunch(exec, stream));
        TRY(cuStreamSynchronize(stream));
        held += 400 * MIB;
    }
    return CUDA_SUCCESS;
}
// A graph that gets larger memory nodes: all of it, or a child graph in it. A driver that refuses this is right as well.
static CUresult graph_updated(bool is_child) {
    Graph small = graph(64 * MIB, true, false), large = graph(1200 * MIB, true, false);
    CUgraph outer = small.graph;
    CUgraphNode node = nullptr;
    held = 64 * MIB;
    if (is_child) {
#if CUDA_VERSION >= 12090
        CUgraphNodeParams params;
        memset(&params, 0, sizeof params);
        params.type = CU_GRAPH_NODE_TYPE_GRAPH;
        params.graph.graph = small.graph;
        params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
        MUST(cuGraphCreate(&outer, 0));
#if CUDA_VERSION >= 13000
        MUST(cuGraphAddNode(&node, outer, nullptr, nullptr, 0, &params));
#else
        MUST(cuGraphAddNode(&node, outer, nullptr, 0, &params));
#endif
#else
        printf("no child graph has memory; ");
        return CUDA_ERROR_OUT_OF_MEMORY;
#endif
    }
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo result;
    MUST(cuGraphInstantiateWithFlags(&exec, outer, 0));
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));
    CUresult code = is_child ? cuGraphExecChildGraphNodeSetParams(exec, node, large.graph) : cuGraphExecUpdate(exec, large.graph, &result);
    printf("update %d; ", code);
    if (code != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    held = 1200 * MIB;
    return CUDA_SUCCESS;
}
static CUresult graphs_in_turn() { // which share memory in one stream
    std::vector<CUgraphExec> all;
    for (int i = 0; i < 8; i++) all.push_back(exec_of(graph(600 * MIB, true)));
    for (int i = 0; i < 64; i++) TRY(cuGraphLaunch(all[i % 8], stream));
    TRY(cuStreamSynchronize(stream));
    held = 600 * MIB;
    return CUDA_SUCCESS;
}
static CUresult graphs_at_once() { // in two streams, and a third one that waits for room
    CUgraphExec all[3];
    CUstream streams[3] = {stream, new_stream(), new_stream()};
    for (CUgraphExec& exec : all) exec = exec_of(graph(400 * MIB, true));
    for (int i = 0; i < 32; i++) TRY(cuGraphLaunch(all[i % 2], streams[i % 2]));
    for (int i : {2, 0, 1, 2}) TRY(cuGraphLaunch(all[i], streams[i]));
    TRY(cuCtxSynchronize());
    held = 800 * MIB;
    return CUDA_SUCCESS;
}

static CUmemoryPool new_pool(bool keeps) {
    CUmemPoolProps props = on_device();
    CUmemoryPool pool;
    cuuint64_t all = ~0ull;
    MUST(cuMemPoolCreate(&pool, &props));
    if (keeps) MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    return pool;
}
static CUresult allocate(CUdeviceptr* at, size_t bytes, CUmemoryPool pool, CUstream in) {
    TRY(cuMemAllocFromPoolAsync(at, bytes, pool, in));
    return cuMemsetD8Async(*at, 1, bytes, in);
}
// Takes all in pieces of half a MiB, and frees three of four.
static size_t pieces(CUmemoryPool pool) {
    std::vector<CUdeviceptr> all;
    for (CUdeviceptr at; all.size() < 8192 && allocate(&at, MIB / 2, pool, stream) == CUDA_SUCCESS;) all.push_back(at);
    size_t kept = 0;
    for (size_t i = 0; i < all.size(); i++) {
        if (i % 4) MUST(cuMemFreeAsync(all[i], stream)); else kept++;
    }
    return kept;
}
static CUresult fragments() {
    CUmemoryPool pool = new_pool(true);
    held = pieces(pool) * (MIB / 2);
    TRY(cuStreamSynchronize(stream));
    CUdeviceptr at;
    TRY(allocate(&at, 600 * MIB, pool, stream));
    held += 600 * MIB;
    return cuStreamSynchronize(stream);
}
static CUresult refilled(bool keeps) { // before and after the stream has reached the frees
    CUmemoryPool pool = new_pool(keeps);
    size_t kept = pieces(pool), more = kept * 3 / 2;
    held = kept * (MIB / 2);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < more; i++, held += MIB / 2) {
            CUdeviceptr at;
            TRY(allocate(&at, MIB / 2, pool, stream));
        }
        TRY(cuStreamSynchronize(stream));
    }
    return CUDA_SUCCESS;
}

static CUresult kept_apart() { // what a stream has freed and reached, in a pool that keeps it for that stream; no call waits
    CUmemoryPool pool = new_pool(true);
    int never = 0;
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &never));
    CUstream other = new_stream();
    held = pieces(pool) * (MIB / 2);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {}
    for (int i = 0; i < 64; i++, held += MIB / 2) {
        CUdeviceptr at;
        TRY(allocate(&at, MIB / 2, pool, other));
    }
    return cuStreamSynchronize(other);
}
static CUresult taken_over() { // addresses that one pool has given back in a wait, and another may have
    CUmemoryPool first = new_pool(false), second = new_pool(true);
    CUdeviceptr at, large;
    TRY(allocate(&at, 16 * MIB, first, stream));
    TRY(cuMemFreeAsync(at, stream));
    TRY(cuStreamSynchronize(stream));
    CUdeviceptr before = at;
    TRY(allocate(&at, 8 * MIB, second, stream));
    printf("%s; ", at == before ? "taken over" : "another address");
    for (held = 32 * MIB; cuMemAlloc(&large, 32 * MIB) == CUDA_SUCCESS;) held += 32 * MIB;
    TRY(allocate(&at, 16 * MIB, first, stream));
    held += 32 * MIB;
    return cuStreamSynchronize(stream);
}

static CUdeviceptr word() {
    CUdeviceptr at;
    MUST(cuMemAlloc(&at, 4096));
    MUST(cuMemsetD32(at, 0, 1));
    return at;
}
static CUresult frees_behind_waits() {
    CUdeviceptr wait = word();
    CUresult code = CUDA_SUCCESS;
    for (int i = 0; i < 6 && code == CUDA_SUCCESS; i++) {
        CUstream in = new_stream();
        CUdeviceptr at;
        code = cuMemAllocAsync(&at, 700 * MIB, in);
        if (code == CUDA_SUCCESS) {
            MUST(cuMemsetD8Async(at, 1, 700 * MIB, in));
            MUST(cuStreamWaitValue32(in, wait, 1, CU_STREAM_WAIT_VALUE_EQ));
            MUST(cuMemFreeAsync(at, in));
            held += 700 * MIB;
        }
    }
    long now = used();
    MUST(cuMemsetD32(wait, 1, 1));
    printf("with the waits: %ld MiB; ", now);
    return code;
}
static CUresult frees_reached_soon() {
    CUdeviceptr wait = word(), at;
    TRY(cuMemAllocAsync(&at, 700 * MIB, stream));
    TRY(cuStreamWaitValue32(stream, wait, 1, CU_STREAM_WAIT_VALUE_EQ));
    TRY(cuMemFreeAsync(at, stream));
    CUcontext context;
    MUST(cuCtxGetCurrent(&context));
    std::thread opener([=] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        MUST(cuCtxSetCurrent(context));
        MUST(cuMemsetD32Async(wait, 1, 1, new_stream()));
    });
    CUresult code = cuMemAllocAsync(&at, 700 * MIB, new_stream());
    opener.join();
    if (code == CUDA_SUCCESS) held = 700 * MIB;
    return code;
}
static CUresult reused() { // in one stream, without a wait
    for (int i = 0; i < 200; i++) {
        CUdeviceptr at;
        TRY(cuMemAllocAsync(&at, 700 * MIB, stream));
        TRY(cuMemsetD8Async(at, 1, 700 * MIB, stream));
        TRY(cuMemFreeAsync(at, stream));
    }
    held = 700 * MIB;
    return cuStreamSynchronize(stream);
}

static CUmemAllocationProp for_export() {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
}

// Exported memory that is released in turn; files that are left open keep it.
static CUresult exported(bool closes) {
    CUmemAllocationProp prop = for_export();
    for (int i = 0; i < 64; i++) {
        CUmemGenericAllocationHandle handle, import;
        int file = -1;
        TRY(cuMemCreate(&handle, 256 * MIB, &prop, 0));
        MUST(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        MUST(cuMemRelease(handle));
        MUST(cuMemImportFromShareableHandle(&import, (void*)(long)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        MUST(cuMemRelease(import));
        if (closes) close(file);
        held += 256 * MIB;
    }
    return CUDA_SUCCESS;
}

// Memory of another process, which is killed while this one has its memory. That process is forked before CUDA is in use.
static int sockets[2];
static pid_t exporter;
static ssize_t pass_file(int* file, bool sends) {
    char byte = 0;
    union { cmsghdr head; char space[CMSG_SPACE(sizeof(int))]; } control;
    memset(&control, 0, sizeof control);
    iovec part = {&byte, 1};
    msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part; message.msg_iovlen = 1;
    message.msg_control = control.space; message.msg_controllen = sizeof control.space;
    control.head.cmsg_len = CMSG_LEN(sizeof(int)); control.head.cmsg_level = SOL_SOCKET; control.head.cmsg_type = SCM_RIGHTS;
    if (sends) memcpy(CMSG_DATA(&control.head), file, sizeof(int));
    ssize_t bytes = sends ? sendmsg(sockets[1], &message, 0) : recvmsg(sockets[0], &message, 0);
    if (!sends) memcpy(file, CMSG_DATA(&control.head), sizeof(int));
    return bytes;
}
static void export_and_wait() {
    alarm(60); // a process that isn't killed ends itself
    CUcontext context;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = for_export();
    int file = -1;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemCreate(&handle, 512 * MIB, &prop, 0));
    MUST(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    if (pass_file(&file, true) == 1) pause();
    _exit(3);
}
static void print_left(const char* when) {
    size_t left = 0, total = 0;
    MUST(cuMemGetInfo(&left, &total));
    printf("%s: %zu MiB left; ", when, left / MIB);
}
static CUresult imported() {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    int file = -1;
    if (pass_file(&file, false) != 1) return CUDA_ERROR_UNKNOWN;
    MUST(cuMemImportFromShareableHandle(&handle, (void*)(long)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    MUST(cuMemAddressReserve(&at, 512 * MIB, 0, 0, 0));
    MUST(cuMemMap(at, 512 * MIB, 0, handle, 0));
    MUST(cuMemRelease(handle));
    close(file);
    print_left("imported");
    kill(exporter, SIGKILL);
    waitpid(exporter, nullptr, 0);
    print_left("killed");
    std::this_thread::sleep_for(std::chrono::seconds(3)); // it is charged within a second
    print_left("after 3 s");
    held = 512 * MIB;
    for (;;) {
        TRY(cuMemAlloc(&at, 64 * MIB));
        held += 64 * MIB;
    }
}

static CUresult graphs_overwritten() { // another thread takes the handle of each executable graph as soon as it is there
    for (int i = 0; i < 64; i++, held += 64 * MIB) {
        Graph made = graph(64 * MIB, false);
        std::atomic<CUgraphExec> at{nullptr}, taken{nullptr};
        std::atomic<bool> over{false};
        std::thread taker([&] {
            while (!over) {
                CUgraphExec exec = at.exchange(nullptr);
                if (exec) taken = exec;
            }
        });
        CUresult code = cuGraphInstantiateWithFlags((CUgraphExec*)&at, made.graph, 0);
        over = true;
        taker.join();
        TRY(code);
        TRY(cuGraphLaunch(taken.load() ? taken.load() : at.load(), stream));
    }
    return CUDA_SUCCESS;
}

static CUresult captures() { // questions for memory while streams are captured, after frees in the default streams
    CUstream blocking;
    MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    for (CUstream captured : {blocking, CU_STREAM_PER_THREAD}) {
        CUdeviceptr at;
        CUgraph graph;
        size_t left, total;
        for (CUstream of : {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
            MUST(cuMemAllocAsync(&at, MIB, of));
            MUST(cuMemFreeAsync(at, of));
        }
        MUST(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cuMemGetInfo(&left, &total));
        TRY(cuStreamEndCapture(captured, &graph));
    }
    return CUDA_SUCCESS;
}

static CUresult pageable() { // ordinary memory, where the device has access to it
    int access = 0;
    MUST(cuDeviceGetAttribute(&access, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
    char* at = (char*)malloc(4096 * MIB);
    memset(at, 1, 4096 * MIB);
    printf("access %d; ", access);
#if CUDA_VERSION >= 13000
    CUresult code = cuMemPrefetchAsync((CUdeviceptr)at, 4096 * MIB, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, stream);
#else
    CUresult code = cuMemPrefetchAsync((CUdeviceptr)at, 4096 * MIB, 0, stream);
#endif
    MUST(cuStreamSynchronize(stream));
    if (code == CUDA_SUCCESS) held = 4096 * MIB;
    return code;
}

static CUresult run(const std::string& name) {
    if (name == "graphs-again") return graphs_again();
    if (name == "graphs-uploaded") return graphs_uploaded();
    if (name == "graph-updated") return graph_updated(false);
    if (name == "child-updated") return graph_updated(true);
    if (name == "graphs-in-turn") return graphs_in_turn();
    if (name == "graphs-at-once") return graphs_at_once();
    if (name == "fragments") return fragments();
    if (name == "refilled") return refilled(true);
    if (name == "refilled-trimmed") return refilled(false);
    if (name == "kept-apart") return kept_apart();
    if (name == "taken-over") return taken_over();
    if (name == "frees-behind-waits") return frees_behind_waits();
    if (name == "frees-reached-soon") return frees_reached_soon();
    if (name == "reused") return reused();
    if (name == "exports-closed") return exported(true);
    if (name == "exports-open") return exported(false);
    if (name == "imported") return imported();
    if (name == "graphs-overwritten") return graphs_overwritten();
    if (name == "captures") return captures();
    if (name == "pageable") return pageable();
    printf("no case %s; ", name.c_str());
    return CUDA_ERROR_INVALID_VALUE;
}

int main(int count, char** names) {
    if (count != 2) { printf("usage: together CASE\n"); return 2; }
    CUcontext context;
    if (std::string(names[1]) == "imported") {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || (exporter = fork()) < 0) return 3;
        if (exporter == 0) export_and_wait();
        close(sockets[1]); // an exporter that fails ends the wait for it
    }
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    stream = new_stream();
    long before = used();
    auto begin = std::chrono::steady_clock::now();
    CUresult code = run(names[1]);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    printf("%s: held %zu MiB, code %d, device +%ld MiB, %.2f s\n", names[1], held >> 20, code, used() - before, seconds);
    fflush(stdout);
    _exit(0); // with what waits in its streams
}
