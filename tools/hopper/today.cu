// The kernels of the images, launched as reef-gpu does, with each tile and number of parts. Structs as in kernels/.

#include "study.h"

extern const char *images[3];

namespace {

typedef uint32_t u32;
typedef uint64_t u64;

// Of a launch that may be stopped and is not.
struct Guard {
    const u32 *live, *epoch_word;
    u32 *stopped, *list_out;
    const u32 *list_in;
    u32 first, epoch, grid[3], may_stop, count, stride;
};

struct Divisor {
    u32 factor, shift;
    explicit Divisor(u32 by) : factor(0), shift(0) {
        if (by == 0) return; // there is no picture
        u32 log = 0;
        while (1u << log < by) log++;
        shift = 31 + log;
        factor = (u32)(((1ull << shift) + by - 1) / by);
    }
};

struct Conv {
    const char *input, *weights;
    const float *bias;
    const char *residual;
    char *output;
    float *partials;
    u32 *arrivals;
    u32 pixels, outputs, slabs, splits;
    Divisor by_output_tiles, by_pixel_tiles;
    u32 output_tiles, pixel_tiles;
    Divisor by_image, by_line;
    u32 image, line, height, width, channels, input_pitch, output_pitch, window_height, window_width;
    u32 stride_down, stride_right, pad_up, pad_left;
    Divisor by_channels, by_window_width;
    u32 slab_rows, slab_columns, slab_channels;
    u32 work;
    float low, high;
    u32 fours, rounds, unused;
};

struct ProductSide {
    const char *data;
    u32 step, view, batch_step, batch_view, term_step, input, along, wide;
};
struct After {
    const float *operand;
    u32 code, row_step, column_step;
    float number;
};
struct Product {
    ProductSide sides[2];
    After after[4];
    void *output;
    float *partials;
    u32 *arrivals;
    const u32 *plan;
    u32 rows, columns, terms, table, across, down, slabs, splits, fours;
    u32 output_row, output_row_view, output_batch, output_batch_view, halves;
};

struct Cut {
    u32 rows, columns, threads, stages, shares, slab; // `slab`: bytes of a line
    u32 shared() const { return std::max(stages * (rows + columns) * slab, shares * rows * (columns + 8) * 4); }
};
const Cut CUTS[] = {{32, 32, 128, 4, 4, 256}, {64, 32, 256, 4, 4, 256}, {64, 64, 256, 3, 2, 256}};
// Of gathered.cu.
const Cut GATHERED[] = {{64, 64, 128, 6, 1, 128}, {64, 64, 128, 12, 1, 128}, {128, 64, 256, 4, 1, 128}, {128, 64, 256, 8, 1, 128},
                        {64, 128, 128, 8, 1, 128}, {128, 128, 256, 3, 1, 128}, {128, 128, 256, 6, 1, 128},
                        {64, 32, 128, 8, 1, 128}, {64, 128, 128, 4, 1, 128}};
// Of groups.cu, for products of halves. `kind`: 1 if columns are the side of 64 lines.
struct Group {
    u32 kind, spare;
    Cut cut;
};
#define TILE(turned, bm, bn, depth, spare) {turned, spare, {bm, bn, 2 * (turned ? bn : bm), depth, 1, 128}},
const Group GROUPS[] = {
#include "groups.cu"
};
const u32 SPLITS[] = {1, 2, 3, 4, 6, 8, 12, 16};

cudaKernel_t kernel_of(int image, const std::string &name, u32 shared) {
    static cudaLibrary_t libraries[3];
    if (!libraries[image])
        CALL(cudaLibraryLoadFromFile(&libraries[image], ::images[image], nullptr, nullptr, 0, nullptr, nullptr, 0));
    cudaKernel_t kernel;
    if (cudaLibraryGetKernel(&kernel, libraries[image], name.c_str()) != cudaSuccess) {
        cudaGetLastError();
        fprintf(stderr, "no kernel %s\n", name.c_str());
        exit(1);
    }
    CALL(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    return kernel;
}

Conv conv_of(const Work &w, const Cut &cut, u32 splits) {
    const Shape &s = w.shape;
    const u32 side = s.side, outputs = s.columns, channels = s.channels, step = cut.slab / w.element;
    const u32 taps = channels ? step / channels : 0;
    const u32 output_tiles = (outputs + cut.columns - 1) / cut.columns, pixel_tiles = (s.rows + cut.rows - 1) / cut.rows;
    return Conv{w.activations, nullptr, w.bias, nullptr, w.output, w.partials, w.arrivals, (u32)s.rows, outputs,
                (u32)(w.pitch * w.element / cut.slab), splits, Divisor(output_tiles), Divisor(pixel_tiles), output_tiles, pixel_tiles,
                Divisor(side * side), Divisor(side), side * side, side, side, side, channels, channels, outputs, 3, 3, 1, 1, 1, 1,
                Divisor(channels), Divisor(3), taps / 3, taps % 3, channels ? step % channels : 0, 0, 0.0f, __builtin_inff(), 1,
                !w.halves, 0};
}

Product product_of(const Work &w, const Cut &cut, u32 splits) {
    const Shape &s = w.shape;
    const u32 words = s.terms * w.element / 4;
    Product p = {};
    p.sides[0] = {w.activations, words, 0, 0, 0, 1, 0, 1, 1};
    p.sides[1] = {nullptr, words, 0, 0, 0, 1, 1, 1, 1};
    p.after[0] = {w.bias, 1, 0, 1, 0};
    if (s.act == 2) p.after[1] = {nullptr, 7, 0, 0, 0};
    p.output = w.output, p.partials = w.partials, p.arrivals = w.arrivals, p.plan = w.arrivals;
    p.rows = s.rows, p.columns = s.columns, p.terms = words;
    p.across = (s.columns + cut.columns - 1) / cut.columns, p.down = (s.rows + cut.rows - 1) / cut.rows;
    p.slabs = words * 4 / cut.slab, p.splits = splits, p.fours = 1, p.output_row = s.columns, p.halves = w.halves;
    return p;
}

} // namespace

static void take(const Work &w, const Cut &cut, cudaKernel_t kernel, const char *who, const std::string &how_cut, Found &best) {
    const Shape &s = w.shape;
    for (u32 splits : SPLITS) {
        const u32 tiles = ((s.rows + cut.rows - 1) / cut.rows) * ((s.columns + cut.columns - 1) / cut.columns);
        const u32 slabs = w.pitch * w.element / cut.slab;
        if (splits > 1 && (splits * 2 > slabs || splits * tiles > 4 * 132)) continue;
        const u32 blocks = tiles * splits;
        Guard guard = {w.arrivals + ARRIVALS - 32, nullptr, nullptr, nullptr, nullptr, 0, 0, {blocks, 1, 1}, 1, blocks, blocks};
        Conv conv = conv_of(w, cut, splits);
        Product product = product_of(w, cut, splits);
        void *params[2] = {&guard, s.side ? (void *)&conv : (void *)&product};
        auto launch = [&](int copy, cudaStream_t stream) {
            conv.weights = product.sides[1].data = w.weights_of(copy);
            return launch_early((const void *)kernel, tiles * splits, cut.threads, cut.shared(), 1, params, stream) == cudaSuccess;
        };
        const double micros = time_chain(w, launch);
        if (micros < 0) continue;
        launch(0, 0); // the last launch of a chain has other weights
        const std::string how = how_cut + " /" + std::to_string(splits);
        record(w, who, how, micros, difference(w));
        if (micros < best.micros) best = {how, micros};
    }
}

Found fastest_of_today(const Work &w) {
    Found best = {"", 1e30};
    const bool picture = w.shape.side;
    for (const Cut &cut : CUTS) {
        if (!picture && cut.rows != cut.columns) continue;
        const char *conv = w.halves ? "conv_f16" : "conv_rounded";
        const char *product = w.halves ? "product_along_pairs" : "product_rounded_tf32";
        const char *family = picture ? conv : product;
        const std::string size = std::to_string(cut.rows) + "x" + std::to_string(cut.columns);
        take(w, cut, kernel_of(!picture, family + ("_" + size), cut.shared()), "mma.sync", size, best);
    }
    return best;
}

Found fastest_of_gathered(const Work &w) {
    Found best = {"", 1e30};
    for (const Cut &cut : GATHERED) {
        if (w.shape.columns % cut.columns) continue;
        const std::string size = std::to_string(cut.rows) + "x" + std::to_string(cut.columns) + "_" + std::to_string(cut.stages);
        const std::string name = std::string(w.shape.side ? "conv_" : "product_") + (w.halves ? "f16_" : "tf32_") + size;
        take(w, cut, kernel_of(2, name, cut.shared()), "gathered", size, best);
    }
    return best;
}

Found fastest_of_groups(const Work &w) {
    Found best = {"", 1e30};
    for (const auto &[kind, spare, cut] : GROUPS) {
        if (w.shape.side || !w.halves) continue;
        const std::string size = std::to_string(cut.rows) + "x" + std::to_string(cut.columns) + "_" + std::to_string(cut.stages) + "_" +
                                 std::to_string(spare);
        const std::string how = (kind ? "turned " : "") + size;
        take(w, cut, kernel_of(2, "product_" + std::to_string(kind) + "_" + size, cut.shared()), "groups", how, best);
    }
    return best;
}
