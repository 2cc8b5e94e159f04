// One random product, or group of products, block by block on the host, next to plain loops: tiles, layouts, splits, ends and stops.

#pragma once

#include "device.h"
#include <tuple>
#define __shared__
#include "sums.h"
#include "product.h"
#if REEF_SLAB == 128
alignas(1024) char memory[256 << 10];
#include "activation.h"
#include "conv.h"
#include "warpgroups.h"
#include "products_by_groups.h"
static auto &shared = memory;
#else
alignas(128) char tensor::memory[128 << 10];
static auto &shared = tensor::memory;
#endif
#include "random.h"

template <class T> static std::vector<char> bytes_of(const std::vector<std::vector<T>> &all) {
    std::vector<char> bytes;
    for (const auto &from : all) bytes.insert(bytes.end(), (const char *)from.data(), (const char *)(from.data() + from.size()));
    return bytes;
}

// A side as the case has it: where each line of each batch, and each term, lies.
struct Side {
    std::vector<float> values;
    std::vector<u16> halves;
    std::vector<u32> lines, batches, terms;
    float at(u32 batch, u32 line, u32 term) const { return values[batches[batch] + lines[line] + terms[term]]; }
};

static std::vector<u32> plan;

static u32 view(u32 outer, u32 inner, u32 outer_step, u32 inner_step) {
    u32 at = plan.size();
    plan.push_back(2);
    for (auto [size, step] : {std::pair{inner, inner_step}, std::pair{outer, outer_step}}) {
        u32 shift = 31;
        while (1ull << (shift - 31) < size) shift++;
        u32 factor = (u32)(((1ull << shift) + size - 1) / size);
        plan.insert(plan.end(), {factor, shift, size, step});
    }
    return at;
}

// `word`: elements of a word, two where they are halves.
static Side make(tensor::ProductSide &side, u32 batches, u32 lines, u32 terms, bool along, bool wide, bool by_view, u32 word) {
    Side made;
    const u32 chunk = 4 * word, slack = wide ? chunk * any(0, 2) : any(0, 5);
    u32 inner = along ? terms : lines, outer = along ? lines : terms;
    u32 pitch = (wide ? (inner + chunk - 1) / chunk * chunk : inner) + slack, step = along ? pitch : 1;
    side = {};
    side.along = along, side.wide = wide, side.step = step / word, side.term_step = along ? 1 : pitch;
    u32 gap = 0, half = lines / 2;
    if (by_view && lines % 2 == 0 && half % 4 == 0)
        gap = 8, side.view = view(2, half, (half * step + gap) / word, step / word);
    for (u32 n = 0; n < lines; n++) made.lines.push_back(n * step + (gap && n >= half ? gap : 0));
    for (u32 n = 0; n < terms; n++) made.terms.push_back(n * side.term_step);
    u32 whole = (pitch * outer + 16 + 7) / 8 * 8;
    side.batch_step = any(0, 1) ? whole / word : 0;
    for (u32 n = 0; n < batches; n++) made.batches.push_back(n * side.batch_step * word);
    made.values.resize(whole * batches + 16);
    for (float &value : made.values) value = (float)any(0, 16) - 8;
    // Copies are of 16 bytes where the case says so.
    if ((uintptr_t)made.values.data() % 16) abort();
    side.data = (const char *)made.values.data();
    if (word == 2) {
        for (float value : made.values) made.halves.push_back(half_of(value));
        side.data = (const char *)made.halves.data();
    }
    return made;
}

static float stored_as(float value, bool half) { return half ? of_half(half_of(value)) : value; }

// By the kernel that the host would choose: `kernel` in operators/tensor/products/tiled.rs. Products of a group have all
// places known at the beginning.
static bool is_any(const tensor::Product &product) {
    const tensor::ProductSide &rows = product.sides[0], &columns = product.sides[1];
    return !rows.along || !rows.wide || !columns.wide || product.table;
}

// Which sides are halves: none, columns, or both. Both lie along, and columns are as they are multiplied, but of singles.
enum Stored { SINGLES, NARROW, PAIRS, ROUNDED };

// By tiles of this kind, each block by `body`. `stops`: whether blocks of it can be stopped when they look at the guard.
template <class Tile, Stored stored, class Body> static u32 check_by(Body body, const char *name, bool stops) {
    const bool halves = stored != SINGLES, known = halves || any(0, 1); // all places at the beginning
    const u32 step = halves ? 8 : known || any(0, 1) ? 4 : 1, batches = any(1, 2), rows = any(1, 150);
    const u32 columns = (any(1, 150) + step - 1) / step * step;
    const u32 terms = (any(1, 700) + step - 1) / step * step; // that may be copied four at a time
    tensor::Product product = {};
    plan.assign(1, 0);
    bool along[2], wide[2];
    for (int s = 0; s < 2; s++) along[s] = known && s == 0 || halves || any(0, 1), wide[s] = known || any(0, 1);
    const u32 sizes[2] = {rows, columns};
    for (int s = 0; s < 2; s++) wide[s] = wide[s] && (along[s] ? terms : sizes[s]) % 4 == 0;
    Side sides[2];
    for (u32 s = 0; s < 2; s++) {
        const u32 word = stored == PAIRS || stored == NARROW && s == 1 ? 2 : 1;
        sides[s] = make(product.sides[s], batches, sizes[s], terms, along[s], wide[s], any(0, 1), word);
        product.sides[s].input = 1 - s;
    }
    if (!known && any(0, 1)) {
        product.table = plan.size();
        for (u32 k = 0; k < terms; k++) plan.push_back(sides[1].terms[k]), plan.push_back(sides[0].terms[k]);
    }
    product.rows = rows, product.columns = columns, product.terms = stored == PAIRS ? terms / 2 : terms;
    product.across = (columns + Tile::COLUMNS - 1) / Tile::COLUMNS;
    product.down = (rows + Tile::ROWS - 1) / Tile::ROWS;
    product.slabs = (product.terms + tensor::SLAB_TERMS - 1) / tensor::SLAB_TERMS;
    product.halves = any(0, 1);
    product.splits = any(1, std::min(product.slabs, 4u));
    product.fours = columns % 4 == 0 && any(0, 1);
    const u32 tiles = batches * product.across * product.down;
    const u32 count = is_any(product) ? 1 : any(1, tensor::PRODUCTS);
    std::vector<std::vector<float>> partials(count, std::vector<float>(tiles * product.splits * Tile::ROWS * Tile::COLUMNS, NAN));
    std::vector<std::vector<u32>> arrivals(count, std::vector<u32>(tiles));
    std::vector<std::vector<float>> outputs(count, std::vector<float>(batches * rows * columns + 4, NAN));
    std::vector<std::vector<u16>> half_outputs(count, std::vector<u16>(outputs[0].size(), half_of(NAN)));
    std::vector<float> bias(columns + 4), residual(outputs[0].size()), heights(batches * rows);
    for (auto *values : {&bias, &residual, &heights})
        for (float &value : *values) value = (float)any(0, 16) - 8;
    const bool after = any(0, 1), between = !after && any(0, 1); // batches lie between rows and columns
    product.output_row = between ? batches * columns : columns;
    product.output_batch = between ? columns : rows * columns;
    if (any(0, 1) && rows % 2 == 0) product.output_row_view = view(2, rows / 2, rows / 2 * product.output_row, product.output_row);
    product.plan = plan.data(); // which is whole now
    if (after) {
        product.after[0] = {bias.data(), tensor::ADD_OPERAND, 0, 1, 0};
        product.after[1] = {nullptr, tensor::AT_LEAST, 0, 0, -100};
        product.after[2] = {heights.data(), tensor::MUL_OPERAND, 1, 0, 0};
        product.after[3] = {residual.data(), tensor::ADD_OPERAND, columns, 1, 0};
    }
    // Others of the group have more added, and fewer columns.
    tensor::ProductGroup group = {};
    u32 blocks = 0;
    for (u32 n = 0; n < tensor::PRODUCTS; n++) {
        group.begins[n] = n < count ? blocks : tensor::NOWHERE;
        if (n >= count) continue;
        tensor::Product &one = group.of[n];
        one = product;
        one.output = product.halves ? (void *)half_outputs[n].data() : outputs[n].data(), one.partials = partials[n].data(), one.arrivals = arrivals[n].data();
        if (n > 0 && !after) one.after[0] = {nullptr, tensor::ADD_NUMBER, 0, 0, (float)n};
        if (n > 0 && columns > 40) one.columns -= 4 * any(0, 9);
        one.across = (one.columns + Tile::COLUMNS - 1) / Tile::COLUMNS;
        blocks += batches * one.across * one.down * one.splits;
    }
    for (u32 block = blocks; block-- > 0;) {
        reef::block_index = block;
        auto run = [&](bool stop) {
            memset(shared, 0xff, sizeof shared);
            reef::block_stops = stop, products_are_late = any(0, 1), copies_are_early = stops && any(0, 1);
            run_block(Tile::THREADS, [&] {
                reef::Turns turns;
                body(turns, group, count);
            });
        };
        // A block that is stopped has changed nothing.
        auto all = [&] { return std::make_tuple(bytes_of(outputs), bytes_of(half_outputs), bytes_of(partials), bytes_of(arrivals)); };
        if (stops && any(0, 3) == 0) {
            const auto before = all();
            run(true);
            if (before != all()) return printf("%s: a stopped block wrote\n", name), 1;
        }
        run(false);
    }
    for (u32 n = 0; n < count; n++) {
        std::vector<float> &output = outputs[n];
        for (u32 at = 0; product.halves && at < output.size(); at++) output[at] = of_half(half_outputs[n][at]);
        for (u32 batch = 0; batch < batches; batch++)
            for (u32 row = 0; row < rows; row++)
                for (u32 column = 0; column < columns; column++) {
                    double sum = 0;
                    for (u32 k = 0; k < terms; k++) sum += sides[0].at(batch, row, k) * sides[1].at(batch, column, k);
                    const u32 at = batch * product.output_batch + row * product.output_row + column;
                    if (after) sum = std::max(sum + bias[column], -100.0) * heights[batch * rows + row] + residual[at];
                    if (!after) sum += n;
                    if (column < group.of[n].columns ? output[at] == stored_as((float)sum, product.halves) : std::isnan(output[at])) continue;
                    printf("%s: %u of %u, %ux%ux%u, %u terms, along %d %d, wide %d %d, view %u %u, table %u, splits %u: [%u, %u, %u] is %g, not %g\n",
                           name, n, count, batches, rows, columns, terms, along[0], along[1], wide[0], wide[1], product.sides[0].view,
                           product.sides[1].view, product.table, product.splits, batch, row, column, output[at], sum);
                    return 1;
                }
        for (u32 at = output.size() - 4; at < output.size(); at++)
            if (!std::isnan(output[at])) return printf("%s: it writes behind the output\n", name), 1;
        for (u32 left : arrivals[n])
            if (left) return printf("%s: counts are left\n", name), 1;
    }
    return 0;
}
