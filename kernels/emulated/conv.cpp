// What conv.h computes, block by block on the host, beside plain loops: windows, strides, padding, tiles, splits and ends.
//
//     kernels/emulated/run.sh

#include "convolutions.h"
#include <sys/mman.h>

template <class Tile> static u32 check(const char *name) {
    return check_by<Tile>([](reef::Turns &turns, const Conv &c) { convolve_alone<Tile>(turns, c); }, name);
}

// Memory of which only what is touched is there.
static char *sparse(u64 bytes) {
    return (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// The last pixels of the widest input that `fits_words` in operators/tiles/slabs.rs lets through: from a window's first tap
// to its last it is 16 bytes less than a word with a sign counts.
static u32 check_widest() {
    typedef Warps<Tf32, 32, 32, 1, 1, 4, 4> Tile;
    const u32 width = (1u << 26) - 2, channels = 4, per_slab = SLAB / sizeof(float), lines = 3;
    Conv c = {};
    c.slabs = 1, c.height = lines, c.width = width, c.channels = c.input_pitch = channels;
    c.window_height = c.window_width = 3, c.stride_down = c.stride_right = 1;
    c.line = c.image = c.pixels = width - 2, c.outputs = c.output_pitch = c.splits = 1;
    c.pixel_tiles = (c.pixels + Tile::PIXELS - 1) / Tile::PIXELS, c.output_tiles = 1;
    c.by_output_tiles = divisor(1), c.by_pixel_tiles = divisor(c.pixel_tiles), c.by_image = c.by_line = divisor(c.line);
    c.by_channels = divisor(channels), c.by_window_width = divisor(3);
    c.slab_channels = per_slab % channels, c.slab_columns = per_slab / channels % 3, c.slab_rows = per_slab / channels / 3;
    c.activation = {-INFINITY, INFINITY};
    float *input = (float *)sparse((u64)lines * width * channels * sizeof(float)), *output = (float *)sparse((u64)c.pixels * sizeof(float));
    if (input == MAP_FAILED || output == MAP_FAILED) return printf("conv: no room for 3 GiB of addresses\n"), 1;
    std::vector<float> weights(per_slab), bias(4);
    for (u32 n = 0; n < 9 * channels; n++) weights[n] = n % 7 + 1;
    const u32 last = c.pixels - 1;
    auto at = [&](u32 row, u32 column, u32 channel) { return ((u64)row * width + column) * channels + channel; };
    float want = 0;
    for (u32 n = 0; n < 9 * channels; n++) {
        const u32 tap = n / channels;
        const u64 place = at(tap / 3, last + tap % 3, n % channels);
        input[place] = n % 5 + 1, want += weights[n] * input[place];
    }
    c.input = (const char *)input, c.weights = (const char *)weights.data(), c.bias = bias.data(), c.output = (char *)output;
    reef::block_index = c.pixel_tiles - 1;
    run_block(Tile::THREADS, [&] {
        reef::Turns turns;
        convolve_alone<Tile>(turns, c);
    });
    if (output[last] == want) return 0;
    return printf("widest input: [%u] is %g, not %g\n", last, output[last], want), 1;
}

// Each float of 8 bits, as a number and as half of it in pairs; and none that lies between two of them goes to a third.
static u32 check_numbers() {
    u32 failed = 0;
    for (u32 bits = 0; bits < 256; bits++) {
        const float value = to_float(Fp8{(unsigned char)bits});
        Fp8 again;
        set(again, value);
        failed += value == value ? again.bits != bits : (again.bits & 0x7f) != 0x7f;
        for (bool odd : {false, true}) {
            const u32 pair = halves_of(odd ? bits << 24 : bits << 16, odd);
            const float half = of_half(pair >> 16) * 256;
            failed += value == value ? half != value : half == half;
        }
        const float next = to_float(Fp8{(unsigned char)(bits + 1)}), middle = value + (next - value) / 2;
        if ((bits & 0x7f) >= 0x7e) continue;
        set(again, middle);
        failed += again.bits != (bits & 1 ? bits + 1 : bits);
    }
    Int8 number;
    for (float value : {-1e9f, -127.5f, -2.5f, -0.5f, 0.5f, 1.5f, 126.6f, 1e9f}) {
        set(number, value);
        failed += number.number != (int)nearbyintf(std::max(-127.0f, std::min(127.0f, value)));
    }
    set(number, NAN);
    failed += number.number != 0;
    if (failed) printf("numbers of 8 bits: %u are wrong\n", failed);
    return failed > 0;
}

int main(int, char **arguments) {
    u32 failed = check_widest(), cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) {
        failed += check<Warps<Tf32, 32, 32, 1, 1, 4, 4>>("tf32 32x32") + check<Warps<F16, 32, 32, 1, 1, 4, 4>>("f16 32x32");
        failed += check<Warps<RoundedTf32, 64, 32, 2, 1, 4, 4>>("rounded 64x32") + check<Warps<F16, 64, 32, 2, 1, 4, 4>>("f16 64x32");
        failed += check<Warps<Tf32, 64, 64, 2, 2, 2, 3>>("tf32 64x64") + check<Warps<F16, 64, 64, 2, 2, 2, 3>>("f16 64x64");
        failed += check<Threads<float, 32, 32, 2>>("fp32 32x32");
        failed += check_group<Warps<Tf32, 32, 32, 1, 1, 4, 4>>("several, tf32 32x32");
        failed += check_group<Warps<RoundedTf32, 64, 32, 2, 1, 4, 4>>("several, rounded 64x32");
        failed += check_group<Warps<F16, 64, 64, 2, 2, 2, 3>>("several, f16 64x64");
        failed += check<Quantized<Int8, Warps<F16, 32, 32, 1, 1, 4, 4>>>("f16 to int8 32x32");
        failed += check<Quantized<Int8, Warps<Int8Terms, 64, 32, 2, 1, 4, 4>>>("int8 64x32");
        failed += check<Quantized<Half, Warps<Int8Terms, 64, 64, 2, 2, 2, 3>>>("int8 to f16 64x64");
        failed += check<Quantized<Fp8, Warps<F16, 64, 64, 2, 2, 2, 3>>>("f16 to fp8 64x64");
        failed += check<Quantized<Fp8, Warps<Fp8Terms, 32, 32, 1, 1, 4, 4>>>("fp8 32x32");
        failed += check<Quantized<Half, Warps<Fp8Terms, 64, 32, 2, 1, 4, 4>>>("fp8 to f16 64x32");
    }
    failed += check_numbers();
    printf("conv: %u of %u failed\n", failed, 16 * cases + 2);
    return failed > 0;
}
