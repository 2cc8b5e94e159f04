// What attention.h computes, block by block on the host, beside plain loops: masks, shared keys, and rows that are no number.
//
//     kernels/emulated/run.sh

#include "device.h"
#define __shared__
#include "sums.h"
#include "product.h"
#include "attention.h"
#include "random.h"

alignas(128) char tensor::memory[128 << 10];


static std::vector<u32> plan;

static u32 line_view(u32 size, u32 step) { // of one axis
    u32 at = plan.size(), shift = 31;
    while (1ull << (shift - 31) < size) shift++;
    plan.insert(plan.end(), {1, (u32)(((1ull << shift) + size - 1) / size), shift, size, step});
    return at;
}

// Every `step`th, told in either way.
static tensor::Places places(u32 size, u32 step) {
    if (any(0, 1)) return {step, 0};
    return {0, line_view(size, step)};
}

template <class Terms, int QW, int KW> static u32 check(const char *name, double allowed) {
    const bool halved = tensor::Line<Terms>::ELEMENT == 2; // what goes in
    const u32 groups = any(1, 3), rows = any(1, 70), keys = any(1, 200), wide = halved || any(0, 1);
    const u32 step = halved ? 8 : wide ? 4 : 1;
    const u32 depth = (any(1, 64) + step - 1) / step * step, width = (any(1, 64) + step - 1) / step * step;
    plan.assign(1, 0);
    tensor::Attention a = {};
    // Heads lie side by side in a row of all, as transformers have them; outputs likewise.
    const u32 sizes[3] = {rows, keys, keys}, lengths[3] = {depth, depth, width};
    std::vector<float> inputs[3];
    std::vector<u16> stored[3];
    u32 pitches[3];
    for (u32 s = 0; s < 3; s++) {
        const u32 pitch = groups * lengths[s] + (wide ? step * any(0, 1) : any(0, 3));
        inputs[s].resize(pitch * sizes[s] + 16);
        for (float &x : inputs[s]) x = halved ? of_half(half_of(number())) : number();
        for (float x : inputs[s]) stored[s].push_back(half_of(x));
        a.sides[s] = {halved ? (const char *)stored[s].data() : (const char *)inputs[s].data(), places(groups, lengths[s]), {pitch, 0}};
        if (s == 0) a.sides[s].row = places(rows, pitch);
        pitches[s] = pitch;
        if ((uintptr_t)inputs[s].data() % 16) abort();
    }
    std::vector<float> added(keys), output(groups * rows * width + 4, NAN);
    std::vector<unsigned char> stays(rows * keys);
    for (float &x : added) x = any(0, 7) ? number() : -INFINITY;
    for (unsigned char &x : stays) x = any(0, 3) != 0;
    if (any(0, 3) == 0) added[any(0, keys - 1)] = NAN;
    const u32 masked = any(0, rows - 1); // all of this row's scores are left out
    for (u32 k = 0; k < keys; k++) stays[masked * keys + k] = 0;
    a.steps[0] = {nullptr, tensor::SCALE, 0.125f, {0, 0}, {0, 0}, 0, 0};
    a.steps[1] = {added.data(), tensor::ADD_INPUT, 0, places(groups, 0), places(rows, 0), 1, 0};
    a.steps[2] = {stays.data(), tensor::CHOOSE, -INFINITY, places(groups, 0), places(rows, keys), 1, 1};
    a.count = any(0, 3), a.none_is_zero = any(0, 1);
    std::vector<u16> halves(output.size(), half_of(NAN));
    a.halves = any(0, 1);
    a.output = a.halves ? (void *)halves.data() : output.data(), a.output_group = places(groups, 1), a.output_row = places(rows, groups);
    a.plan = plan.data();
    a.rows = rows, a.keys = keys, a.depth = depth, a.width = width, a.wide = wide, a.fours = wide && any(0, 1);
    a.tiles = (rows + 16 * QW - 1) / (16 * QW);
    for (u32 block = groups * a.tiles; block-- > 0;) {
        reef::block_index = block;
        memset(tensor::memory, 0xff, sizeof tensor::memory);
        run_block(tensor::ATTENTION_THREADS, [&] {
            reef::Turns turns;
            tensor::attend<Terms, QW, KW>(turns, a);
        });
    }
    for (u32 n = 0; a.halves && n < output.size(); n++) output[n] = of_half(halves[n]);
    auto at = [&](u32 s, u32 group, u32 row, u32 n) {
        return (double)inputs[s][group * lengths[s] + row * pitches[s] + n];
    };
    for (u32 group = 0; group < groups; group++)
        for (u32 row = 0; row < rows; row++) {
            std::vector<double> scores(keys);
            double most = -INFINITY, sum = 0;
            for (u32 k = 0; k < keys; k++) {
                for (u32 n = 0; n < depth; n++) scores[k] += at(0, group, row, n) * at(1, group, k, n);
                if (a.count > 0) scores[k] *= 0.125;
                if (a.count > 1) scores[k] += added[k];
                if (a.count > 2 && !stays[row * keys + k]) scores[k] = -INFINITY;
                most = scores[k] > most || std::isnan(scores[k]) || std::isnan(most) ? scores[k] + (std::isnan(most) ? NAN : 0) : most;
            }
            for (double &score : scores) score = exp(score - most), sum += score;
            for (u32 n = 0; n < width; n++) {
                double want = 0;
                for (u32 k = 0; k < keys; k++) want += scores[k] / sum * at(2, group, k, n);
                if (std::isnan(sum) && a.none_is_zero) want = 0;
                const double made = output[(row * groups + group) * width + n];
                if (std::isnan(want) ? std::isnan(made) : std::abs(made - want) <= allowed + (a.halves ? std::abs(want) / 1000 : 0)) continue;
                printf("%s: %u groups of %ux%u, depth %u, width %u, wide %u, %u steps: [%u, %u, %u] is %g, not %g\n", name, groups,
                       rows, keys, depth, width, wide, a.count, group, row, n, made, want);
                return 1;
            }
        }
    for (u32 n = output.size() - 4; n < output.size(); n++)
        if (!std::isnan(output[n])) return printf("%s: it writes behind the output\n", name), 1;
    return 0;
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) {
        failed += check<tensor::Tf32Terms, 1, 4>("tf32, 16 rows", 0.03);
        failed += check<tensor::F16Terms, 1, 4>("f16, 16 rows", 0.03);
        failed += check<tensor::Tf32Terms, 4, 1>("tf32, 64 rows", 0.03);
        failed += check<tensor::F16Terms, 4, 1>("f16, 64 rows", 0.03);
        failed += check<tensor::PairTerms, 1, 4>("halves, 16 rows", 0.03);
        failed += check<tensor::PairTerms, 4, 1>("halves, 64 rows", 0.03);
    }
    printf("attention: %u of %u failed\n", failed, 6 * cases);
    return failed != 0;
}
