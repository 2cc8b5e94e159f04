// What all parts of the study share: shapes, memory, and the time of a launch in a chain of a graph.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <functional>
#include <string>
#include <vector>

#define CALL(what)                                                                                      \
    do {                                                                                                \
        cudaError_t code = (what);                                                                      \
        if (code != cudaSuccess) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, cudaGetErrorString(code));   \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

// A product of rows x terms by columns x terms, or a convolution of 3 x 3 with padding over a square picture.
struct Shape {
    const char *network, *name;
    int count; // of such layers in the network
    int rows, columns, terms;
    int side, channels; // of a picture, else 0
    int act;
    int window() const { return side ? 3 : 1; }
};

struct Work {
    Shape shape;
    bool halves;
    int element, pitch, copies; // bytes of an element, elements of a line of weights, sets of weights
    char *activations, *weights, *output, *reference;
    float *bias, *partials;
    unsigned *arrivals;
    char *weights_of(int copy) const { return weights + (size_t)(copy % copies) * shape.columns * pitch * element; }
    double flops() const { return 2.0 * shape.rows * shape.columns * shape.terms; }
};

struct Found {
    std::string how;
    double micros;
};

const size_t PARTIALS = 256 << 20;
const int ARRIVALS = 1 << 16;

double time_chain(const Work &work, const std::function<bool(int copy, cudaStream_t)> &launch);
double difference(const Work &work);
void record(const Work &work, const char *who, const std::string &how, double micros, double off);

Found fastest_of_today(const Work &work);
Found fastest_of_gathered(const Work &work);
Found fastest_of_groups(const Work &work);
Found fastest_of_wgmma_halves(const Work &work);
Found fastest_of_wgmma_singles(const Work &work);

// Launches so that it starts early, as graphs of networks do.
inline cudaError_t launch_early(const void *kernel, unsigned blocks, unsigned threads, unsigned shared, unsigned cluster,
                                void **params, cudaStream_t stream) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = cluster;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = cluster > 1 ? 2 : 1;
    return cudaLaunchKernelExC(&config, kernel, params);
}
