// Products of few rows or columns by few.h, block by block on the host, next to plain loops.
//
//     kernels/emulated/run.sh

#include "device.h"
#define __shared__ static
namespace tensor {
const u32 THREADS = 256;
template <class T> void store(char *to, u32, u32 at, T value) { ((T *)to)[at] = value; }
} // namespace tensor
#include "few.h"
#include "random.h"

static std::vector<u32> plan;

static u32 view(u32 outer, u32 inner, u32 outer_step, u32 inner_step) {
    u32 at = plan.size();
    plan.push_back(2);
    for (u32 n = 0; n < 2; n++) {
        const u32 size = n == 0 ? inner : outer;
        u32 shift = 31;
        while (1ull << (shift - 31) < size) shift++;
        u32 factor = (u32)(((1ull << shift) + size - 1) / size);
        plan.insert(plan.end(), {factor, shift, size, n == 0 ? inner_step : outer_step});
    }
    return at;
}

// A side as the case has it: where each line of each batch, and each term, lies.
struct Side {
    std::vector<float> values;
    std::vector<u32> batches, lines, terms;
    float &at(u32 batch, u32 line, u32 term) { return values[batches[batch] + lines[line] + terms[term]]; }
};

static Side make(tensor::FewSide &side, u32 batches, u32 lines, u32 terms, bool along) {
    Side made;
    const u32 pitch = (along ? terms : lines) + any(0, 5), half = lines / 2;
    side.step = along ? pitch : 1, side.term_step = along ? 1 : pitch;
    u32 gap = 0;
    if (lines % 2 == 0 && any(0, 1)) gap = 3, side.view = view(2, half, half * side.step + gap, side.step);
    const u32 whole = any(0, 1) ? pitch * (along ? lines : terms) + gap : 0;
    if (any(0, 1))
        side.batch_view = view(batches, 1, whole, 0);
    else
        side.batch_step = whole;
    for (u32 n = 0; n < batches; n++) made.batches.push_back(n * whole);
    for (u32 n = 0; n < lines; n++) made.lines.push_back(n * side.step + (n >= half ? gap : 0));
    for (u32 n = 0; n < terms; n++) made.terms.push_back(n * side.term_step);
    made.values.resize(made.batches.back() + made.lines.back() + made.terms.back() + 1);
    for (float &value : made.values) value = (float)any(0, 16) - 8;
    return made;
}

template <u32 ROWS> static u32 check() {
    const u32 rows = any(ROWS / 2 + 1, ROWS), width = any(0, 8), lines = any(1, std::min(300u, 4u << width));
    const u32 terms = any(1, 1500), batches = any(1, 3);
    const bool along = any(0, 1), turned = any(0, 1), tabled = any(0, 1);
    plan.assign(1, 0);
    tensor::Few op = {};
    Side few = make(op.few, batches, rows, terms, any(0, 1)), many = make(op.many, batches, lines, terms, along);
    op.few.input = any(0, 1), op.many.input = 1 - op.few.input;
    if (tabled) {
        op.table = plan.size();
        for (u32 n = 0; n < terms; n++)
            for (u32 input = 0; input < 2; input++) plan.push_back((op.few.input == input ? few : many).terms[n]);
        op.few.term_step = op.many.term_step = 0;
    }
    // It counts once, though what is read behind the end is the last term.
    if (any(0, 3) == 0) few.at(batches - 1, rows - 1, terms - 1) = INFINITY;
    op.few.data = few.values.data(), op.many.data = many.values.data();
    std::vector<float> output(batches * rows * lines + 4, NAN);
    op.output = (char *)output.data(), op.plan = plan.data();
    op.rows = rows, op.lines = lines, op.terms = terms, op.tiles = (lines + (1u << width) - 1) >> width;
    op.width = width, op.along = along, op.batch_step = rows * lines;
    op.row_step = turned ? 1 : lines, op.line_step = turned ? rows : 1;
    for (u32 block = batches * op.tiles; block-- > 0;) {
        reef::block_index = block;
        run_block(tensor::THREADS, [&] {
            reef::Turns turns;
            tensor::contract_few<ROWS>(turns, op);
        });
    }
    for (u32 batch = 0; batch < batches; batch++)
        for (u32 row = 0; row < rows; row++)
            for (u32 line = 0; line < lines; line++) {
                double want = 0;
                for (u32 term = 0; term < terms; term++)
                    want += (double)few.at(batch, row, term) * many.at(batch, line, term);
                const double made = output[batch * op.batch_step + row * op.row_step + line * op.line_step];
                if (std::isnan(want) ? std::isnan(made) : made == want) continue;
                printf("few: %u batches of %u rows of %u, and %u lines, tiles of %u, along %u, turned %u, table %u: [%u, %u, %u] is %g, not %g\n",
                       batches, rows, terms, lines, 1u << width, along, turned, tabled, batch, row, line, made, want);
                return 1;
            }
    for (u32 n = output.size() - 4; n < output.size(); n++)
        if (!std::isnan(output[n])) return printf("few: it writes behind the output\n"), 1;
    return 0;
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) failed += check<1>() + check<2>() + check<4>() + check<7>();
    printf("few: %u of %u failed\n", failed, 4 * cases);
    return failed != 0;
}
