// Updates where indices point, by indexed.h, block by block on the host, next to plain loops.
//
//     kernels/emulated/run.sh

#include "tensors.h"
#include "movement.h"
#include "indexed.h"

typedef std::vector<u32> Sizes;

static u32 product_of(const Sizes &sizes) {
    u32 product = 1;
    for (u32 size : sizes) product *= size;
    return product;
}

static Sizes any_sizes(u32 axes, u32 most) {
    Sizes sizes(axes);
    for (u32 &size : sizes) size = any(1, most);
    return sizes;
}

// As `Target` in reef_op::tensor; `own`: sizes of the tensor of indices along an axis.
struct Target {
    bool along, shared;
    Sizes sizes, own;
    u32 axis, batches, inner, tuples;

    explicit Target(u32 updates) : along(any(0, 1)), shared(any(0, 1)), axis(0), batches(1), inner(1) {
        const u32 borders[] = {1023, 1024, 1025, 2048, 2049};
        do sizes = any(0, 1) ? any_sizes(any(1, 3), 14) : Sizes{borders[any(0, 4)]}, inner = any(1, 40), batches = any(1, 3);
        while (data() > 4000);
        if (along) {
            own = sizes, axis = any(0, sizes.size() - 1);
            for (u32 &size : own) size = any((size + 1) / 2, size);
            own[axis] = 1;
            own[axis] = updates / product_of(own);
        } else
            tuples = updates / (inner * batches);
    }
    u32 data() const { return product_of(sizes) * (along ? 1 : inner * batches); }
    u32 indices() const { return along ? product_of(own) : tuples * sizes.size() * (shared ? 1 : batches); }
    u32 updates() const { return along ? product_of(own) : tuples * inner * batches; }
    // What index `n` runs over.
    u32 size(u32 n) const { return along ? sizes[axis] : sizes[n % sizes.size()]; }

    static u32 inside(i64 index, u32 size) {
        if (index < 0) index += size;
        return index < 0 ? 0 : index >= size ? size - 1 : (u32)index;
    }
    u32 place(Array &indices, u32 i) const {
        const u32 axes = sizes.size();
        if (!along) {
            const u32 tuple = i / inner, batch = tuple / tuples, row = shared ? tuple % tuples : tuple;
            u32 at = batch;
            for (u32 k = 0; k < axes; k++) at = at * sizes[k] + inside(indices.at<i64>(row * axes + k), sizes[k]);
            return at * inner + i % inner;
        }
        u32 at = 0, rest = i;
        for (u32 k = axes, step = 1; k-- > 0; step *= sizes[k], rest /= own[k])
            at += step * (k == axis ? inside(indices.at<i64>(i), sizes[k]) : rest % own[k]);
        return at;
    }
    void describe(std::vector<u32> &plan) const {
        if (!along) {
            plan.push_back(0), add_divisor(plan, inner), plan.push_back(inner);
            add_divisor(plan, tuples), plan.insert(plan.end(), {tuples, shared, (u32)sizes.size()});
            plan.insert(plan.end(), sizes.begin(), sizes.end());
            return;
        }
        const u32 below = product_of(Sizes(sizes.begin() + axis + 1, sizes.end()));
        plan.insert(plan.end(), {1, (u32)plan.size() + 4, sizes[axis], below, (u32)sizes.size()});
        for (u32 k = sizes.size(), step = 1; k-- > 0; step *= sizes[k])
            add_divisor(plan, own[k]), plan.insert(plan.end(), {own[k], k == axis ? 0 : step});
    }
};

static void fill(Array &array) {
    array.fill_bytes();
    for (u32 n = 0; array.is_float() && n < array.count; n++) array.set<double>(n, any(0, 500) ? number() : NAN);
}

template <class T> static u32 check() {
    const u32 kind = any(0, 1) ? any(tensor::ADD_TO, tensor::LOWER) : tensor::REPLACE;
    // Blocks have a preemption point in front of every 4096th update but the first.
    const u32 counts[] = {any(0, 2), any(1, 300), any(4094, 4098), any(4097, 9000)};
    const Target target(counts[any(0, 3)]);
    Array data(any_element<T>(), target.data()), updates(any_element<T>(), target.updates());
    Array indices(any(0, 1) ? tensor::I64 : tensor::I16, target.indices()), output(data), want(data);
    fill(data), fill(updates);
    for (u32 n = 0; n < indices.count; n++) {
        i64 index = (i64)any(0, 2 * target.size(n) + 2) - target.size(n) - 1;
        if (any(0, 50) == 0) index = any(0, 1) ? INT64_MIN : INT64_MAX;
        indices.set<i64>(n, index);
    }
    std::vector<u32> plan;
    add_input(plan, data), add_input(plan, indices), add_input(plan, updates);
    plan.insert(plan.end(), {kind, updates.count});
    target.describe(plan);
    const u32 blocks = (data.count + tensor::SCATTERED - 1) / tensor::SCATTERED;
    const bool clean = run_blocks(blocks, output, plan, tensor::scatter<T>);
    std::vector<T> numbers;
    for (u32 n = 0; n < data.count; n++) numbers.push_back(data.at<T>(n));
    for (u32 n = 0; n < updates.count; n++) {
        T &number = numbers[target.place(indices, n)], update = updates.at<T>(n);
        number = kind == tensor::REPLACE ? update : kind == tensor::ADD_TO ? tensor::sum_of(number, update)
               : kind == tensor::MULTIPLY ? tensor::product(number, update)
               : kind == tensor::RAISE ? tensor::larger_of(number, update) : tensor::smaller_of(number, update);
    }
    for (u32 n = 0; n < data.count; n++) want.set<T>(n, numbers[n]);
    const u32 wrong = difference(output, want);
    if (clean && wrong == tensor::NOWHERE) return 0;
    printf("scatter: kind %u, %u updates of %u elements, along %u, shared %u, elements %u and %u: ", kind, updates.count,
           data.count, target.along, target.shared, data.element, updates.element);
    print_wrong(clean, wrong, output, want);
    return 1;
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) failed += check<float>() + check<double>() + check<i64>() + check<u64>();
    printf("scatter: %u of %u failed\n", failed, 4 * cases);
    return failed != 0;
}
