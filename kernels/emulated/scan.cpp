// Running sums by rows.h, block by block on the host, next to plain loops: by threads and by blocks, whose parts may be as
// long as the host's (`build_scan` in operators/tensor/rows.rs) or not.
//
//     kernels/emulated/run.sh

#include "tensors.h"
#include "rows.h"

template <class T> static u32 check() {
    const bool by_blocks = any(0, 2) > 0, exclusive = any(0, 1), reverse = any(0, 1);
    // A block has a preemption point among what comes before its part from 2^15 elements on.
    const bool is_long = by_blocks && any(0, 5) == 0;
    const u32 usual[2][2] = {{256, 1024}, {4096, 4096}};
    const u32 part = is_long || any(0, 1) ? usual[by_blocks][any(0, 1)] : any(1, 700);
    const u32 len = is_long ? any(36800, 42000) : any(0, 1) ? max(any(0, 3) * part + any(0, 2), 2u) - 1 : any(1, 3 * part);
    const u32 most = is_long ? 1 : by_blocks ? 3 : any(0, 1) ? 5 : 20;
    const u32 inner = any(1, most), outer = any(1, most), parts = (len + part - 1) / part, rows = outer * inner;
    Array input(any_element<T>(), rows * len), output(any_element<T>(), input.count), want = output;
    input.fill_bytes();
    // Sums of small whole numbers are the same in any order.
    for (u32 n = 0; input.is_float() && n < input.count; n++) input.set<double>(n, (double)any(0, 16) - 8);
    for (u32 n = any(0, 5); input.is_float() && n < 2; n++)
        input.set<double>(any(0, input.count - 1), n == 0 ? INFINITY : -INFINITY);
    std::vector<u32> plan;
    add_input(plan, input);
    plan.insert(plan.end(), {len, inner, part, parts, exclusive, reverse, by_blocks});
    const u32 blocks = by_blocks ? rows * parts : (rows * parts + THREADS - 1) / THREADS;
    const bool clean = run_blocks(blocks, output, plan, tensor::scan<T>);
    for (u32 row = 0; row < rows; row++) {
        T sum = 0;
        for (u32 n = 0; n < len; n++) {
            const u32 at = (row / inner * len + (reverse ? len - 1 - n : n)) * inner + row % inner;
            const T with = tensor::sum_of(sum, input.at<T>(at));
            want.set<T>(at, exclusive ? sum : with);
            sum = with;
        }
    }
    const u32 wrong = difference(output, want);
    if (clean && wrong == tensor::NOWHERE) return 0;
    printf("scan: %u x %u x %u of %zu bytes, parts of %u by %s, exclusive %u, reverse %u, elements %u to %u: ", outer, len, inner,
           sizeof(T), part, by_blocks ? "blocks" : "threads", exclusive, reverse, input.element, output.element);
    print_wrong(clean, wrong, output, want);
    return 1;
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) failed += check<float>() + check<double>() + check<i64>();
    printf("scan: %u of %u failed\n", failed, 3 * cases);
    return failed != 0;
}
