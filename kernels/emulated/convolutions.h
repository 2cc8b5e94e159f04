// Random convolutions, block by block, next to plain loops: windows, strides, padding, tiles, splits, ends and stops; and several as one launch.

#include "device.h"
#define __shared__
#include "sums.h"
alignas(1024) char memory[256 << 10];

#include "activation.h"
#include "conv.h"
#include "quantized.h"
#include "quantized_sums.h"
inline float as_read(Int8 value) { return to_float(value); }
inline float as_read(Fp8 value) { return to_float(value); }
#if REEF_SLAB == 128
#include "warpgroups.h"
#endif
#include "random.h"

template <class T> static std::vector<char> copy_of(const std::vector<T> &from) {
    return std::vector<char>((const char *)from.data(), (const char *)(from.data() + from.size()));
}

static Divisor divisor(u32 by) {
    u32 shift = 31;
    while (1ull << (shift - 31) < by) shift++;
    return {(u32)(((1ull << shift) + by - 1) / by), shift};
}

// One convolution by tiles of this kind.
template <class Tile> struct Convolution {
    typedef typename Tile::Element Element;
    typedef typename Tile::Output Output;

    Conv c = {};
    bool exists = false; // or its window is larger than the input
    u32 images, rows, columns, channels, terms, per_slab, fours;
    std::vector<Element> input, weights;
    std::vector<Output> output, residual;
    std::vector<float> bias, partials;
    std::vector<u32> arrivals;
    Output untouched;

    Convolution() {
        const u32 chunk = CHUNK / sizeof(Element), height = any(1, 13), width = any(1, 13);
        images = any(1, 2);
        channels = chunk * any(1, any(0, 1) ? 3 : 20);
        const u32 outputs = any(1, 70), down = any(1, 3), right = any(1, 3);
        rows = any(1, any(0, 3) ? 3 : 15), columns = any(1, any(0, 3) ? 3 : 15);
        const u32 up = any(0, rows - 1), left = any(0, columns - 1);
        if (height + 2 * up < rows || width + 2 * left < columns) return;
        exists = true;
        const u32 lines = (height + 2 * up - rows) / down + 1, line = (width + 2 * left - columns) / right + 1;
        const u32 packed = 256 / sizeof(Element);
        terms = rows * columns * channels, per_slab = SLAB / sizeof(Element);
        c.slabs = (terms + packed - 1) / packed * (256 / SLAB);
        c.height = height, c.width = width, c.channels = channels, c.window_height = rows, c.window_width = columns;
        c.stride_down = down, c.stride_right = right, c.pad_up = up, c.pad_left = left;
        c.input_pitch = channels + chunk * any(0, 1), c.output_pitch = outputs + any(0, 3);
        c.pixels = images * lines * line, c.outputs = outputs, c.image = lines * line, c.line = line;
        c.splits = any(1, std::min(c.slabs, 4u));
        c.pixel_tiles = (c.pixels + Tile::PIXELS - 1) / Tile::PIXELS, c.output_tiles = (outputs + Tile::OUTPUTS - 1) / Tile::OUTPUTS;
        c.by_output_tiles = divisor(c.output_tiles), c.by_pixel_tiles = divisor(c.pixel_tiles);
        c.by_image = divisor(c.image), c.by_line = divisor(c.line), c.by_channels = divisor(channels), c.by_window_width = divisor(columns);
        const u32 taps = per_slab / channels;
        c.slab_channels = per_slab % channels, c.slab_columns = taps % columns, c.slab_rows = taps / columns;
        c.fours = outputs % 4 == 0 && c.output_pitch % 4 == 0;
        c.activation = {any(0, 1) ? 0.0f : -INFINITY, INFINITY};
        // Numbers that are not there are none, so that reading them shows.
        input.resize(images * height * width * c.input_pitch), weights.resize(outputs * c.slabs * per_slab);
        output.resize(c.pixels * c.output_pitch), residual.resize(output.size());
        fours = (outputs + 3) / 4 * 4;
        bias.resize(2 * fours), partials.assign(c.splits * c.pixels * fours, NAN), arrivals.resize(c.pixel_tiles * c.output_tiles);
        for (u32 n = 0; n < input.size(); n++) set(input[n], n % c.input_pitch < channels ? (float)any(0, 16) - 8 : NAN);
        for (u32 n = 0; n < weights.size(); n++) set(weights[n], n % (c.slabs * per_slab) < terms ? (float)any(0, 16) - 8 : 0);
        memset(&untouched, 0x7f, sizeof untouched); // an integer of 8 bits is always a number
        for (Output &value : output) value = untouched;
        for (Output &value : residual) set(value, (float)any(0, 16) - 8);
        // Factors are powers of two, so that plain loops round at the same places.
        for (u32 n = 0; n < bias.size(); n++) bias[n] = n < fours ? (float)any(0, 16) - 8 : 1.0f / (1 << any(0, 4));
        c.input = (const char *)input.data(), c.weights = (const char *)weights.data(), c.bias = bias.data(), c.output = (char *)output.data();
        c.residual = any(0, 1) ? (const char *)residual.data() : nullptr, c.partials = partials.data(), c.arrivals = arrivals.data();
    }

    u32 blocks() const { return c.pixel_tiles * c.output_tiles * c.splits; }

    // What blocks write.
    std::vector<char> written() const {
        std::vector<char> all = copy_of(output);
        for (const std::vector<char> &more : {copy_of(partials), copy_of(arrivals)}) all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    // Compares what was written with plain loops.
    u32 check(const char *name) const {
        for (u32 pixel = 0; pixel < c.pixels; pixel++)
            for (u32 n = 0; n < c.output_pitch; n++) {
                const u32 image = pixel / c.image, y = pixel % c.image / c.line, x = pixel % c.line, at = pixel * c.output_pitch + n;
                double sum = 0;
                for (u32 k = 0; n < c.outputs && k < terms; k++) {
                    const u32 tap = k / channels;
                    const int row = (int)(y * c.stride_down + tap / columns) - (int)c.pad_up;
                    const int column = (int)(x * c.stride_right + tap % columns) - (int)c.pad_left;
                    if (row < 0 || column < 0 || row >= (int)c.height || column >= (int)c.width) continue;
                    const u32 from = ((image * c.height + row) * c.width + column) * c.input_pitch + k % channels;
                    sum += (double)to_float(input[from]) * to_float(weights[n * c.slabs * per_slab + k]);
                }
                if (n < c.outputs) sum = sum * (std::is_same<typename Tile::Factors, NoFactors>::value ? 1 : bias[fours + n]) + bias[n];
                if (c.residual) sum += to_float(residual[at]);
                Output want = untouched;
                if (n < c.outputs) set(want, std::max((float)sum, c.activation.low));
                if (!memcmp(&output[at], &want, sizeof want) || to_float(output[at]) == to_float(want)) continue;
                printf("%s: %ux%ux%ux%u, %ux%u by %ux%u from -%u -%u, %u outputs in %u, %u splits: [%u, %u] is %g, not %g\n", name, images, c.height,
                       c.width, channels, rows, columns, c.stride_down, c.stride_right, c.pad_up, c.pad_left, c.outputs, c.output_pitch, c.splits,
                       pixel, n, to_float(output[at]), to_float(want));
                return 1;
            }
        for (u32 count : arrivals)
            if (count) return printf("%s: counts are left\n", name), 1;
        return 0;
    }
};

// Runs all blocks of a launch, the last first, each by `body`. Some are stopped before; that changes nothing of `all`.
template <class Tile, class Body> static u32 run_all(u32 blocks, const std::vector<Convolution<Tile>> &all, Body body, const char *name) {
    auto written = [&] {
        std::vector<std::vector<char>> each;
        for (const auto &one : all) each.push_back(one.written());
        return each;
    };
    for (u32 block = blocks; block-- > 0;) {
        reef::block_index = block;
        auto run = [&](bool stops) {
            memset(memory, 0xff, sizeof memory);
            reef::block_stops = stops, products_are_late = any(0, 1), copies_are_early = any(0, 1);
            run_block(Tile::THREADS, [&] {
                reef::Turns turns;
                body(turns);
            });
        };
        if (any(0, 3) == 0) {
            const auto before = written();
            run(true);
            if (before != written()) return printf("%s: a stopped block wrote\n", name), 1;
        }
        run(false);
    }
    u32 failed = 0;
    for (const auto &one : all) failed += one.check(name);
    return failed > 0;
}

// One convolution, each block by `body`.
template <class Tile, class Body> static u32 check_by(Body body, const char *name) {
    std::vector<Convolution<Tile>> one(1);
    if (!one[0].exists) return 0;
    return run_all(one[0].blocks(), one, [&](reef::Turns &turns) { body(turns, one[0].c); }, name);
}

// Several as one launch: a block finds its convolution by its number.
template <class Tile> static u32 check_group(const char *name) {
    std::vector<Convolution<Tile>> all;
    for (u32 left = any(1, CONVS); left > 0; left--) {
        all.emplace_back();
        if (!all.back().exists) all.pop_back();
    }
    if (all.empty()) return 0;
    ConvGroup group;
    u32 blocks = 0;
    for (u32 n = 0; n < CONVS; n++) {
        group.of[n] = all[n < all.size() ? n : 0].c;
        group.begins[n] = n < all.size() ? blocks : ~0u;
        if (n < all.size()) blocks += all[n].blocks();
    }
    return run_all(blocks, all, [&](reef::Turns &turns) { convolve_group<Tile>(turns, group); }, name);
}
