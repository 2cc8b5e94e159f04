// Microseconds of a launch in a chain of a graph, at batch 1, of products and convolutions: as the images of today make them
// (`mma.sync`), and by wgmma.h. Weights are others at each launch, more than the second cache holds, as in a network.
//
//     study NETWORK.cubin TENSOR.cubin GATHERED.cubin [CSV [NETWORK [gathered]]]        (run.sh)
//     study NETWORK.cubin TENSOR.cubin GROUPS.cubin CSV NETWORK groups                  products of halves alone

#include "study.h"

static FILE *csv;

const Shape SHAPES[] = {
    {"vit", "qkv", 12, 197, 2304, 768, 0, 0, 0},      {"vit", "projection", 12, 197, 768, 768, 0, 0, 0},
    {"vit", "first", 12, 197, 3072, 768, 0, 0, 2},    {"vit", "second", 12, 197, 768, 3072, 0, 0, 0},
    {"bert", "qkv", 12, 128, 2304, 768, 0, 0, 0},     {"bert", "projection", 12, 128, 768, 768, 0, 0, 0},
    {"bert", "first", 12, 128, 3072, 768, 0, 0, 2},   {"bert", "second", 12, 128, 768, 3072, 0, 0, 0},
    {"vgg19", "64-64@224", 1, 50176, 64, 576, 224, 64, 1},   {"vgg19", "64-128@112", 1, 12544, 128, 576, 112, 64, 1},
    {"vgg19", "128-128@112", 1, 12544, 128, 1152, 112, 128, 1}, {"vgg19", "128-256@56", 1, 3136, 256, 1152, 56, 128, 1},
    {"vgg19", "256-256@56", 3, 3136, 256, 2304, 56, 256, 1}, {"vgg19", "256-512@28", 1, 784, 512, 2304, 28, 256, 1},
    {"vgg19", "512-512@28", 3, 784, 512, 4608, 28, 512, 1},  {"vgg19", "512-512@14", 4, 196, 512, 4608, 14, 512, 1},
};

__device__ static float number(unsigned n) {
    n = n * 747796405u + 2891336453u;
    n = ((n >> ((n >> 28) + 4)) ^ n) * 277803737u;
    return ((n >> 22 ^ n) & 0xffff) / 32768.0f - 1.0f;
}

// Singles are numbers that tf32 has.
__global__ void fill(char *to, size_t count, int halves, unsigned seed, float scale) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        const float value = number((unsigned)i + seed) * scale;
        if (halves) {
            unsigned short bits;
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
            ((unsigned short *)to)[i] = bits;
        } else {
            unsigned word;
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
            ((unsigned *)to)[i] = word;
        }
    }
}

__device__ static float at(const char *from, size_t i, int halves) {
    if (!halves) return ((const float *)from)[i];
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(((const unsigned short *)from)[i]));
    return value;
}

__global__ void by_loops(Work w) {
    const Shape &s = w.shape;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / s.columns, column = i % s.columns;
    if (row >= s.rows) return;
    double sum = 0;
    for (int t = 0; t < s.terms; t++) {
        size_t from = (size_t)row * s.terms + t;
        if (s.side) {
            const int tap = t / s.channels, y = row / s.side + tap / 3 - 1, x = row % s.side + tap % 3 - 1;
            if (y < 0 || x < 0 || y >= s.side || x >= s.side) continue;
            from = ((size_t)y * s.side + x) * s.channels + t % s.channels;
        }
        sum += at(w.activations, from, w.halves) * at(w.weights, (size_t)column * w.pitch + t, w.halves);
    }
    float value = sum + w.bias[column];
    if (s.act == 1) value = fmaxf(value, 0);
    if (s.act == 2) value = 0.5f * value * (1 + erff(value * 0.70710678f));
    ((float *)w.reference)[i] = value;
}

__global__ void largest(const char *a, const float *b, int count, int halves, unsigned *to) {
    float off = 0, most = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float d = fabsf(at(a, i, halves) - b[i]);
        off = d == d ? fmaxf(off, d) : 1e30f;
        most = fmaxf(most, fabsf(b[i]));
    }
    atomicMax(to, __float_as_uint(off));
    atomicMax(to + 1, __float_as_uint(most));
}

double difference(const Work &w) {
    static unsigned *most;
    if (!most) CALL(cudaMalloc(&most, 8));
    CALL(cudaMemset(most, 0, 8));
    largest<<<264, 256>>>(w.output, (float *)w.reference, w.shape.rows * w.shape.columns, w.halves, most);
    float both[2];
    CALL(cudaMemcpy(both, most, 8, cudaMemcpyDeviceToHost));
    return both[0] / both[1];
}

// The least of some replays; negative: no such launch.
double time_chain(const Work &w, const std::function<bool(int, cudaStream_t)> &launch) {
    static cudaStream_t stream;
    static cudaEvent_t from, to;
    if (!stream) {
        CALL(cudaStreamCreate(&stream));
        CALL(cudaEventCreate(&from));
        CALL(cudaEventCreate(&to));
    }
    CALL(cudaMemsetAsync(w.output, 0xff, (size_t)w.shape.rows * w.shape.columns * w.element, stream));
    if (!launch(0, stream)) {
        cudaGetLastError();
        return -1;
    }
    if (cudaStreamSynchronize(stream) != cudaSuccess) {
        fprintf(stderr, "%s: a launch failed: %s\n", w.shape.name, cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
    const int chain = 64;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int n = 0; n < chain; n++) launch(n, stream);
    CALL(cudaStreamEndCapture(stream, &graph));
    CALL(cudaGraphInstantiate(&ready, graph, 0));
    float least = 1e30f;
    for (int round = 0; round < 6; round++) {
        CALL(cudaEventRecord(from, stream));
        CALL(cudaGraphLaunch(ready, stream));
        CALL(cudaEventRecord(to, stream));
        CALL(cudaEventSynchronize(to));
        float millis;
        CALL(cudaEventElapsedTime(&millis, from, to));
        if (round && millis < least) least = millis;
    }
    CALL(cudaGraphExecDestroy(ready));
    CALL(cudaGraphDestroy(graph));
    return least * 1000 / chain;
}

void record(const Work &w, const char *who, const std::string &how, double micros, double off) {
    if (csv)
        fprintf(csv, "%s,%s,%s,%s,%s,%.3f,%.2e\n", w.shape.network, w.shape.name, w.halves ? "fp16" : "tf32", who, how.c_str(),
                micros, off);
    if (!(off < 3e-3)) printf("WRONG %s %s %s %s: %.2e\n", w.shape.network, w.shape.name, who, how.c_str(), off);
}

static Work work_of(const Shape &s, bool halves) {
    Work w = {s, halves};
    w.element = halves ? 2 : 4;
    w.pitch = s.side ? (s.terms * w.element + 255) / 256 * 256 / w.element : s.terms;
    const size_t set = (size_t)s.columns * w.pitch * w.element, inputs = (size_t)s.rows * (s.side ? s.channels : s.terms);
    w.copies = (int)std::min<size_t>(64, std::max<size_t>(2, (160u << 20) / set + 1));
    const size_t outputs = (size_t)s.rows * s.columns;
    CALL(cudaMalloc(&w.activations, inputs * w.element));
    CALL(cudaMalloc(&w.weights, set * w.copies));
    CALL(cudaMalloc(&w.output, outputs * w.element));
    CALL(cudaMalloc(&w.reference, outputs * 4));
    CALL(cudaMalloc(&w.bias, s.columns * 4));
    CALL(cudaMalloc(&w.partials, PARTIALS));
    CALL(cudaMalloc(&w.arrivals, ARRIVALS * 4));
    CALL(cudaMemset(w.arrivals, 0, ARRIVALS * 4));
    fill<<<264, 256>>>(w.activations, inputs, halves, 1, 1);
    fill<<<264, 256>>>(w.weights, set * w.copies / w.element, halves, 77, 0.05f);
    fill<<<264, 256>>>((char *)w.bias, s.columns, 0, 5, 1);
    by_loops<<<(outputs + 255) / 256, 256>>>(w);
    CALL(cudaDeviceSynchronize());
    return w;
}

static void let_go(Work &w) {
    for (void *memory : {(void *)w.activations, (void *)w.weights, (void *)w.output, (void *)w.reference, (void *)w.bias,
                         (void *)w.partials, (void *)w.arrivals})
        CALL(cudaFree(memory));
}

const char *images[3];

int main(int count, char **arguments) {
    if (count < 4) return fprintf(stderr, "usage: study NETWORK.cubin TENSOR.cubin GATHERED.cubin [CSV [NETWORK [gathered]]]\n"), 2;
    for (int n = 0; n < 3; n++) images[n] = arguments[n + 1];
    if (count > 4) csv = fopen(arguments[4], "w");
    cudaDeviceProp device;
    CALL(cudaGetDeviceProperties(&device, 0));
    printf("%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
    printf("%-6s %-12s %-4s %8s %-12s %8s %-16s %8s %-30s %6s %8s\n", "", "", "", "mma.sync", "", "gathered", "",
           "wgmma", "", "ratio", "TFLOP/s");
    for (bool halves : {true, false})
        for (const Shape &s : SHAPES) {
            if (count > 5 && strcmp(arguments[5], s.network)) continue;
            if (count > 6 && !strcmp(arguments[6], "groups") && !halves) continue;
            Work w = work_of(s, halves);
            const Found today = fastest_of_today(w);
            const bool groups = count > 6 && !strcmp(arguments[6], "groups");
            const Found gathered = groups ? fastest_of_groups(w) : fastest_of_gathered(w);
            const bool alone = count > 6; // no tensor maps
            const Found other = alone ? gathered : halves ? fastest_of_wgmma_halves(w) : fastest_of_wgmma_singles(w);
            printf("%-6s %-12s %-4s %8.2f %-12s %8.2f %-16s %8.2f %-30s %6.2f %8.0f\n", s.network, s.name,
                   halves ? "fp16" : "tf32", today.micros, today.how.c_str(), gathered.micros, gathered.how.c_str(),
                   other.micros, other.how.c_str(), other.micros / today.micros, w.flops() / other.micros / 1e6);
            fflush(stdout);
            let_go(w);
        }
    if (csv) fclose(csv);
}
