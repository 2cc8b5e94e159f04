// Convolutions that don't read each other's outputs, one by one, as one launch, and with a wait at the end: README.md next to this file.
//
// All kernels are those of kernels/network.cu in its plain build, or the same body with another beginning or end (`convolve_as`).
// No buffer is written twice in a request, so only what a launch reads decides over when it may run.
#define REEF_GUARDED 0
#include "../../kernels/network.cu"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <string>
#include <vector>

// --- Kernels -------------------------------------------------------------------------------------------------------------------

const int MOST = 4; // convolutions of a launch
struct Group {
    Conv of[MOST];
    u32 begins[MOST]; // number of the first block of each
};
static_assert(sizeof(Conv) == 216 && sizeof(Group) % 8 == 0, "as the host's parameters");

#if REEF_ASYNC
// `convolve` of kernels/conv.h in its plain build. `index`: which of the convolution's blocks this is. `late`: nothing that it reads is
// written by the launch before, for which it waits when it has written.
template <class Tile> __device__ __forceinline__ void convolve_as(const Conv &conv, u32 index, bool late) {
    extern __shared__ __align__(128) char memory[];
    constexpr int STAGES = Tile::STAGES, STAGE_BYTES = Gather<Tile>::STAGE_BYTES;
    u32 rest = conv.by_output_tiles(index);
    u32 first_output = (index - rest * conv.output_tiles) * Tile::OUTPUTS;
    u32 split = conv.by_pixel_tiles(rest);
    u32 first_pixel = (rest - split * conv.pixel_tiles) * Tile::PIXELS;
    u32 tile = index - split * conv.output_tiles * conv.pixel_tiles;
    u32 begin = split * conv.slabs / conv.splits, end = (split + 1) * conv.slabs / conv.splits;

    const typename Tile::Place slabs = Tile::place(memory);
    Gather<Tile> gather(conv, first_pixel, first_output, begin);
    for (int stage = 0; stage < STAGES - 1; stage++)
        if (begin + stage < end) gather.next_weights(slabs + stage * STAGE_BYTES);
    Finish<Tile> finish(conv, first_pixel, first_output);
    if (!late) reef::wait_for_previous();
    reef::let_next_start();
    u32 fetched = begin;
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (fetched < end) gather.next_pixels(slabs + stage * STAGE_BYTES), fetched++;
        end_copies();
    }
    if (conv.splits == 1) finish.bring_residual();
    Tile sums;
    wait_copies<STAGES - 2>();
    __syncthreads();
    u32 reading = 0, writing = STAGES - 1;
    for (u32 slab = begin;;) {
        if (fetched < end) gather.next(slabs + writing * STAGE_BYTES), fetched++;
        end_copies();
        writing = writing == STAGES - 1 ? 0 : writing + 1;
        const typename Tile::Place stage = slabs + reading * STAGE_BYTES;
        reading = reading == STAGES - 1 ? 0 : reading + 1;
        sums.add(stage, stage + Gather<Tile>::PIXEL_BYTES);
        if (++slab == end) break;
        wait_copies<STAGES - 2>();
        __syncthreads();
    }
    __syncthreads();
    sums.store((float *)memory);
    __syncthreads();
    finish.take((const float *)memory);
    if (conv.splits > 1) {
        finish.write_partial(split);
        if (!comes_last(conv.arrivals + tile, conv.splits)) return;
        finish.bring_residual();
        finish.read_partials();
    }
    finish.write();
}
#define BODY(...) __VA_ARGS__
#else
#define BODY(...)
// The host's compiler sees no kernels of tensor cores. It makes their stubs of these.
#define STUBS(bm, bn)                                                                   \
    extern "C" __global__ void conv_tf32_##bm##x##bn(reef::Guard guard, Conv conv) {}    \
    extern "C" __global__ void conv_rounded_##bm##x##bn(reef::Guard guard, Conv conv) {} \
    extern "C" __global__ void conv_f16_##bm##x##bn(reef::Guard guard, Conv conv) {}
STUBS(32, 32)
STUBS(64, 32)
STUBS(64, 64)
#define GROUP_STUB(family, bm, bn) extern "C" __global__ void convs_##family##_##bm##x##bn(reef::Guard guard, ConvGroup group) {}
#define GROUP_STUBS(bm, bn) GROUP_STUB(tf32, bm, bn) GROUP_STUB(rounded, bm, bn) GROUP_STUB(f16, bm, bn)
GROUP_STUBS(32, 32)
GROUP_STUBS(64, 32)
GROUP_STUB(f16, 64, 64)
#endif

// A launch that doesn't wait when it begins waits when it has written, whichever way its blocks go: it ends behind the one before.
#define KERNELS_OF(bm, bn, threads)                                                                                            \
    extern "C" __global__ void __launch_bounds__(threads, 2) flagged_##bm##x##bn(reef::Guard guard, Conv conv) {               \
        BODY(const bool late = conv.unused; convolve_as<conv_f16_##bm##x##bn##_tile>(conv, blockIdx.x, late);                   \
             if (late) reef::wait_for_previous();)                                                                             \
    }                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(threads, 2) group_##bm##x##bn(reef::Guard guard, Group group) {               \
        BODY(u32 which = 0; for (int n = 1; n < MOST; n++) which += blockIdx.x >= group.begins[n];                              \
             convolve_as<conv_f16_##bm##x##bn##_tile>(group.of[which], blockIdx.x - group.begins[which], false);)               \
    }
KERNELS_OF(32, 32, 128)
KERNELS_OF(64, 32, 256)
KERNELS_OF(64, 64, 256)

struct Wrong {
    u32 count, worst; // bits of the largest error, which isn't negative
};
// Each output of a convolution by plain loops in fp32, from the inputs that it had.
__global__ void reference(const __grid_constant__ Conv conv, Wrong *wrong) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= conv.pixels * conv.outputs) return;
    const u32 m = i / conv.outputs, o = i % conv.outputs;
    const Half *weights = (const Half *)conv.weights + (u64)o * conv.slabs * (SLAB / 2);
    float want = 0;
    for (u32 r = 0; r < conv.window_height; r++)
        for (u32 s = 0; s < conv.window_width; s++) {
            const int y = int(m / conv.line * conv.stride_down + r) - int(conv.pad_up);
            const int x = int(m % conv.line * conv.stride_right + s) - int(conv.pad_left);
            if (y < 0 || y >= int(conv.height) || x < 0 || x >= int(conv.width)) continue;
            const Half *pixel = (const Half *)conv.input + (u64)(y * conv.width + x) * conv.input_pitch;
            const Half *tap = weights + (r * conv.window_width + s) * conv.channels;
            for (u32 k = 0; k < conv.channels; k++) want += to_float(pixel[k]) * to_float(tap[k]);
        }
    want += conv.bias[o];
    const u64 at = (u64)m * conv.output_pitch + o;
    if (conv.residual) want += to_float(((const Half *)conv.residual)[at]);
    want = fmaxf(want, conv.activation.low);
    const float off = fabsf(to_float(((const Half *)conv.output)[at]) - want);
    if (!(off <= 2e-3f + 2e-3f * fabsf(want))) atomicAdd(&wrong->count, 1u);
    atomicMax(&wrong->worst, __float_as_uint(off));
}
__global__ void compare(const u32 *one, const u32 *other, size_t words, u32 *different) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += size_t(gridDim.x) * blockDim.x)
        if (one[i] != other[i]) atomicAdd(different, 1u);
}
__device__ float made_up(u32 i, u32 seed) { // -1 to 1
    u32 x = (i ^ seed * 0x9e3779b9u) * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0xc2b2ae35u;
    x = (x ^ x >> 13) * 0x27d4eb2fu;
    return float((x ^ x >> 16) >> 8) * (2.f / 16777216.f) - 1.f;
}
// Rows of `row` halves, of which the first `count` are numbers.
__global__ void make_halves(Half *to, u32 all, u32 row, u32 count, float scale, u32 seed) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < all) set(to[i], i % row < count ? scale * made_up(i, seed) : 0.f);
}
__global__ void make_floats(float *to, u32 count, float scale, u32 seed) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = scale * made_up(i, seed);
}

// --- The host ------------------------------------------------------------------------------------------------------------------

static void check(cudaError_t code, const char *call, int line) {
    if (code == cudaSuccess) return;
    std::printf("study.cu:%d: %s: %s\n", line, call, cudaGetErrorString(code));
    std::exit(1);
}
#define CHECK(call) check((call), #call, __LINE__)

static cudaStream_t stream;
static cudaEvent_t begun, ended;
static int units;

template <class T> static T *device_memory(size_t count) {
    T *memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    CHECK(cudaDeviceSynchronize()); // `stream` doesn't wait for this one
    return memory;
}
static int up(int n, int by) { return (n + by - 1) / by; }
static Divisor divisor(u32 by) {
    u32 power = 0;
    while ((1ull << power) < by) power++;
    const u32 shift = 31 + power;
    return {u32(((1ull << shift) + by - 1) / by), shift};
}

// Times as in operators/tiles/tile.rs, next to warpgroups.
struct Tile {
    int pixels, outputs, threads, shared;
    double latency, work;
    const void *plain, *flagged, *group;
    const char *name;
};
static const Tile TILES[] = {
    {32, 32, 128, 4 * 64 * 256, .18, .12, (const void *)conv_f16_32x32, (const void *)flagged_32x32, (const void *)group_32x32, "32x32"},
    {64, 32, 256, 4 * 96 * 256, .25, .23, (const void *)conv_f16_64x32, (const void *)flagged_64x32, (const void *)group_64x32, "64x32"},
    {64, 64, 256, 3 * 128 * 256, .49, .34, (const void *)conv_f16_64x64, (const void *)flagged_64x64, (const void *)group_64x64, "64x64"},
};
struct Way {
    int tile = 0, splits = 1;
};

enum Kind { CONVERT, CONV, POOL, MEAN, LINEAR };
struct Storage {
    int h, w, c;
    size_t at; // in the arena
};
struct Node {
    std::string name;
    Kind kind;
    int from, to, added; // storages; `added` may be -1
    bool average;
    Conv conv; // but for what a way says
    Way way, in_group;
    int place = -1; // which of the places that have several convolutions side by side
    float *partials[2] = {};
    u32 *arrivals[2] = {};
};
struct Launch {
    const void *kernel;
    u32 blocks, threads, shared;
    std::vector<char> parameters;
};

enum Form { ONE_BY_ONE, SAME_TILES, ONE_LAUNCH, WAIT_AT_END, LONGEST_FIRST, WAIT_SAME_TILES, FORMS };
static const char *NAMES[FORMS] = {"one by one",
                                   "one by one, tiles of one launch",
                                   "one launch",
                                   "wait at the end",
                                   "wait at the end, longest first",
                                   "wait at the end, tiles of one launch"};
static bool has_tiles_of_one_launch(int form) { return form == SAME_TILES || form == ONE_LAUNCH || form == WAIT_SAME_TILES; }

static double micros(const Conv &c, const Way &way, int blocks) {
    const Tile &tile = TILES[way.tile];
    const double slab = std::max(tile.latency, tile.work * up(blocks, units));
    const double split = way.splits == 1 ? 0 : .66 + .1 * way.splits * tile.pixels * tile.outputs / 1024;
    return 1.4 * ((up(c.slabs, way.splits) + 1.3) * slab + split) + 1;
}
static int blocks_of(const Conv &c, const Way &way) {
    return up(c.pixels, TILES[way.tile].pixels) * up(c.outputs, TILES[way.tile].outputs) * way.splits;
}
static const int SPLITS[] = {1, 2, 3, 4, 6, 8, 12, 16};
static bool fits(const Conv &c, const Way &way) {
    return way.splits == 1 || (way.splits * 2 <= int(c.slabs) && blocks_of(c, way) <= 4 * units);
}

class Network {
  public:
    const char *name;
    std::vector<Node> nodes;
    std::vector<Storage> storages;
    std::vector<std::vector<int>> places; // nodes of each
    size_t bytes = 0;
    char *arena = nullptr;
    float *image = nullptr; // planes
    float *images[2];
    int side;

    Network(const char *name, int side) : name(name), side(side) {
        image = device_memory<float>(3 * side * side);
        for (int i = 0; i < 2; i++) {
            images[i] = device_memory<float>(3 * side * side);
            make_floats<<<up(3 * side * side, 256), 256, 0, stream>>>(images[i], 3 * side * side, 1.7f, 1000 + i);
            CHECK(cudaGetLastError());
        }
        const int to = storage(side, side, 8);
        nodes.push_back(Node{"convert", CONVERT, -1, to, -1, false, Conv{}});
    }
    int last() const { return nodes.back().to; }
    int storage(int h, int w, int c) {
        storages.push_back({h, w, c, bytes});
        bytes += (size_t(h) * w * c * 2 + 255) / 256 * 256;
        return int(storages.size()) - 1;
    }

    struct Window {
        int h, w, stride, up, left;
    };
    static Window square(int n, int stride = 1) { return {n, n, stride, n / 2, n / 2}; }
    static Window inner(int n, int stride = 1) { return {n, n, stride, 0, 0}; }
    int extent(int from, const Window &w) const { return (storages[from].h + 2 * w.up - w.h) / w.stride + 1; }

    // To channels `first` and on of `to`, or to a storage of its own.
    int conv(const std::string &label, int from, int outputs, Window w, int to = -1, int first = 0, int added = -1, bool relu = true, float gain = 1) {
        const Storage in = storages[from];
        const int ho = extent(from, w), wo = (in.w + 2 * w.left - w.w) / w.stride + 1;
        if (to < 0) to = storage(ho, wo, outputs);
        Node node{label, CONV, from, to, added, false, Conv{}};
        Conv &c = node.conv;
        c.pixels = ho * wo, c.outputs = outputs, c.slabs = up(w.h * w.w * in.c * 2, SLAB);
        c.by_image = divisor(ho * wo), c.by_line = divisor(wo), c.image = ho * wo, c.line = wo;
        c.height = in.h, c.width = in.w, c.channels = in.c, c.input_pitch = in.c, c.output_pitch = storages[to].c;
        c.window_height = w.h, c.window_width = w.w, c.stride_down = c.stride_right = w.stride, c.pad_up = w.up, c.pad_left = w.left;
        c.by_channels = divisor(in.c), c.by_window_width = divisor(w.w);
        const u32 step = SLAB / 2, taps = step / in.c;
        c.slab_rows = taps / w.w, c.slab_columns = taps % w.w, c.slab_channels = step % in.c;
        c.activation.work = CLAMP, c.activation.low = relu ? 0 : -INFINITY, c.activation.high = INFINITY;
        c.fours = 1;
        const u32 row = c.slabs * (SLAB / 2), all = outputs * row, terms = w.h * w.w * in.c;
        Half *weights = device_memory<Half>(all);
        float *bias = device_memory<float>(outputs);
        const u32 seed = 2 * u32(nodes.size());
        make_halves<<<up(all, 256), 256, 0, stream>>>(weights, all, row, terms, gain * std::sqrt(6.f / (in.c == 8 ? terms * 3 / 8 : terms)), seed);
        make_floats<<<up(outputs, 256), 256, 0, stream>>>(bias, outputs, .1f, seed + 1);
        CHECK(cudaGetLastError());
        c.weights = (const char *)weights, c.bias = bias;
        c.output = (char *)(size_t(first) * 2); // from the storage's first byte
        nodes.push_back(node);
        return to;
    }
    int pool(const std::string &label, int from, bool average, Window w, int to = -1, int first = 0) {
        const int ho = extent(from, w);
        if (to < 0) to = storage(ho, ho, storages[from].c);
        Node node{label, POOL, from, to, -1, average, Conv{}};
        Conv &c = node.conv;
        c.window_height = w.h, c.window_width = w.w, c.stride_down = c.stride_right = w.stride, c.pad_up = w.up, c.pad_left = w.left;
        c.output = (char *)(size_t(first) * 2), c.pixels = ho * ho;
        nodes.push_back(node);
        return to;
    }
    void end() {
        const int from = last();
        const Storage in = storages[from];
        const int mean = storage(1, 1, in.c), answer = storage(1, 1, 2000); // singles
        Node pool{"mean", MEAN, from, mean, -1, true, Conv{}};
        pool.conv.window_height = in.h, pool.conv.window_width = in.w, pool.conv.stride_down = pool.conv.stride_right = 1, pool.conv.pixels = 1;
        Node linear{"linear", LINEAR, mean, answer, -1, false, Conv{}};
        Half *weights = device_memory<Half>(1000 * in.c);
        float *bias = device_memory<float>(1000);
        make_halves<<<up(1000 * in.c, 256), 256, 0, stream>>>(weights, 1000 * in.c, in.c, in.c, std::sqrt(3.f / in.c), 7);
        make_floats<<<4, 256, 0, stream>>>(bias, 1000, .1f, 8);
        CHECK(cudaGetLastError());
        linear.conv.weights = (const char *)weights, linear.conv.bias = bias;
        nodes.push_back(pool), nodes.push_back(linear);
        arena = device_memory<char>(bytes);
        for (Node &node : nodes) {
            if (node.from >= 0) node.conv.input = arena + storages[node.from].at;
            node.conv.output = arena + storages[node.to].at + size_t(node.conv.output);
            if (node.added >= 0) node.conv.residual = arena + storages[node.added].at;
        }
        choose();
        find_places();
    }

    // The launches of a form. `only`: a place, or -1 for all; the others are one by one.
    std::vector<Launch> launches(Form form, int only) {
        std::vector<Launch> all;
        std::vector<int> behind; // storages that are written from the last launch on that waited when it began
        for (size_t i = 0; i < nodes.size();) {
            Node &node = nodes[i];
            const bool is_at = node.place >= 0 && (only < 0 || only == node.place);
            if (node.kind != CONV) {
                all.push_back(other(node));
                behind = {node.to};
                i++;
            } else if (is_at && form == ONE_LAUNCH) {
                all.push_back(together(places[node.place]));
                i += places[node.place].size();
            } else if (form == WAIT_AT_END || form == LONGEST_FIRST || form == WAIT_SAME_TILES) {
                std::vector<int> order = node.place >= 0 ? places[node.place] : std::vector<int>{int(i)};
                if (is_at && form == LONGEST_FIRST)
                    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return own_micros(a) > own_micros(b); });
                for (int n : order) {
                    Node &one = nodes[n];
                    auto is_behind = [&](int s) { return s >= 0 && std::find(behind.begin(), behind.end(), s) != behind.end(); };
                    const bool may = only < 0 || (is_at && n != order[0]);
                    const bool late = may && !is_behind(one.from) && !is_behind(one.added);
                    if (!late) behind.clear();
                    behind.push_back(one.to);
                    const bool other_way = is_at && form == WAIT_SAME_TILES;
                    all.push_back(single(one, other_way ? one.in_group : one.way, other_way, late, true));
                }
                i += order.size();
            } else {
                const bool other_way = is_at && form == SAME_TILES;
                all.push_back(single(node, other_way ? node.in_group : node.way, other_way, false, false));
                i++;
            }
        }
        return all;
    }

  private:
    double own_micros(int n) const { return micros(nodes[n].conv, nodes[n].way, blocks_of(nodes[n].conv, nodes[n].way)); }

    void choose() {
        for (Node &node : nodes) {
            double least = 1e9;
            for (int tile = 0; node.kind == CONV && tile < 3; tile++)
                for (int splits : SPLITS) {
                    const Way way{tile, splits};
                    const double us = micros(node.conv, way, blocks_of(node.conv, way));
                    if (fits(node.conv, way) && us < least) least = us, node.way = way;
                }
            node.in_group = node.way;
        }
    }

    // Neighbours of which none reads what another one writes.
    void find_places() {
        for (size_t i = 0; i < nodes.size();) {
            std::vector<int> written, place;
            for (; i < nodes.size() && nodes[i].kind == CONV && place.size() < MOST; i++) {
                auto is_in = [&](int s) { return s >= 0 && std::find(written.begin(), written.end(), s) != written.end(); };
                if (is_in(nodes[i].from) || is_in(nodes[i].added)) break;
                written.push_back(nodes[i].to), place.push_back(int(i));
            }
            if (place.empty()) i++;
            if (place.size() < 2) continue;
            for (int n : place) nodes[n].place = int(places.size());
            choose_for(place);
            places.push_back(place);
        }
    }

    // One tile, and splits of each, for the sum of the blocks.
    void choose_for(const std::vector<int> &place) {
        double least = 1e9;
        std::vector<Way> ways(place.size());
        for (int tile = 0; tile < 3; tile++) {
            const int count = int(place.size());
            for (int code = 0; code < 1 << (3 * count); code++) {
                int blocks = 0;
                bool all_fit = true;
                for (int k = 0; k < count; k++) {
                    ways[k] = {tile, SPLITS[code >> (3 * k) & 7]};
                    all_fit = all_fit && fits(nodes[place[k]].conv, ways[k]);
                    blocks += blocks_of(nodes[place[k]].conv, ways[k]);
                }
                double us = 0;
                for (int k = 0; all_fit && k < count; k++) us = std::max(us, micros(nodes[place[k]].conv, ways[k], blocks));
                if (!all_fit || us >= least) continue;
                least = us;
                for (int k = 0; k < count; k++) nodes[place[k]].in_group = ways[k];
            }
        }
    }

    Conv bound(Node &node, const Way &way, int which) {
        Conv c = node.conv;
        const Tile &tile = TILES[way.tile];
        c.splits = way.splits;
        c.output_tiles = up(c.outputs, tile.outputs), c.pixel_tiles = up(c.pixels, tile.pixels);
        c.by_output_tiles = divisor(c.output_tiles), c.by_pixel_tiles = divisor(c.pixel_tiles);
        if (way.splits > 1 && !node.partials[which]) {
            node.partials[which] = device_memory<float>(size_t(way.splits) * c.pixels * up(c.outputs, 4) * 4);
            node.arrivals[which] = device_memory<u32>(c.output_tiles * c.pixel_tiles);
        }
        c.partials = node.partials[which], c.arrivals = node.arrivals[which];
        return c;
    }
    template <class T> static Launch launch_of(const void *kernel, int blocks, int threads, int shared, const T &parameters) {
        const char *from = (const char *)&parameters;
        return {kernel, u32(blocks), u32(threads), u32(shared), std::vector<char>(from, from + sizeof(T))};
    }
    Launch single(Node &node, const Way &way, int which, bool late, bool is_flagged) {
        Conv c = bound(node, way, which);
        c.unused = late;
        const Tile &tile = TILES[way.tile];
        return launch_of(is_flagged ? tile.flagged : tile.plain, blocks_of(c, way), tile.threads, tile.shared, c);
    }
    Launch together(const std::vector<int> &place) {
        Group group;
        std::memset((void *)&group, 0, sizeof group);
        int blocks = 0;
        const Tile &tile = TILES[nodes[place[0]].in_group.tile];
        for (int k = 0; k < MOST; k++) {
            group.begins[k] = ~0u;
            if (k >= int(place.size())) continue;
            Node &node = nodes[place[k]];
            group.of[k] = bound(node, node.in_group, 1), group.begins[k] = blocks;
            blocks += blocks_of(node.conv, node.in_group);
        }
        return launch_of(tile.group, blocks, tile.threads, tile.shared, group);
    }
    View view(int storage, const char *data) const {
        const Storage &s = storages[storage];
        return {(char *)data, u64(s.h) * s.w * s.c, u32(s.c), 1, u32(s.h), u32(s.w), 0, 0};
    }
    Launch other(Node &node) {
        const Conv &c = node.conv;
        const View output = view(node.to, c.output);
        if (node.kind == CONVERT) {
            Map map = {};
            const u32 plane = side * side;
            map.input = {(char *)image, 3 * plane, 1, plane, u32(side), u32(side), 1, 0};
            map.output = output, map.count = u64(plane) * 8, map.blocks = std::min<u32>(up(plane * 8, 256), 1056);
            map.channels = 8, map.given = 3, map.by_channels = divisor(8);
            return launch_of((const void *)map_any_f16, map.blocks, 256, 0, map);
        }
        const int channels = storages[node.from].c;
        if (node.kind == LINEAR) {
            Linear linear = {};
            linear.input = view(node.from, c.input), linear.output = output;
            linear.output.wide = 1, linear.weights = c.weights, linear.bias = c.bias;
            linear.images = 1, linear.inputs = channels, linear.outputs = 1000, linear.fours = 1;
            linear.activation.work = CLAMP, linear.activation.low = -INFINITY, linear.activation.high = INFINITY;
            return launch_of((const void *)linear_f16, 125, 256, 0, linear);
        }
        Pool pool = {};
        pool.input = view(node.from, c.input), pool.output = output;
        pool.channels = channels / 4, pool.count = u64(c.pixels) * pool.channels, pool.blocks = std::min<u32>(up(int(pool.count), 256), 1056);
        pool.window_height = c.window_height, pool.window_width = c.window_width, pool.stride_down = pool.stride_right = c.stride_down;
        pool.pad_up = c.pad_up, pool.pad_left = c.pad_left, pool.average = node.average, pool.scale = 1.f / (c.window_height * c.window_width);
        if (node.kind == MEAN) return launch_of((const void *)pool_picture_f16, up(pool.channels, 8), 256, 0, pool);
        return launch_of((const void *)pool_fours_f16, pool.blocks, 256, 0, pool);
    }
};

// --- Networks ------------------------------------------------------------------------------------------------------------------

// The downsampling convolution comes behind the first of its block, or behind the second as in this project's networks.
static void resnet(Network &net, bool is_deep, bool is_behind_second = false) {
    int x = net.conv("conv1", net.last(), 64, {7, 7, 2, 3, 3});
    x = net.pool("max_pool", x, false, {3, 3, 2, 1, 1});
    const int deep[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < (is_deep ? deep[stage] : 2); block++) {
            const int narrow = 64 << stage, wide = is_deep ? 4 * narrow : narrow, stride = block == 0 && stage > 0 ? 2 : 1;
            const std::string label = std::to_string(stage + 1) + "." + std::to_string(block) + ".";
            const int first = net.conv(label + "first", x, narrow, is_deep ? Network::square(1) : Network::square(3, stride));
            auto down = [&]() {
                if (block > 0 || (!is_deep && stage == 0)) return x;
                return net.conv(label + "down", x, wide, Network::square(1, stride), -1, 0, -1, false, .7f);
            };
            int added = is_behind_second ? -1 : down();
            if (!is_deep) {
                x = net.conv(label + "second", first, wide, Network::square(3), -1, 0, added, true, .3f);
                continue;
            }
            const int second = net.conv(label + "second", first, narrow, Network::square(3, stride));
            if (is_behind_second) added = down();
            x = net.conv(label + "third", second, wide, Network::square(1), -1, 0, added, true, .3f);
        }
    net.end();
}

// Convolutions of branches come by how far they are from the block's input.
static void inception(Network &net) {
    typedef Network N;
    const N::Window one = N::square(1), across = {1, 7, 1, 0, 3}, along = {7, 1, 1, 3, 0}, short_across = {1, 3, 1, 0, 1}, short_along = {3, 1, 1, 1, 0};
    int x = net.conv("1", net.last(), 32, N::inner(3, 2));
    x = net.conv("2", x, 32, N::inner(3));
    x = net.conv("3", x, 64, N::square(3));
    x = net.pool("pool1", x, false, N::inner(3, 2));
    x = net.conv("4", x, 80, one);
    x = net.conv("5", x, 192, N::inner(3));
    x = net.pool("pool2", x, false, N::inner(3, 2));
    for (int behind : {32, 64, 64}) {
        const int to = net.storage(35, 35, 224 + behind);
        net.conv("a1", x, 64, one, to, 0);
        const int five = net.conv("a5", x, 48, one), twice = net.conv("a3", x, 64, one);
        const int pooled = net.pool("ap", x, true, N::square(3));
        net.conv("a5b", five, 64, N::square(5), to, 64);
        const int second = net.conv("a3b", twice, 96, N::square(3));
        net.conv("app", pooled, behind, one, to, 224);
        net.conv("a3c", second, 96, N::square(3), to, 128);
        x = to;
    }
    {
        const int to = net.storage(17, 17, 768);
        net.conv("b3", x, 384, N::inner(3, 2), to, 0);
        const int twice = net.conv("bt", x, 64, one);
        net.pool("bp", x, false, N::inner(3, 2), to, 480);
        net.conv("btc", net.conv("btb", twice, 96, N::square(3)), 96, N::inner(3, 2), to, 384);
        x = to;
    }
    for (int c : {128, 160, 160, 192}) {
        const int to = net.storage(17, 17, 768);
        net.conv("c1", x, 192, one, to, 0);
        const int seven = net.conv("c7", x, c, one), twice = net.conv("ct", x, c, one);
        const int pooled = net.pool("cp", x, true, N::square(3));
        const int seven_b = net.conv("c7b", seven, c, across), twice_b = net.conv("ctb", twice, c, along);
        net.conv("cpp", pooled, 192, one, to, 576);
        net.conv("c7c", seven_b, 192, along, to, 192);
        const int twice_c = net.conv("ctc", twice_b, c, across);
        net.conv("cte", net.conv("ctd", twice_c, c, along), 192, across, to, 384);
        x = to;
    }
    {
        const int to = net.storage(8, 8, 1280);
        const int three = net.conv("d3", x, 192, one), seven = net.conv("d7", x, 192, one);
        net.pool("dp", x, false, N::inner(3, 2), to, 512);
        net.conv("d3b", three, 320, N::inner(3, 2), to, 0);
        const int seven_b = net.conv("d7b", seven, 192, across);
        net.conv("d7d", net.conv("d7c", seven_b, 192, along), 192, N::inner(3, 2), to, 320);
        x = to;
    }
    for (int block = 0; block < 2; block++) {
        const int to = net.storage(8, 8, 2048);
        net.conv("e1", x, 320, one, to, 0);
        const int three = net.conv("e3", x, 384, one), twice = net.conv("et", x, 448, one);
        const int pooled = net.pool("ep", x, true, N::square(3));
        net.conv("e3b", three, 384, short_across, to, 320);
        net.conv("e3c", three, 384, short_along, to, 704);
        const int twice_b = net.conv("etb", twice, 384, N::square(3));
        net.conv("epp", pooled, 192, one, to, 1856);
        net.conv("etc", twice_b, 384, short_across, to, 1088);
        net.conv("etd", twice_b, 384, short_along, to, 1472);
        x = to;
    }
    net.end();
}

// --- Checks and times ----------------------------------------------------------------------------------------------------------

static cudaGraphExec_t capture(const std::vector<Launch> &launches) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (size_t i = 0; i < launches.size(); i++) {
        const Launch &launch = launches[i];
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(launch.blocks), config.blockDim = dim3(launch.threads), config.dynamicSmemBytes = launch.shared;
        config.stream = stream, config.attrs = &attribute, config.numAttrs = i > 0;
        reef::Guard guard = {};
        void *arguments[] = {&guard, (void *)launch.parameters.data()};
        CHECK(cudaLaunchKernelExC(&config, launch.kernel, arguments));
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    return exec;
}

static u32 bad; // checks that failed
static u32 *different;
static Wrong *wrong;

static void set_image(const Network &net, int which) {
    CHECK(cudaMemcpyAsync(net.image, net.images[which], size_t(net.side) * net.side * 12, cudaMemcpyDeviceToDevice, stream));
}
static void check_layers(const Network &net) {
    float worst = 0;
    int layers_wrong = 0, layers = 0;
    for (const Node &node : net.nodes) {
        if (node.kind != CONV) continue;
        Wrong found = {};
        CHECK(cudaMemsetAsync(wrong, 0, sizeof(Wrong), stream));
        reference<<<up(node.conv.pixels * node.conv.outputs, 128), 128, 0, stream>>>(node.conv, wrong);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        float off;
        std::memcpy(&off, &found.worst, 4);
        worst = std::max(worst, off), layers++;
        if (found.count == 0) continue;
        layers_wrong++;
        std::printf("WRONG: %s, %s: %u of %u outputs are off, the worst by %g\n", net.name, node.name.c_str(), found.count,
                    node.conv.pixels * node.conv.outputs, off);
    }
    bad += layers_wrong;
    std::printf("%s, one by one, against plain loops: %d of %d convolutions wrong, largest error %g\n", net.name, layers_wrong, layers, worst);
}
// Two images in turns, so that what an earlier request left is wrong; half of the times all outputs are set to what is no number before.
static void check_forms(Network &net, const std::vector<cudaGraphExec_t> &graphs) {
    char *kept[2][2]; // by tiles and image
    for (int tiles = 0; tiles < 2; tiles++)
        for (int i = 0; i < 2; i++) {
            kept[tiles][i] = device_memory<char>(net.bytes);
            set_image(net, i);
            CHECK(cudaMemsetAsync(net.arena, 0xff, net.bytes, stream));
            CHECK(cudaGraphLaunch(graphs[tiles ? SAME_TILES : ONE_BY_ONE], stream));
            CHECK(cudaMemcpyAsync(kept[tiles][i], net.arena, net.bytes, cudaMemcpyDeviceToDevice, stream));
            CHECK(cudaStreamSynchronize(stream));
            if (tiles == 0) check_layers(net);
        }
    std::vector<u32> answer(1000);
    CHECK(cudaMemcpy(answer.data(), kept[0][0] + net.storages.back().at, 4000, cudaMemcpyDeviceToHost));
    float first, least = INFINITY, most = -INFINITY;
    for (u32 word : answer) std::memcpy(&first, &word, 4), least = std::min(least, first), most = std::max(most, first);
    std::printf("%s: answers from %g to %g\n", net.name, least, most);
    if (!(most > least)) bad++, std::printf("WRONG: %s: answers are all the same\n", net.name);
    for (int form = 0; form < FORMS; form++) {
        u32 found = 0;
        const int tiles = has_tiles_of_one_launch(form);
        CHECK(cudaMemsetAsync(different, 0, 4, stream));
        for (int i = 0; i < 80; i++) {
            set_image(net, i % 2);
            if (i % 4 < 2) CHECK(cudaMemsetAsync(net.arena, 0xff, net.bytes, stream));
            CHECK(cudaGraphLaunch(graphs[form], stream));
            compare<<<4 * units, 256, 0, stream>>>((const u32 *)net.arena, (const u32 *)kept[tiles][i % 2], net.bytes / 4, different);
            CHECK(cudaGetLastError());
        }
        CHECK(cudaMemcpyAsync(&found, different, 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        bad += found > 0;
        std::printf("%s%s, %s: %u words of 80 requests differ from \"%s\"\n", found ? "WRONG: " : "", net.name, NAMES[form], found,
                    NAMES[tiles ? SAME_TILES : ONE_BY_ONE]);
    }
    for (auto &both : kept)
        for (char *memory : both) CHECK(cudaFree(memory));
    set_image(net, 0);
}

static double now_us() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static double part(std::vector<double> times, double p) {
    std::sort(times.begin(), times.end());
    return times[std::min(times.size() - 1, size_t(times.size() * p))];
}
struct Times {
    std::vector<double> device, host;
};
// In turns, so that clocks and neighbours are the same for all.
static std::vector<Times> measure(const std::vector<cudaGraphExec_t> &graphs, int rounds, int requests) {
    std::vector<Times> times(graphs.size());
    for (int round = 0; round < rounds; round++)
        for (size_t g = 0; g < graphs.size(); g++) {
            for (int i = -10; i < requests; i++) {
                float ms = 0;
                CHECK(cudaEventRecord(begun, stream));
                CHECK(cudaGraphLaunch(graphs[g], stream));
                CHECK(cudaEventRecord(ended, stream));
                CHECK(cudaStreamSynchronize(stream));
                CHECK(cudaEventElapsedTime(&ms, begun, ended));
                if (i >= 0) times[g].device.push_back(ms * 1e3);
            }
            for (int i = 0; i < requests; i++) {
                const double from = now_us();
                CHECK(cudaGraphLaunch(graphs[g], stream));
                CHECK(cudaStreamSynchronize(stream));
                times[g].host.push_back(now_us() - from);
            }
        }
    return times;
}

static void study(Network &net) {
    std::vector<cudaGraphExec_t> graphs;
    std::vector<size_t> counts;
    for (int form = 0; form < FORMS; form++) {
        const std::vector<Launch> launches = net.launches(Form(form), -1);
        counts.push_back(launches.size()), graphs.push_back(capture(launches));
    }
    check_forms(net, graphs);
    const std::vector<Times> times = measure(graphs, 6, 60);
    std::printf("network\tform\tlaunches\tdevice_p50_us\tdevice_p99_us\thost_p50_us\thost_p99_us\n");
    for (int form = 0; form < FORMS; form++) {
        const Times &t = times[form];
        std::printf("%s\t%s\t%zu\t%.1f\t%.1f\t%.1f\t%.1f\n", net.name, NAMES[form], counts[form], part(t.device, .5), part(t.device, .99),
                    part(t.host, .5), part(t.host, .99));
    }
    for (cudaGraphExec_t graph : graphs) CHECK(cudaGraphExecDestroy(graph));
    // One place at a time.
    std::vector<cudaGraphExec_t> some = {capture(net.launches(ONE_BY_ONE, -1))};
    for (size_t place = 0; place < net.places.size(); place++)
        for (Form form : {ONE_LAUNCH, WAIT_AT_END, WAIT_SAME_TILES}) some.push_back(capture(net.launches(form, int(place))));
    const std::vector<Times> each = measure(some, 3, 30);
    const double all = part(each[0].device, .5);
    std::printf("network\tplace\tconvolutions\tone_launch_gains_us\twait_at_end_gains_us\twait_and_tiles_gains_us\tof %.1f\n", all);
    for (size_t place = 0; place < net.places.size(); place++) {
        std::string text;
        for (int n : net.places[place]) {
            const Node &node = net.nodes[n];
            char words[160];
            std::snprintf(words, sizeof words, "%s%s %ux%ux%u slabs %s/%d in %d, together %s/%d in %d", text.empty() ? "" : "; ", node.name.c_str(),
                          node.conv.pixels, node.conv.outputs, node.conv.slabs, TILES[node.way.tile].name, node.way.splits,
                          blocks_of(node.conv, node.way), TILES[node.in_group.tile].name, node.in_group.splits, blocks_of(node.conv, node.in_group));
            text += words;
        }
        std::printf("%s\t%zu\t%s", net.name, place, text.c_str());
        for (int k = 0; k < 3; k++) std::printf("\t%.2f", all - part(each[1 + 3 * place + k].device, .5));
        std::printf("\n");
    }
    for (cudaGraphExec_t graph : some) CHECK(cudaGraphExecDestroy(graph));
}

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const double start = now_us();
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    CHECK(cudaSetDevice(0));
    cudaDeviceProp facts;
    CHECK(cudaGetDeviceProperties(&facts, 0));
    units = facts.multiProcessorCount;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreate(&ended));
    different = device_memory<u32>(1);
    wrong = device_memory<Wrong>(1);
    for (const Tile &tile : TILES)
        for (const void *kernel : {tile.plain, tile.flagged, tile.group}) {
            int blocks = 0;
            cudaFuncAttributes of;
            CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, tile.shared));
            CHECK(cudaFuncGetAttributes(&of, kernel));
            CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, tile.threads, tile.shared));
            std::printf("%s\t%s\t%d registers\t%zu bytes of local memory\t%d blocks of a multiprocessor\n", tile.name,
                        kernel == tile.plain ? "plain" : kernel == tile.flagged ? "flagged" : "group", of.numRegs, of.localSizeBytes, blocks);
        }
    std::printf("%s, %d multiprocessors, L2 %d MB\n", facts.name, units, facts.l2CacheSize >> 20);
    const struct {
        const char *name;
        int side;
        void (*build)(Network &);
    } networks[] = {{"ResNet-50", 224, [](Network &net) { resnet(net, true); }},
                    {"ResNet-50, down behind second", 224, [](Network &net) { resnet(net, true, true); }},
                    {"ResNet-18", 224, [](Network &net) { resnet(net, false); }},
                    {"Inception-v3", 299, inception}};
    for (const auto &each : networks) {
        Network net(each.name, each.side);
        each.build(net);
        CHECK(cudaStreamSynchronize(stream));
        study(net);
    }
    std::printf("%u checks failed, %.0f s\n", bad, (now_us() - start) * 1e-6);
    return bad > 0;
}
