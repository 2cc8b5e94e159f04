// Ways to run best-effort blocks next to a real-time kernel on an NVIDIA GPU, measured against each other: tools/padding_study/run.sh
//
// A request: the stream of the real-time kernel waits at a gate in the host's memory, so that what the host's calls take is not in the
// device's time, which is between two events around the kernel. The gate opens when the kernel has been launched; calls for best-effort
// blocks come behind. The host's time begins before its first call and ends when it sees the word of the kernel's last block.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <map>
#include <string>
#include <vector>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        int code = int(call);                                                                    \
        if (code) std::printf("%s:%d: %s: code %d\n", __FILE__, __LINE__, #call, code), exit(1); \
    } while (0)

typedef unsigned u32;
const int THREADS = 256, ROUNDS = 4, PER_ROUND = 500, WARM_UP = 20, STREAMS = 4;
const u32 NONE = ~0u, INDEX = (1u << 30) - 1, RING = 1u << 20, MAX_STOPS = 2, MAX_BLOCKS = 1u << 26;
const size_t RT_SLABS = 2048, BE_SLABS = 32768; // of 4 and 32 KiB

// Where best-effort blocks come from, and what became of them.
struct Queue {
    u32 next, back_count, back_taken; // blocks begun, returned, taken again
    u32 returned, entries;             // blocks that are to be taken again; workers of graphs
    u32 finished, workers, neighbours, wrong;
};
enum Flags : u32 { FIXED = 1, STOPS = 2, PATIENT = 4, LEAVES = 8, COUNTED = 16, RETURNED = 32 };
struct Be {
    Queue *queue;
    u32 *back, *count;
    const u32 *stop, *busy; // epoch that has ended; the real-time kernel that a multiprocessor has, from 1
    const float4 *data;
    float *sink;
    int chunks, is_memory;
    u32 flags, first, turns, width, epoch;
};
struct Rt {
    const float4 *data;
    float *sink;
    u32 *done, *live, *busy;
    volatile u32 *host;
    int steps;
    u32 blocks;
};

__device__ u32 fresh(const u32 *word) { return *(const volatile u32 *)word; }
__device__ u32 unit() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

// Loads that the L2 cache has, a tile in shared memory, multiplications.
__device__ void real_time(const Rt &rt, float *tile) {
    if (threadIdx.x == 0) *(volatile u32 *)&rt.busy[unit()] = fresh(rt.live) + 1;
    float a = threadIdx.x, b = 1;
    for (int s = 0; s < rt.steps; s++) {
        float4 v = __ldcg(&rt.data[(blockIdx.x * 131 + s * 17) % RT_SLABS * THREADS + threadIdx.x]);
        float *row = tile + s % 32 * THREADS;
        row[threadIdx.x] = v.x;
        __syncthreads();
        float w = row[threadIdx.x ^ 32];
#pragma unroll
        for (int i = 0; i < 32; i++) a = fmaf(a, v.y, w), b = fmaf(b, v.z, v.w);
    }
    if (a + b == 12345.678f) *rt.sink = a;
    __syncthreads();
    if (threadIdx.x) return;
    __threadfence();
    if (atomicAdd(rt.done, 1) != rt.blocks - 1) return;
    *rt.done = 0;
    u32 ended = fresh(rt.live) + 1;
    *(volatile u32 *)rt.live = ended;
    *rt.host = ended;
}

__device__ u32 take(const Be &be) {
    Queue *q = be.queue;
    if (int(fresh(&q->returned)) > 0) {
        if (int(atomicSub(&q->returned, 1)) > 0) {
            u32 at = atomicAdd(&q->back_taken, 1) % RING, entry;
            while ((entry = atomicExch(&be.back[at], NONE)) == NONE) {}
            return entry;
        }
        atomicAdd(&q->returned, 1);
    }
    return be.flags & RETURNED ? NONE : atomicAdd(&q->next, 1);
}

// About a microsecond of a block's work.
__device__ float chunk(const Be &be, u32 id, int c, float a) {
    if (be.is_memory) {
        const float4 *from = &be.data[(size_t(id) * 7919 + c) % BE_SLABS * 2048 + threadIdx.x];
        float4 v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = __ldcs(from + i * THREADS);
#pragma unroll
        for (int i = 0; i < 8; i++) a += v[i].x + v[i].y + v[i].z + v[i].w;
        return a;
    }
#pragma unroll 16
    for (int i = 0; i < 512; i++) a = fmaf(a, 0.999f, 0.5f);
    return a;
}

// A worker: up to `turns` blocks, one after the other.
__device__ void best_effort(const Be &be, u32 worker) {
    __shared__ u32 given;
    u32 epoch = be.epoch;
    bool leaves = false, leader = threadIdx.x == 0;
    if (leader && be.flags & STOPS) {
        if (be.flags & COUNTED) epoch = atomicAdd(&be.queue->entries, 1) / be.width;
        bool is_neighbour = fresh(&be.busy[unit()]) == epoch + 1;
        atomicAdd(&be.queue->workers, 1);
        if (is_neighbour) atomicAdd(&be.queue->neighbours, 1);
        leaves = is_neighbour && be.flags & LEAVES;
    }
    float a = threadIdx.x;
    for (u32 turn = 0; turn < be.turns; turn++) {
        if (leader) {
            bool is_void = be.flags & STOPS && (leaves || fresh(be.stop) > epoch);
            given = is_void ? NONE : be.flags & FIXED ? be.first + turn * be.width + worker : take(be);
        }
        __syncthreads();
        u32 entry = given, id = entry & INDEX, stops = entry >> 30;
        if (entry == NONE) return;
        bool may_stop = be.flags & STOPS && !(be.flags & PATIENT && stops >= MAX_STOPS), stopped = false;
        for (int c = 0; c < be.chunks && !stopped; c++) {
            u32 seen = leader && may_stop ? fresh(be.stop) : 0;
            a = chunk(be, id, c, a);
            stopped = __syncthreads_or(leader && may_stop && seen > epoch) && c + 1 < be.chunks;
        }
        __syncthreads(); // all have read `given`
        if (!leader) continue;
        if (stopped) {
            u32 at = atomicAdd(&be.queue->back_count, 1) % RING;
            while (atomicCAS(&be.back[at], NONE, min(stops + 1, MAX_STOPS) << 30 | id) != NONE) {}
            atomicAdd(&be.queue->returned, 1);
        } else {
            atomicAdd(&be.count[id], 1);
            atomicAdd(&be.queue->finished, 1);
        }
    }
    if (a == 12345.678f) *be.sink = a;
}

extern __shared__ float tile[];
__global__ void __launch_bounds__(THREADS) plain(Rt rt) { real_time(rt, tile); }
__global__ void __launch_bounds__(THREADS) companion(Be be) { best_effort(be, blockIdx.x); }
template <int PER_UNIT> __global__ void __launch_bounds__(THREADS, PER_UNIT) merged(Rt rt, Be be) {
    if (blockIdx.x < rt.blocks) real_time(rt, tile);
    else best_effort(be, blockIdx.x - rt.blocks);
}
__global__ void check(Queue *q, const u32 *count, u32 total) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, wanted = i < total;
    if (i < total + 4096 && count[i] != wanted) atomicAdd(&q->wrong, 1);
}
__global__ void fill(float *data, size_t count) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        data[i] = float(i * 2654435761u % 1000) * 1e-3f;
}

enum Way { ALONE, A, A1, AL, B1, B2, B3, C, CAPPED, PRIORITY, WAYS };
const char *NAMES[] = {"alone", "a", "a1", "al", "b1", "b2", "b3", "c", "capped", "priority"};
struct Times {
    std::vector<float> device, host;
    double seconds = 0, finished = 0;
    u32 workers = 0, neighbours = 0, wrong = 0, width = 0, turns = 0;
};
struct Kind { // of best-effort blocks
    int is_memory;
    double us, real_us;
    int chunks;
    double rate; // alone, on the whole device
};

static const char *name(const Kind &kind) { return kind.is_memory ? "memory" : "arithmetic"; }
static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
static u32 units;
static cudaStream_t rt_stream, be_streams[STREAMS];
static cudaEvent_t begun, ended, fork_event, join_event, be_events[STREAMS];
static volatile u32 *host_word, *gate;
static CUdeviceptr gate_device, stop_device;
static Queue *queue;
static Rt rt_base;
static Be be_base;
static u32 *stop_word;

static Queue read_queue() {
    Queue q;
    CHECK(cudaMemcpyAsync(&q, queue, sizeof q, cudaMemcpyDeviceToHost, rt_stream));
    CHECK(cudaStreamSynchronize(rt_stream));
    return q;
}
static void write_word(u32 *word, u32 value) {
    CHECK(cudaMemcpyAsync(word, &value, 4, cudaMemcpyHostToDevice, rt_stream));
    CHECK(cudaStreamSynchronize(rt_stream));
}
static void reset() {
    CHECK(cudaMemset(queue, 0, sizeof(Queue)));
    CHECK(cudaMemset(rt_base.done, 0, 4096)); // done, live, stop
    CHECK(cudaMemset(rt_base.busy, 0, 4096));
    CHECK(cudaDeviceSynchronize());
    *host_word = 0;
    *gate = 0;
}
// Runs what was returned; all blocks must have run once.
static u32 settle(Be be, u32 total, bool is_fixed) {
    CHECK(cudaDeviceSynchronize());
    be.flags = RETURNED, be.turns = NONE;
    companion<<<4 * units, THREADS, 0, rt_stream>>>(be);
    if (!is_fixed) total = read_queue().next;
    if (total + 4096 > MAX_BLOCKS) std::printf("too many blocks: %u\n", total), exit(1);
    check<<<(total + 4096 + 255) / 256, 256, 0, rt_stream>>>(queue, be.count, total);
    u32 wrong = read_queue().wrong;
    CHECK(cudaMemsetAsync(be.count, 0, (size_t(total) + 4096) * 4, rt_stream));
    CHECK(cudaStreamSynchronize(rt_stream));
    return wrong;
}
static Be be_of(const Kind &kind) {
    Be be = be_base;
    be.chunks = kind.chunks, be.is_memory = kind.is_memory;
    return be;
}

// Launches of two milliseconds, two of them always in the stream.
struct Feed {
    Be be;
    u32 grid, total = 0, launched = 0;
    void put() {
        be.first = total, total += grid * be.turns;
        companion<<<grid, THREADS, 0, be_streams[0]>>>(be);
        CHECK(cudaEventRecord(be_events[launched++ % 2], be_streams[0]));
    }
    void go_on() {
        if (launched < 2 || cudaEventQuery(be_events[launched % 2]) == cudaSuccess) put();
    }
};
static Feed feed_of(const Kind &kind, Way way, u32 free) {
    Feed feed{be_of(kind), free};
    u32 each = u32(2000 / kind.real_us) + 1;
    feed.be.flags = FIXED, feed.be.turns = way == CAPPED ? each : 1;
    feed.grid = way == CAPPED ? free : 2 * units * each;
    feed.be.width = feed.grid;
    return feed;
}

static void launch_merged(Way way, u32 grid, const Rt &rt, const Be &be) {
    if (way == B1) merged<4><<<grid, THREADS, 32 << 10, rt_stream>>>(rt, be);
    if (way == B2) merged<2><<<grid, THREADS, 72 << 10, rt_stream>>>(rt, be);
    if (way == B3) merged<1><<<grid, THREADS, 160 << 10, rt_stream>>>(rt, be);
}
static cudaGraphExec_t capture(const Rt &rt, const Be &be) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(rt_stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventRecordWithFlags(begun, rt_stream, cudaEventRecordExternal));
    CHECK(cudaEventRecord(fork_event, rt_stream));
    CHECK(cudaStreamWaitEvent(be_streams[0], fork_event, 0));
    plain<<<rt.blocks, THREADS, 32 << 10, rt_stream>>>(rt);
    CHECK(cudaEventRecordWithFlags(ended, rt_stream, cudaEventRecordExternal));
    companion<<<be.width, THREADS, 0, be_streams[0]>>>(be);
    CHECK(cudaEventRecord(join_event, be_streams[0]));
    CHECK(cudaStreamWaitEvent(rt_stream, join_event, 0));
    CHECK(cudaStreamEndCapture(rt_stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(exec, rt_stream));
    CHECK(cudaStreamSynchronize(rt_stream));
    return exec;
}

// A round of requests, one after the other.
static void run_round(Way way, const Rt &rt, double rt_us, const Kind &kind, Times &times) {
    reset();
    u32 free = units - rt.blocks;
    Be be = be_of(kind);
    be.width = way == AL ? 2 * units : way == A || way == B1 || way == B2 ? 2 * free : free;
    be.turns = way == C ? NONE : std::max(1u, u32(rt_us / kind.real_us));
    be.flags = STOPS | (way == A || way == A1 || way == AL ? PATIENT : 0) | (way == AL ? LEAVES : 0) | (way == C ? COUNTED : 0);
    be.stop = way == A || way == A1 ? stop_word : rt.live;
    bool is_fed = way == CAPPED || way == PRIORITY, is_merged = way == B1 || way == B2 || way == B3;
    Feed feed = feed_of(kind, way, free);
    times.width = way == ALONE ? 0 : is_fed ? feed.grid : be.width, times.turns = is_fed ? feed.be.turns : be.turns;
    cudaGraphExec_t exec = way == C ? capture(rt, be) : nullptr;
    if (is_fed) feed.put(), feed.put();
    u32 requests = way == PRIORITY && kind.us > 500 ? PER_ROUND / 4 : PER_ROUND; // of milliseconds each
    int streams = way == A ? STREAMS : 1;
    double from = now();
    for (u32 n = 0; n < requests + WARM_UP; n++) {
        if (is_fed) feed.go_on();
        be.epoch = n;
        double start = now();
        CHECK(cuStreamWaitValue32(rt_stream, gate_device, n + 1, CU_STREAM_WAIT_VALUE_GEQ));
        if (way == C) {
            CHECK(cudaGraphLaunch(exec, rt_stream));
        } else {
            CHECK(cudaEventRecord(begun, rt_stream));
            if (is_merged) launch_merged(way, rt.blocks + be.width, rt, be);
            else plain<<<rt.blocks, THREADS, 32 << 10, rt_stream>>>(rt);
            CHECK(cudaEventRecord(ended, rt_stream));
        }
        *gate = n + 1;
        if (way == A || way == A1) CHECK(cuStreamWriteValue32(rt_stream, stop_device, n + 1, 0));
        if (way == A || way == A1 || way == AL) {
            int at = 0; // one with nothing in it; else the kernel runs alone
            while (at < streams && cudaEventQuery(be_events[at]) != cudaSuccess) at++;
            if (at < streams) {
                CHECK(cudaStreamWaitEvent(be_streams[at], begun, 0));
                companion<<<be.width, THREADS, 0, be_streams[at]>>>(be);
                CHECK(cudaEventRecord(be_events[at], be_streams[at]));
            }
        }
        double seen = 0;
        do {
            seen = now();
            if (seen - start > 3)
                std::printf("%s: request %u never ended: %s\n", NAMES[way], n, cudaGetErrorName(cudaPeekAtLastError())), exit(1);
        } while (*host_word != n + 1);
        if (way == C) CHECK(cudaStreamSynchronize(rt_stream));
        else CHECK(cudaEventSynchronize(ended));
        float ms = 0;
        if (cudaEventElapsedTime(&ms, begun, ended)) ms = -1e-3f; // shown as -1
        if (n < WARM_UP) continue;
        times.device.push_back(ms * 1e3f);
        times.host.push_back(float((seen - start) * 1e6));
    }
    times.seconds += now() - from;
    Queue q = read_queue();
    times.finished += q.finished, times.workers += q.workers, times.neighbours += q.neighbours;
    write_word(stop_word, NONE);
    times.wrong += settle(be, feed.total, is_fed);
    if (exec) CHECK(cudaGraphExecDestroy(exec));
    (void)cudaGetLastError(); // of queries of events
}

static double elapsed(cudaStream_t stream, auto launch) {
    float ms = 0;
    for (int i = 0; i < 2; i++) {
        CHECK(cudaEventRecord(begun, stream));
        launch();
        CHECK(cudaEventRecord(ended, stream));
        CHECK(cudaEventSynchronize(ended));
        CHECK(cudaEventElapsedTime(&ms, begun, ended));
    }
    return ms * 1e3;
}
static double part(std::vector<float> sorted, double p) {
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, size_t(sorted.size() * p))];
}

static void calibrate(Kind &kind) {
    Be be = be_base;
    be.flags = FIXED, be.turns = 1, be.width = units, be.is_memory = kind.is_memory;
    auto run = [&](int chunks) {
        be.chunks = chunks, be.first = 0;
        return elapsed(rt_stream, [&] { companion<<<units, THREADS, 0, rt_stream>>>(be); });
    };
    double short_us = run(500), each = (run(1500) - short_us) / 1000;
    kind.chunks = std::max(1, int(std::lround(kind.us / each)));
    kind.real_us = kind.chunks * each;
    CHECK(cudaMemset(be.count, 0, 1 << 20));
    reset();
    Feed feed = feed_of(kind, PRIORITY, units);
    feed.put();
    CHECK(cudaStreamSynchronize(be_streams[0]));
    double from = now();
    for (int i = 0; i < 4; i++) feed.put();
    CHECK(cudaStreamSynchronize(be_streams[0]));
    kind.rate = 4.0 * feed.grid / (now() - from);
    u32 wrong = settle(feed.be, feed.total, true);
    std::printf("blocks of %s %g us: %d chunks, %.1f us, %.0f a second alone, %u wrong\n", name(kind), kind.us, kind.chunks,
                kind.real_us, kind.rate, wrong);
}

static void set_up() {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    cudaDeviceProp facts;
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDeviceProperties(&facts, 0));
    units = facts.multiProcessorCount;
    int low, high;
    CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
    CHECK(cudaStreamCreateWithPriority(&rt_stream, cudaStreamNonBlocking, high));
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreate(&ended));
    CHECK(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(cudaStreamCreateWithPriority(&be_streams[i], cudaStreamNonBlocking, low));
        CHECK(cudaEventCreateWithFlags(&be_events[i], cudaEventDisableTiming));
    }
    u32 *host, *host_device, *words;
    CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&host_device, host, 0));
    host_word = host, gate = host + 64, gate_device = CUdeviceptr(host_device + 64);
    CHECK(cudaMalloc(&words, 4096)); // each alone in its line
    CHECK(cudaMalloc(&queue, 4096));
    stop_word = words + 128, stop_device = CUdeviceptr(stop_word);
    rt_base.host = host_device, rt_base.done = words, rt_base.live = words + 64;
    CHECK(cudaMalloc(&rt_base.busy, 4096));
    float *data, *sink;
    size_t count = BE_SLABS * 2048 * 4;
    CHECK(cudaMalloc(&data, count * sizeof(float)));
    CHECK(cudaMalloc(&sink, 4096));
    fill<<<1024, 256>>>(data, count);
    rt_base.data = be_base.data = (const float4 *)data, rt_base.sink = be_base.sink = sink;
    CHECK(cudaMalloc(&be_base.count, size_t(MAX_BLOCKS) * 4));
    CHECK(cudaMemset(be_base.count, 0, size_t(MAX_BLOCKS) * 4));
    CHECK(cudaMalloc(&be_base.back, size_t(RING) * 4));
    CHECK(cudaMemset(be_base.back, 0xff, size_t(RING) * 4));
    be_base.queue = queue, be_base.busy = rt_base.busy, be_base.stop = rt_base.live;
    CHECK(cudaFuncSetAttribute(merged<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, 72 << 10));
    CHECK(cudaFuncSetAttribute(merged<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 << 10));
    reset();
    std::printf("%s, %u multiprocessors\n", facts.name, units);
}

int main(int argc, char **argv) {
    const double begin = now(), budget = argc > 1 ? atof(argv[1]) : 135;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    set_up();
    std::vector<Kind> kinds;
    for (int is_memory = 0; is_memory < 2; is_memory++)
        for (double us : {5., 20., 100., 1000.}) kinds.push_back({is_memory, us});
    for (Kind &kind : kinds) calibrate(kind);
    const double eighths[][2] = {{4, 50}, {7, 50}, {4, 20}, {1, 50}, {4, 200}, {7, 20}, {1, 20}};
    std::string table = "rt_blocks\trt_us\tbe\tbe_us\tway\twidth\tturns\tdevice_p50\tdevice_p99\tdevice_p99.9\thost_p50\thost_p99\t"
                        "host_p99.9\tdevice_p99_ratio\thost_p99_ratio\tbe_per_s\tkept_percent\tneighbours_percent\twrong\n";
    std::printf("%s", table.c_str());
    // By way and kind: cases, of them not delayed by the device's time and by the host's, and kept.
    std::map<std::pair<int, size_t>, std::vector<double>> sums;
    u32 skipped = 0;
    for (auto [eighth, rt_us] : eighths) {
        Rt rt = rt_base;
        rt.blocks = u32(units * eighth / 8);
        auto run = [&](int steps) {
            rt.steps = steps;
            return elapsed(rt_stream, [&] { plain<<<rt.blocks, THREADS, 32 << 10, rt_stream>>>(rt); });
        };
        double few = run(500), each = (run(2500) - few) / 2000;
        rt.steps = std::max(1, int(std::lround((rt_us - 3) / each))); // a launch takes about 3
        for (size_t k = 0; k < kinds.size(); k++) {
            if (now() - begin > budget) {
                skipped++;
                continue;
            }
            Times times[WAYS];
            for (int round = 0; round < ROUNDS; round++)
                for (int i = 0; i < WAYS; i++) {
                    int way = (i + round) % WAYS;
                    run_round(Way(way), rt, rt_us, kinds[k], times[way]);
                }
            for (int way = 0; way < WAYS; way++) {
                Times &t = times[way], &alone = times[ALONE];
                double d99 = part(t.device, .99), h99 = part(t.host, .99), rate = t.finished / t.seconds;
                double d = d99 / part(alone.device, .99), h = h99 / part(alone.host, .99), kept = 100 * rate / kinds[k].rate;
                char row[512];
                int at = std::snprintf(row, sizeof row, "%u\t%g\t%s\t%g\t%s\t%u\t%d\t", rt.blocks, rt_us, name(kinds[k]), kinds[k].us,
                                       NAMES[way], t.width, int(t.turns));
                at += std::snprintf(row + at, sizeof row - at, "%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t", part(t.device, .5), d99,
                                    part(t.device, .999), part(t.host, .5), h99, part(t.host, .999));
                std::snprintf(row + at, sizeof row - at, "%.3f\t%.3f\t%.0f\t%.2f\t%.1f\t%u\n", d, h, rate, kept,
                              t.workers ? 100. * t.neighbours / t.workers : 0, t.wrong);
                std::printf("%s", row);
                table += row;
                auto &sum = sums[{way, k}];
                sum.resize(7);
                sum[0]++, sum[1] += d <= 1.02, sum[2] += h <= 1.02, sum[3] += kept, sum[4] += d, sum[5] += h, sum[6] += t.wrong;
            }
        }
    }
    std::string path = std::string(getenv("OUT") ? getenv("OUT") : ".") + "/padding.tsv";
    if (FILE *file = std::fopen(path.c_str(), "w")) std::fputs(table.c_str(), file), std::fclose(file);
    std::printf("\n%s\nway\tbe\tbe_us\tcases\tnot_delayed_device\tnot_delayed_host\tdevice_ratio\thost_ratio\tkept\twrong\n",
                table.c_str());
    double wrong = 0;
    for (auto &[at, sum] : sums) {
        const Kind &kind = kinds[at.second];
        double n = sum[0];
        wrong += sum[6];
        std::printf("%s\t%s\t%g\t%g\t%g\t%g\t%.3f\t%.3f\t%.1f\t%g\n", NAMES[at.first], name(kind), kind.us, n, sum[1], sum[2],
                    sum[4] / n, sum[5] / n, sum[3] / n, sum[6]);
    }
    std::printf("%g wrong blocks, %u pairs skipped, %.0f s\n", wrong, skipped, now() - begin);
    return wrong > 0;
}
