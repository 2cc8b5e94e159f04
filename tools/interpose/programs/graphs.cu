// Graphs that are built node by node, with another inside, updated in every way and cloned; and a captured one.
#include "program.h"

constexpr int KERNELS = 300, INNER = 100, LAUNCHES = 60;

static cudaKernelNodeParams params(void **args) {
    cudaKernelNodeParams params = {};
    params.func = (void *)mix;
    params.gridDim = blocks();
    params.blockDim = dim3(256);
    params.kernelParams = args;
    return params;
}

struct Built {
    cudaGraph_t graph;
    std::vector<cudaGraphNode_t> nodes;
};

// Kernels behind each other, and in their middle a graph, if there is one.
static Built chain(uint64_t *words, int kernels, uint64_t first, cudaGraph_t inner = nullptr) {
    Built built;
    CHECK(cudaGraphCreate(&built.graph, 0));
    for (int at = 0; at < kernels; at++) {
        cudaGraphNode_t node, *before = built.nodes.empty() ? nullptr : &built.nodes.back();
        if (inner && at == kernels / 2) {
            CHECK(cudaGraphAddChildGraphNode(&node, built.graph, before, before != nullptr, inner));
        } else {
            int count = WORDS;
            uint64_t value = first + at;
            void *args[] = {&words, &count, &value};
            cudaKernelNodeParams with = params(args);
            CHECK(cudaGraphAddKernelNode(&node, built.graph, before, before != nullptr, &with));
        }
        built.nodes.push_back(node);
    }
    return built;
}

static void launch(cudaGraphExec_t exec, cudaStream_t stream) {
    for (int launch = 0; launch < LAUNCHES; launch++) CHECK(cudaGraphLaunch(exec, stream));
}

int main() {
    cudaStream_t stream;
    cudaGraphExec_t exec, variant, captured_exec;
    cudaGraph_t clone, captured;
    cudaGraphNode_t found;
    uint64_t *words = zeroed(), value = 7777;
    int count = WORDS;
    void *args[] = {&words, &count, &value};
    cudaKernelNodeParams with = params(args);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());

    Built inner = chain(words, INNER, 50), other = chain(words, INNER, 5000);
    Built graph = chain(words, KERNELS, 0, inner.graph), next = chain(words, KERNELS, 9000, other.graph);
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph.graph, 0));
    launch(exec, stream);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, graph.nodes[KERNELS - 5], &with));
    launch(exec, stream);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, graph.nodes[KERNELS / 2], other.graph));
    launch(exec, stream);
    cudaGraphExecUpdateResultInfo result = {};
    CHECK(cudaGraphExecUpdate(exec, next.graph, &result));
    launch(exec, stream);
    if (cudaGraphExecUpdate(exec, inner.graph, &result) != cudaErrorGraphExecUpdateFailure) return 2;
    (void)cudaGetLastError();
    CHECK(cudaGraphClone(&clone, graph.graph));
    CHECK(cudaGraphNodeFindInClone(&found, graph.nodes[1], clone));
    CHECK(cudaGraphInstantiateWithFlags(&variant, clone, 0));
    CHECK(cudaGraphExecKernelNodeSetParams(variant, found, &with));
    launch(variant, stream);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int at = 0; at < KERNELS; at++) mix<<<blocks(), 256, 0, stream>>>(words, WORDS, at);
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiateWithFlags(&captured_exec, captured, 0));
    launch(captured_exec, stream);
    CHECK(cudaStreamSynchronize(stream));

    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph.graph, nullptr, &nodes));
    if (nodes != KERNELS) return 3;
    for (cudaGraphExec_t each : {exec, variant, captured_exec}) CHECK(cudaGraphExecDestroy(each));
    return end("graphs", digest(fetch(words)));
}
