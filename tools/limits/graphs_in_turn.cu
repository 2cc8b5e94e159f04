// Memory of graphs as the driver counts it, and graphs of one stream that share theirs under a limit.
//   graphs_in_turn driver                               the driver alone, without a limit
//   reef exec --memory 1GiB -- graphs_in_turn limited   64 launches of eight graphs of 600 MiB: all refusals
//   reef exec --memory 1GiB -- graphs_in_turn waits     the same, 2.5 s after the beginning
// Prints numbers in MiB, and times in ms. The last line begins with `driver:` or `limited:`.
#include <cuda.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static const size_t MIB = 1 << 20, BYTES = 600 * MIB;

#define MUST(call) do { CUresult code_ = (call); if (code_ != CUDA_SUCCESS) { printf("%s: code %d\n", #call, code_); exit(3); } } while (0)

static double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static void rest() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

static CUstream new_stream() {
    CUstream made;
    MUST(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

// A graph that allocates, fills and frees.
static CUgraphExec new_exec() {
    CUgraph graph;
    CUgraphNode node, fill, end;
    CUgraphExec exec;
    CUcontext context;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = BYTES;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
    CUDA_MEMSET_NODE_PARAMS set;
    memset(&set, 0, sizeof set);
    set.dst = params.dptr; set.elementSize = 1; set.width = BYTES; set.height = 1; set.value = 1;
    MUST(cuCtxGetCurrent(&context));
    MUST(cuGraphAddMemsetNode(&fill, graph, &node, 1, &set, context));
    MUST(cuGraphAddMemFreeNode(&end, graph, &fill, 1, params.dptr));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}
static std::vector<CUgraphExec> new_execs(int count) {
    std::vector<CUgraphExec> all;
    for (int i = 0; i < count; i++) all.push_back(new_exec());
    return all;
}

static size_t of_graphs(CUgraphMem_attribute which) {
    cuuint64_t bytes = 0;
    MUST(cuDeviceGetGraphMemAttribute(0, which, &bytes));
    return bytes / MIB;
}
static size_t reserved() { return of_graphs(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT); }
static size_t in_use() { return of_graphs(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT); }

// Waits by queries for the current point of a stream, as the library does.
static void await(CUstream stream) {
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(event, stream));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) rest();
    MUST(cuEventDestroy(event));
}
// Has the driver free the memory of graphs until there is none, at most for two seconds: the time from the first call.
static double trimmed(size_t* first) {
    double begin = now();
    MUST(cuDeviceGraphMemTrim(0));
    *first = reserved();
    if (*first == 0) return 0;
    while (reserved() > 0 && now() - begin < 2000) {
        rest();
        MUST(cuDeviceGraphMemTrim(0));
    }
    return reserved() > 0 ? -1 : now() - begin;
}

static void driver() {
    CUstream stream = new_stream(), other = new_stream();
    std::vector<CUgraphExec> all = new_execs(8);
    size_t first, alone = 0, changes = 0, late = 0, stuck = 0, most = 0;
    double longest = 0;
    // One graph at a time: reserved at once, when it has ended, and after a trim.
    for (int i = 0; i < 24 && stuck < 3; i++) {
        MUST(cuGraphLaunch(all[i % 8], i % 3 == 2 ? other : stream));
        size_t at_once = reserved(), used = in_use();
        await(i % 3 == 2 ? other : stream);
        size_t ended = reserved(), used_ended = in_use();
        double took = trimmed(&first);
        if (i == 0) alone = at_once;
        if (i == 0) printf("one graph: reserved %zu and in use %zu at once, %zu and %zu after its end, %zu after a trim\n", at_once, used, ended, used_ended, first);
        changes += at_once != ended;
        late += first > 0;
        stuck += took < 0;
        longest = std::max(longest, took);
        if (took < 0) {
            MUST(cuCtxSynchronize());
            printf("launch %d: %zu after trims for 2 s; ", i, reserved());
            took = trimmed(&first);
            printf("%zu at once and %zu later after cuCtxSynchronize\n", first, reserved());
        }
    }
    // Eight in turn, as fast as they can be launched, and with a rest between them.
    for (int rests = 0; rests < 2; rests++) {
        trimmed(&first);
        printf("in turn%s: reserved", rests ? ", each after the end of the one before" : "");
        for (CUgraphExec exec : all) {
            MUST(cuGraphLaunch(exec, stream));
            printf(" %zu", reserved());
            most = std::max(most, reserved());
            if (rests) await(stream);
        }
        await(stream);
        printf(", %zu after the last one\n", reserved());
    }
    printf("driver: a graph of %zu takes %zu; %zu of 24 changed after the launch; memory of %zu of 24 was trimmed late, at most %.1f ms after the event, %zu never; eight in turn took up to %zu\n", BYTES / MIB, alone, changes, late, longest, stuck, most);
}

static size_t used_of_limit() {
    size_t free = 0, total = 0;
    MUST(cuMemGetInfo(&free, &total));
    return (total - free) / MIB;
}

static void limited() {
    CUstream stream = new_stream();
    std::vector<CUgraphExec> all = new_execs(8);
    int refused = 0, lost = 0;
    size_t used_before = used_of_limit();
    double begin = now(), longest = 0;
    for (int i = 0; i < 64 && lost == 0 && refused < 5; i++) {
        double before = now();
        CUresult code = cuGraphLaunch(all[i % 8], stream);
        longest = std::max(longest, now() - before);
        if (code == CUDA_SUCCESS) continue;
        refused++;
        printf("launch %d: code %d after %.1f ms; graphs have reserved %zu and use %zu", i, code, now() - before, reserved(), in_use());
        CUresult ended = cuStreamQuery(stream);
        printf("; the stream %s; %zu of the limit are used\n", ended == CUDA_SUCCESS ? "has ended" : "runs", used_of_limit());
        const char* how = "again";
        double again = now();
        while ((code = cuGraphLaunch(all[i % 8], stream)) != CUDA_SUCCESS && now() - again < 3000) rest();
        if (code != CUDA_SUCCESS) {
            how = "after cuStreamSynchronize";
            MUST(cuStreamSynchronize(stream));
            code = cuGraphLaunch(all[i % 8], stream);
        }
        printf("  launched %s: code %d after %.1f ms; graphs have reserved %zu\n", how, code, now() - again, reserved());
        lost += code != CUDA_SUCCESS;
    }
    MUST(cuStreamSynchronize(stream));
    printf("limited: %d refused, %d for good, %.1f ms in all, a launch at most %.1f ms, reserved %zu; %zu of the limit used before, %zu now\n", refused, lost, now() - begin, longest, reserved(), used_before, used_of_limit());
}

int main(int count, char** names) {
    std::string name = count == 2 ? names[1] : "";
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    if (name == "driver") driver();
    else if (name == "limited") limited();
    else if (name == "waits") {
        std::this_thread::sleep_for(std::chrono::milliseconds(2500)); // a daemon charges each second
        limited();
    } else { printf("usage: graphs_in_turn driver|limited|waits\n"); return 2; }
    return 0; // the library writes its report
}
