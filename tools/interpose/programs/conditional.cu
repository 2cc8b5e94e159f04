// Bodies of conditional nodes, which take no memory operations: captured from a stream, and built; and a capture into a
// graph of the program's own.
#include "program.h"

constexpr int KERNELS = 200, LAUNCHES = 30;

// A graph with a conditional node that runs its body once, after a kernel of its own; the body is empty yet.
struct Branch {
    cudaGraph_t graph, body;
};

static Branch branch(uint64_t *words) {
    Branch made;
    cudaGraphConditionalHandle handle;
    cudaGraphNode_t first, node;
    int count = WORDS;
    uint64_t value = 3;
    void *args[] = {&words, &count, &value};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)mix;
    kernel.gridDim = blocks();
    kernel.blockDim = dim3(256);
    kernel.kernelParams = args;
    CHECK(cudaGraphCreate(&made.graph, 0));
    CHECK(cudaGraphAddKernelNode(&first, made.graph, nullptr, 0, &kernel));
    CHECK(cudaGraphConditionalHandleCreate(&handle, made.graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, made.graph, &first, nullptr, 1, &params));
#else
    CHECK(cudaGraphAddNode(&node, made.graph, &first, 1, &params));
#endif
    made.body = params.conditional.phGraph_out[0];
    return made;
}

// Captures kernels into a graph that is there.
static void capture(cudaStream_t stream, cudaGraph_t graph, uint64_t *words, uint64_t first) {
    cudaGraph_t same;
    CHECK(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    for (int at = 0; at < KERNELS; at++) mix<<<blocks(), 256, 0, stream>>>(words, WORDS, first + at);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &same));
    if (same != graph) exit(2);
}

static cudaGraphExec_t run(cudaStream_t stream, cudaGraph_t graph) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < LAUNCHES; launch++) CHECK(cudaGraphLaunch(exec, stream));
    return exec;
}

int main() {
    cudaStream_t stream;
    uint64_t *words = zeroed();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    mix<<<blocks(), 256, 0, stream>>>(words, WORDS, 1); // joins
    CHECK(cudaStreamSynchronize(stream));

    Branch captured = branch(words);
    capture(stream, captured.body, words, 100);
    cudaGraphExec_t execs[2] = {run(stream, captured.graph), nullptr};

    cudaGraph_t own;
    CHECK(cudaGraphCreate(&own, 0));
    capture(stream, own, words, 5000);
    execs[1] = run(stream, own);
    size_t nodes = 0;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphGetNodes(own, nullptr, &nodes));
    if (nodes != KERNELS) return 3;
    for (cudaGraphExec_t exec : execs) CHECK(cudaGraphExecDestroy(exec));
    return end("conditional", digest(fetch(words)));
}
