// Kernels of CUB and of cooperative groups for the corpus; nvcc -ptx makes them from these calls.
#include <cooperative_groups.h>
#include <cub/cub.cuh>

namespace groups = cooperative_groups;

struct Even {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

struct Less {
    template <class T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};

#define ARGUMENTS void *temp, size_t &bytes

template <class T> void all(ARGUMENTS, T *in, T *out, int *numbers, T *values, int n, int *segments) {
    cub::DeviceReduce::Sum(temp, bytes, in, out, n);
    cub::DeviceReduce::Min(temp, bytes, in, out, n);
    cub::DeviceReduce::ArgMax(temp, bytes, in, (cub::KeyValuePair<int, T> *)values, n);
    cub::DeviceReduce::ReduceByKey(temp, bytes, numbers, numbers, in, out, numbers, Less(), n);
    cub::DeviceScan::InclusiveSum(temp, bytes, in, out, n);
    cub::DeviceScan::ExclusiveSum(temp, bytes, in, out, n);
    cub::DeviceScan::ExclusiveSumByKey(temp, bytes, numbers, in, out, n);
    cub::DeviceRadixSort::SortKeys(temp, bytes, in, out, n);
    cub::DeviceRadixSort::SortPairs(temp, bytes, in, out, values, values, n);
    cub::DeviceMergeSort::SortKeys(temp, bytes, in, n, Less());
    cub::DeviceSelect::Flagged(temp, bytes, in, numbers, out, numbers, n);
    cub::DeviceSelect::Unique(temp, bytes, in, out, numbers, n);
    cub::DevicePartition::Flagged(temp, bytes, in, numbers, out, numbers, n);
    cub::DeviceRunLengthEncode::Encode(temp, bytes, in, out, numbers, numbers, n);
    cub::DeviceSegmentedReduce::Sum(temp, bytes, in, out, 4, segments, segments + 1);
    cub::DeviceSegmentedSort::SortKeys(temp, bytes, in, out, n, 4, segments, segments + 1);
    cub::DeviceSegmentedRadixSort::SortKeys(temp, bytes, in, out, n, 4, segments, segments + 1);
    cub::DeviceAdjacentDifference::SubtractLeftCopy(temp, bytes, in, out, n);
    cub::DeviceHistogram::HistogramEven(temp, bytes, in, numbers, 257, T(0), T(256), n);
}

void integers(ARGUMENTS, int *a, int *b, int n) {
    all<int>(temp, bytes, a, b, a, b, n, b);
    cub::DeviceSelect::If(temp, bytes, a, b, b, n, Even());
    cub::DevicePartition::If(temp, bytes, a, b, b, n, Even());
}

void others(ARGUMENTS, float *a, double *b, unsigned char *c, int *d, int n) {
    all<float>(temp, bytes, a, a, d, a, n, d);
    all<double>(temp, bytes, b, b, d, b, n, d);
    cub::DeviceRadixSort::SortKeysDescending(temp, bytes, c, c, n);
    cub::DeviceReduce::Max(temp, bytes, c, c, n);
}

__global__ void grid_steps(float *x, int n, int steps) {
    auto grid = groups::this_grid();
    for (int step = 0; step < steps; ++step) {
        for (int at = grid.thread_rank(); at < n; at += grid.size()) x[at] = x[(at + 1) % n] * 0.5f;
        grid.sync();
    }
}

__global__ void tiles(const float *x, float *out) {
    auto tile = groups::tiled_partition<32>(groups::this_thread_block());
    float value = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int half = tile.size() / 2; half > 0; half /= 2) value += tile.shfl_down(value, half);
    if (tile.thread_rank() == 0) out[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = value;
}

// Tiles of several warps meet by volatile words of shared memory.
__global__ void wide_tiles(const float *x, float *out) {
    __shared__ groups::block_tile_memory<1024> memory;
    auto tile = groups::tiled_partition<128>(groups::this_thread_block(memory));
    __shared__ float values[1024];
    values[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    tile.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x ^ 127];
}
