// Convolution as a product of matrices: rows are output pixels, columns are output channels, and
// what is summed are the window's taps times the input channels. The left matrix is never written
// out; its rows are gathered from the input, sixteen bytes at a time.
//
//   block = (part of the sum, tile of pixels, tile of outputs)
//
// Late layers have few tiles and long sums, so a sum may be split over blocks. Each writes its
// partial tile; whoever comes last adds them all up, always in the same order, so results don't
// depend on who was stopped when. Nobody waits.

#pragma once

#include "activation.h"
#include "split.h"
#include "sums.h"

// `ConvParams` in operators/params.rs. Pitches count elements.
struct Conv {
    const char *input;    // first channel of the first pixel
    const char *weights;  // per output, `slabs` slabs: taps, and of each the channels; then zeros
    const float *bias;    // a multiple of 4 of them; behind them as many factors of sums, where tiles have factors
    const char *residual; // laid out like the output, or null
    char *output;
    float *partials; // [splits][pixels][outputs rounded up to 4]
    u32 *arrivals;   // of each tile, 0 between launches
    u32 pixels, outputs, slabs;
    u32 splits;
    Divisor by_output_tiles, by_pixel_tiles;
    u32 output_tiles, pixel_tiles;
    Divisor by_image, by_line; // the output's
    u32 image, line;
    u32 height, width, channels; // of the input
    u32 input_pitch, output_pitch;
    u32 window_height, window_width;
    u32 stride_down, stride_right, pad_up, pad_left;
    Divisor by_channels, by_window_width;
    u32 slab_rows, slab_columns, slab_channels; // how much further the next slab is
    Activation activation;
    u32 fours;  // whether outputs can be written four at a time
    u32 rounds; // and are rounded, as tensor cores take them
    u32 unused;
};

// Most rows and columns of a window: `LARGEST_WINDOW` in operators/tiles/slabs.rs.
const u32 LARGEST_WINDOW = 15;

// Brings slabs of both matrices to shared memory. A thread copies the same chunk of several rows.
template <class Tile> class Gather {
  public:
    static constexpr int PIXEL_BYTES = Tile::PIXELS * SLAB;
    static constexpr int STAGE_BYTES = PIXEL_BYTES + Tile::OUTPUTS * SLAB;
    typedef typename Tile::Place Place;

    __device__ Gather(const Conv &c, u32 first_pixel, u32 first_output, u32 slab) : conv(c) {
        u32 chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS;
        place = swizzled(row, chunk);
        as_it_is(place);
        u32 at = slab * PER_SLAB + chunk * PER_CHUNK;
        u32 tap = conv.by_channels(at);
        channel = at - tap * conv.channels;
        down = conv.by_window_width(tap);
        right = tap - down * conv.window_width;
        u32 line_bytes = conv.slabs * SLAB;
        for (int i = 0; i < OUTPUT_ROWS; i++) {
            u32 output = min(first_output + row + i * ROWS, conv.outputs - 1);
            weights[i] = conv.weights + (u64)output * line_bytes + slab * SLAB + chunk * CHUNK;
        }
        for (int i = 0; i < PIXEL_ROWS; i++) start(i, first_pixel + row + i * ROWS);
    }

    // Starts the copies of one slab and goes on to the next.
    __device__ void next(Place stage) {
        next_pixels(stage);
        next_weights(stage);
    }

    __device__ void next_weights(Place stage) {
        for (int i = 0; i < OUTPUT_ROWS; i++) {
            copy_chunk(stage + PIXEL_BYTES + place + i * ROWS * SLAB, weights[i], true);
            weights[i] += SLAB;
        }
    }

    __device__ void next_pixels(Place stage) {
        const int tap = ((int)(down * conv.width + right) * (int)conv.input_pitch + (int)channel) * SIZE;
        const u32 at = 1u << min(down, LARGEST_WINDOW) | 0x10000u << right;
        for (int i = 0; i < PIXEL_ROWS; i++)
            copy_chunk(stage + place + i * ROWS * SLAB, pixels[i] + tap, !(outside[i] & at));
        advance();
    }

  private:
    typedef typename Tile::Element Element;
    static constexpr int SIZE = sizeof(Element);
    static constexpr int PER_SLAB = SLAB / SIZE, PER_CHUNK = CHUNK / SIZE;
    static constexpr int ROWS = Tile::THREADS / CHUNKS; // copied at a time
    static constexpr int PIXEL_ROWS = Tile::PIXELS / ROWS, OUTPUT_ROWS = Tile::OUTPUTS / ROWS;
    static_assert(ROWS % 8 == 0 && PIXEL_ROWS > 0 && OUTPUT_ROWS > 0, "rows of one swizzle");

    // Where the window of an output pixel starts, which may be outside, and which of its rows and columns are: bits of the lower
    // and of the upper half, so that one preemption point says it of a tap.
    __device__ void start(int i, u32 pixel) {
        u32 image = conv.by_image(pixel), rest = pixel - image * conv.image;
        u32 line = conv.by_line(rest);
        const int row = (int)(line * conv.stride_down) - (int)conv.pad_up;
        const int column = (int)((rest - line * conv.line) * conv.stride_right) - (int)conv.pad_left;
        long long at = ((long long)image * conv.height + row) * conv.width + column;
        pixels[i] = conv.input + at * conv.input_pitch * SIZE;
        outside[i] = beyond(row, conv.window_height, conv.height) | beyond(column, conv.window_width, conv.width) << 16;
        if (pixel >= conv.pixels) outside[i] = ~0u;
        as_it_is(outside[i]);
    }

    // Bit `n` is set where `first + n` is none of `size`, and behind the window.
    __device__ static u32 beyond(int first, u32 window, u32 size) {
        const int from = max(-first, 0), to = min((int)window, (int)size - first);
        return 0xffff & ~(from < to ? (1u << to) - (1u << from) : 0);
    }

    __device__ void advance() {
        channel += conv.slab_channels;
        right += conv.slab_columns;
        down += conv.slab_rows;
        if (channel >= conv.channels) channel -= conv.channels, right++;
        if (right >= conv.window_width) right -= conv.window_width, down++;
    }

    const Conv &conv;
    u32 place, channel, down, right;
    const char *weights[OUTPUT_ROWS];
    const char *pixels[PIXEL_ROWS];
    u32 outside[PIXEL_ROWS];
};

// Places of a thread, written out where there may be 16: what is kept for each is in registers then.
#if REEF_AMD
#define REEF_EACH_PLACE(i) for (int i = 0; i < EACH; i++)
#else
#define REEF_EACH_PLACE(i) _Pragma("unroll") for (int i = 0; i < EACH; i++)
#endif

// Factors of the sums of four adjoining outputs.
struct OutputFactors {
    float4 factors;
    __device__ void bring(const float *from) { factors = load4(from); }
    __device__ float4 times(float4 s) const {
        return make_float4(s.x * factors.x, s.y * factors.y, s.z * factors.z, s.w * factors.w);
    }
};

// The sums of a tile as its threads take them from shared memory, four adjoining outputs at a time.
template <class Tile> class Finish {
  public:
    typedef typename Tile::Output Element;

    // Before the sums, so that what is added to them is here in time.
    __device__ Finish(const Conv &c, u32 first_pixel, u32 first_output) : conv(c) {
        output = first_output + threadIdx.x % QUADS * 4;
        pixel = first_pixel + threadIdx.x / QUADS;
        if (output < conv.outputs) bias = load4(conv.bias + output), factors.bring(conv.bias + pitch() + output);
    }

    // Asks for what else is added, if it comes four at a time.
    __device__ void bring_residual() {
        if (!conv.residual || !conv.fours) return;
        REEF_EACH_PLACE(i)
            if (exists(i)) residual[i] = *(const Four *)((const Element *)conv.residual + place(i));
    }

    // Adds the shares up.
    __device__ void take(const float *from) {
        from += threadIdx.x / QUADS * Tile::LINE + threadIdx.x % QUADS * 4;
        REEF_EACH_PLACE(i) {
            sums[i] = load4(from + i * ROWS * Tile::LINE);
            for (int share = 1; share < Tile::SHARES; share++)
                sums[i] = sums[i] + load4(from + (share * Tile::PIXELS + i * ROWS) * Tile::LINE);
        }
    }

    __device__ void write_partial(u32 split) const {
        float *to = partial(split);
        REEF_EACH_PLACE(i)
            if (exists(i)) store4(to + i * ROWS * pitch(), sums[i]);
    }

    // Adds up what all splits have written.
    __device__ void read_partials() {
        for (float4 &sum : sums) sum = make_float4(0, 0, 0, 0);
        for (u32 split = 0; split < conv.splits; split += GROUP) {
            float4 parts[GROUP][EACH];
#pragma unroll
            for (u32 g = 0; g < GROUP; g++)
                REEF_EACH_PLACE(i)
                    if (exists(i) && split + g < conv.splits)
                        parts[g][i] = load_shared(partial(split + g) + i * ROWS * pitch());
#pragma unroll
            for (u32 g = 0; g < GROUP; g++)
                REEF_EACH_PLACE(i)
                    if (exists(i) && split + g < conv.splits) sums[i] = sums[i] + parts[g][i];
        }
    }

    // Bias, residual, activation, output. How much code there is for outputs that can't be written four at a time decides over
    // the registers of the loop before (docs/lab/nvidia.md), so those have a lower bound at most, which is 0.
    __device__ void write() const {
        REEF_EACH_PLACE(i) {
            if (!exists(i)) continue;
            if (conv.fours)
                write_four(i);
            else
                write_each(place(i), factors.times(sums[i]) + bias);
        }
    }

  private:
    static constexpr int QUADS = Tile::OUTPUTS / 4, ROWS = Tile::THREADS / QUADS;
    static constexpr int EACH = Tile::PIXELS / ROWS;
    static constexpr int GROUP = EACH >= 8 ? 1 : 8 / EACH; // so that 8 loads are under way
    typedef typename FourOf<Element>::Stored Four;

    __device__ bool exists(int i) const {
        return pixel + i * ROWS < conv.pixels && output < conv.outputs;
    }
    __device__ u64 place(int i) const { return (u64)(pixel + i * ROWS) * conv.output_pitch + output; }
    __device__ u32 pitch() const { return (conv.outputs + 3) & ~3u; }
    __device__ float *partial(u32 split) const {
        return conv.partials + ((u64)split * conv.pixels + pixel) * pitch() + output;
    }

    __device__ void write_four(int i) const {
        float4 value = factors.times(sums[i]) + bias;
        if (conv.residual) value = value + wide(residual[i]);
        value = conv.activation(value);
        if (conv.rounds) value = as_multiplied<Element>(value);
        store4((Element *)conv.output + place(i), value);
    }

    __device__ void write_each(u64 at, float4 four) const {
        const float value[4] = {four.x, four.y, four.z, four.w};
        for (int i = 0; i < 4 && output + i < conv.outputs; i++) {
            float sum = value[i];
            if (conv.residual) sum += to_float(((const Element *)conv.residual)[at + i]);
            set(((Element *)conv.output)[at + i], conv.activation.low == 0 ? relu(sum) : sum);
        }
    }

    const Conv &conv;
    u32 pixel, output;
    typename Tile::Factors factors;
    float4 bias, sums[EACH];
    Four residual[EACH];
};

// `index`: which of the convolution's blocks this is.
template <class Tile>
__device__ __forceinline__ void convolve(reef::Block &block, const Conv &conv, u32 index) {
    extern __shared__ __align__(128) char memory[];
    constexpr int STAGES = Tile::STAGES, STAGE_BYTES = Gather<Tile>::STAGE_BYTES;
    static_assert(!REEF_AMD || STAGES * STAGE_BYTES + 128 <= 64 << 10, "more than a workgroup has");
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
    block.follow();
    u32 fetched = begin;
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (fetched < end) gather.next_pixels(slabs + stage * STAGE_BYTES), fetched++;
        if (stage == 0) block.fetch();
        end_copies();
    }
    if (conv.splits == 1) finish.bring_residual();
    Tile sums;
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (block.evicted()) {
        wait_copies<0>();
        return;
    }
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

template <class Tile> __device__ __forceinline__ void convolve_alone(reef::Turns &turns, const Conv &conv) {
    reef::Block block(turns, reef::AHEAD);
    convolve<Tile>(block, conv, block.index);
}

// Convolutions that don't depend on each other, as one launch: `ConvGroupParams` in operators/params.rs. Blocks of the second begin
// behind those of the first, and so on; where there is none they begin behind all.
const u32 CONVS = 4;
struct ConvGroup {
    Conv of[CONVS];
    u32 begins[CONVS];
};

template <class Tile> __device__ __forceinline__ void convolve_group(reef::Turns &turns, const ConvGroup &group) {
    reef::Block block(turns, reef::AHEAD);
    u32 which = 0;
#pragma unroll
    for (u32 n = 1; n < CONVS; n++) which += block.index >= group.begins[n];
    convolve<Tile>(block, group.of[which], block.index - group.begins[which]);
}

// A kernel for a tile: `body` is `convolve_alone`, or that of warpgroups.
#define CONV_KERNEL(name, body, ...)                                    \
    typedef __VA_ARGS__ name##_tile;                                    \
    extern "C" __global__ void __launch_bounds__(name##_tile::THREADS,  \
                                                 name##_tile::BLOCKS)   \
        name(reef::Guard guard, Conv conv) {                            \
        REEF_EACH(turns, guard) body<name##_tile>(turns, conv);         \
    }
