// Algorithms of CUB on data of their own, for tools/variants/again.py: each result has memory that no operand has. Prints sums of the results.
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <functional>
#include <vector>

static const int COUNT = 1 << 20, SEGMENTS = 64;

static void check(cudaError_t code) {
    if (code == cudaSuccess) return;
    std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
    std::exit(1);
}

// Memory with numbers from 0 to 15, whose sums floats have exactly, the same in each run.
template <class T> struct Array {
    T *at;
    explicit Array(int count = COUNT) {
        std::vector<T> values(count);
        uint32_t state = 7;
        for (T &value : values) value = T(((state = state * 1664525u + 1013904223u) >> 24) % 16);
        check(cudaMalloc(&at, sizeof(T) * count));
        check(cudaMemcpy(at, values.data(), sizeof(T) * count, cudaMemcpyHostToDevice));
    }
    double sum(int count) const {
        std::vector<T> values(count);
        check(cudaMemcpy(values.data(), at, sizeof(T) * count, cudaMemcpyDeviceToHost));
        double sum = 0;
        for (int i = 0; i < count; i++) sum += double(values[i]) * (i % 7 + 1);
        return sum;
    }
};
struct Less {
    template <class T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};

struct Even {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

// Calls an algorithm as CUB wants it: once for the size of its memory, once to run.
using Call = std::function<cudaError_t(void *, size_t &)>;
static void run(const char *name, const Call &call) {
    size_t bytes = 0;
    void *memory = nullptr;
    check(call(nullptr, bytes));
    check(cudaMalloc(&memory, bytes + 1));
    check(call(memory, bytes));
    check(cudaDeviceSynchronize());
    check(cudaFree(memory));
    std::printf("%s\n", name);
}

template <class T> static void all(const char *type) {
    Array<T> in, values;
    Array<int> keys, offsets(SEGMENTS + 1);
    std::vector<int> begins(SEGMENTS + 1);
    for (int i = 0; i <= SEGMENTS; i++) begins[i] = i * (COUNT / SEGMENTS);
    check(cudaMemcpy(offsets.at, begins.data(), begins.size() * sizeof(int), cudaMemcpyHostToDevice));
    Array<T> out, more, one(1), segments(SEGMENTS), bins(300), sorted;
    Array<int> unique, count(1), counts(300);
    const int n = COUNT;
    run("sum", [&](void *m, size_t &b) { return cub::DeviceReduce::Sum(m, b, in.at, one.at, n); });
    run("inclusive sum", [&](void *m, size_t &b) { return cub::DeviceScan::InclusiveSum(m, b, in.at, out.at, n); });
    std::printf("%s: %.17g %.17g\n", type, one.sum(1), out.sum(n));
    run("by key", [&](void *m, size_t &b) {
        return cub::DeviceReduce::ReduceByKey(m, b, keys.at, unique.at, in.at, out.at, count.at, Less(), n);
    });
    run("sort keys", [&](void *m, size_t &b) { return cub::DeviceRadixSort::SortKeys(m, b, in.at, sorted.at, n); });
    std::printf("%s: %.17g\n", type, sorted.sum(n));
    run("sort pairs", [&](void *m, size_t &b) {
        return cub::DeviceRadixSort::SortPairs(m, b, in.at, out.at, values.at, more.at, n);
    });
    run("small sort", [&](void *m, size_t &b) { return cub::DeviceRadixSort::SortKeys(m, b, in.at, sorted.at, 3000); });
    run("merge sort", [&](void *m, size_t &b) { return cub::DeviceMergeSort::SortKeys(m, b, sorted.at, n, Less()); });
    run("select", [&](void *m, size_t &b) {
        return cub::DeviceSelect::Flagged(m, b, in.at, keys.at, out.at, count.at, n);
    });
    run("unique", [&](void *m, size_t &b) { return cub::DeviceSelect::Unique(m, b, in.at, out.at, count.at, n); });
    run("partition", [&](void *m, size_t &b) {
        return cub::DevicePartition::Flagged(m, b, in.at, keys.at, out.at, count.at, n);
    });
    run("run length", [&](void *m, size_t &b) {
        return cub::DeviceRunLengthEncode::Encode(m, b, keys.at, unique.at, counts.at, count.at, 300);
    });
    run("segmented sum", [&](void *m, size_t &b) {
        return cub::DeviceSegmentedReduce::Sum(m, b, in.at, segments.at, SEGMENTS, offsets.at, offsets.at + 1);
    });
    run("segmented sort", [&](void *m, size_t &b) {
        return cub::DeviceSegmentedSort::SortKeys(m, b, in.at, out.at, n, SEGMENTS, offsets.at, offsets.at + 1);
    });
    run("segmented radix sort", [&](void *m, size_t &b) {
        return cub::DeviceSegmentedRadixSort::SortKeys(m, b, in.at, out.at, n, SEGMENTS, offsets.at, offsets.at + 1);
    });
    run("differences", [&](void *m, size_t &b) {
        return cub::DeviceAdjacentDifference::SubtractLeftCopy(m, b, in.at, out.at, n);
    });
    run("histogram", [&](void *m, size_t &b) {
        return cub::DeviceHistogram::HistogramEven(m, b, in.at, counts.at, 257, T(0), T(256), n);
    });
    std::printf("%s: %.17g %.17g %.17g\n", type, out.sum(n), segments.sum(SEGMENTS), counts.sum(256));
}

int main() {
    all<int>("int");
    all<float>("float");
    Array<int> in, out, count(1);
    run("even", [&](void *m, size_t &b) { return cub::DeviceSelect::If(m, b, in.at, out.at, count.at, COUNT, Even()); });
    std::printf("%.17g %.17g\n", out.sum(1000), count.sum(1));
}
