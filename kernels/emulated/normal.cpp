// What normal.h computes, block by block on the host, beside plain loops: rows of any width with all that may be left out.
//
//     kernels/emulated/run.sh

#include "device.h"
#define __shared__ static
#include "normal.h"
#include "random.h"

static u32 check() {
    const u32 threads_shift = any(5, 8), most = (1u << threads_shift) * tensor::NORMAL_CHUNKS;
    const u32 width = 4 * any(1, most), rows = any(1, 9), a_block = any(1, tensor::NORMAL_THREADS >> threads_shift);
    const bool added = any(0, 1), gain = any(0, 1), shift = any(0, 1), centred = any(0, 1);
    std::vector<float> x(rows * width), y(x.size()), g(width), s(width), output(x.size() + 4, NAN);
    const float middle = any(0, 1) ? 1000 : 0;
    for (float &value : x) value = number() + middle;
    for (std::vector<float> *all : {&y, &g, &s})
        for (float &value : *all) value = number();
    if (any(0, 7) == 0) x[any(0, x.size() - 1)] = NAN;
    tensor::Normal op = {x.data(), added ? y.data() : nullptr, gain ? g.data() : nullptr, shift ? s.data() : nullptr};
    op.output = output.data(), op.share = 1.0 / width, op.rows = rows, op.width = width;
    std::vector<u16> halves(output.size(), half_of(NAN));
    op.halves = any(0, 1);
    if (op.halves) op.output = halves.data();
    op.lanes = threads_shift, op.centred = centred, op.epsilon = 1e-5f;
    for (u32 block = (rows + a_block - 1) / a_block; block-- > 0;) {
        reef::block_index = block;
        run_block(a_block << threads_shift, [&] {
            reef::Turns turns;
            tensor::normalise(turns, op);
        });
    }
    for (u32 n = 0; op.halves && n < output.size(); n++) output[n] = of_half(halves[n]);
    for (u32 row = 0; row < rows; row++) {
        std::vector<double> values(width);
        double mean = 0, squares = 0;
        for (u32 n = 0; n < width; n++) values[n] = x[row * width + n] + (added ? y[row * width + n] : 0), mean += values[n] / width;
        for (double &value : values) value -= centred ? mean : 0, squares += value * value / width;
        for (u32 n = 0; n < width; n++) {
            const double want = values[n] / std::sqrt(squares + 1e-5) * (gain ? g[n] : 1) + (shift ? s[n] : 0);
            const double made = output[row * width + n];
            if (std::isnan(want) ? std::isnan(made) : std::abs(made - want) <= (op.halves ? std::abs(want) / 1000 : 0) + 1e-3) continue;
            printf("normal: %u rows of %u, %u threads each, %u in a block, added %u, gain %u, shift %u, centred %u: [%u, %u] is %g, not %g\n",
                   rows, width, 1u << threads_shift, a_block, added, gain, shift, centred, row, n, made, want);
            return 1;
        }
    }
    for (u32 n = output.size() - 4; n < output.size(); n++)
        if (!std::isnan(output[n])) return printf("normal: it writes behind the output\n"), 1;
    return 0;
}

int main(int, char **arguments) {
    u32 failed = 0, cases = 4 * (arguments[1] ? atoi(arguments[1]) : 10);
    for (u32 n = 0; n < cases; n++) failed += check();
    printf("normal: %u of %u failed\n", failed, cases);
    return failed != 0;
}
