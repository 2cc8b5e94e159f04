// Lists of boxes by suppress.h, block by block on the host, next to plain loops: boxes with edges in common, that are empty
// or no numbers, and orders and lists that are out of range.
//
//     kernels/emulated/run.sh

#include "tensors.h"
#include "movement.h"
#include "indexed.h"
#include "suppress.h"

// Edges: rows and then columns, the low one first; and the area.
struct Edges { float at[4], area; };

static Edges edges_of(Array &boxes, u32 box, bool centred) {
    float four[4];
    for (u32 n = 0; n < 4; n++) four[n] = boxes.at<float>(4 * box + n);
    Edges edges;
    for (u32 axis = 0; axis < 2; axis++) {
        const float a = four[centred ? 1 - axis : axis], b = four[centred ? 3 - axis : 2 + axis];
        edges.at[2 * axis] = centred ? a + b * -0.5f : tensor::smaller_of(a, b);
        edges.at[2 * axis + 1] = centred ? a + b * 0.5f : tensor::larger_of(a, b);
    }
    edges.area = (edges.at[1] - edges.at[0]) * (edges.at[3] - edges.at[2]);
    return edges;
}

static float share(const Edges &a, const Edges &b) {
    float common[2];
    for (u32 axis = 0; axis < 2; axis++) {
        const float from = tensor::larger_of(a.at[2 * axis], b.at[2 * axis]);
        const float to = tensor::smaller_of(a.at[2 * axis + 1], b.at[2 * axis + 1]);
        common[axis] = tensor::larger_of(to - from, 0.0f);
    }
    const float both = common[0] * common[1];
    return both / (a.area + b.area - both);
}

static u32 nearest(i64 box, u32 count) {
    if (box < 0) box += count;
    return box < 0 ? 0 : box >= count ? count - 1 : (u32)box;
}

// Corners lie on a grid, so that many overlaps are the same.
static void fill_boxes(Array &boxes, bool centred) {
    for (u32 n = 0; n < boxes.count; n++)
        boxes.set<float>(n, centred && n % 4 > 1 ? (float)any(0, 8) / 2 : (float)any(0, 40) / 4);
    for (u32 n = any(0, 4) ? 0 : any(1, 9); n > 0; n--) {
        const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f};
        boxes.set<float>(any(0, boxes.count - 1), odd[any(0, 5)]);
    }
}

static void fill_scores(Array &scores) {
    const u32 none = any(0, 2) ? any(2, 9) : 1u << 30;
    for (u32 n = 0; n < scores.count; n++)
        scores.set<float>(n, any(1, none) > 1 ? number() : any(0, 1) ? -INFINITY : NAN);
}

static i64 any_box(u32 count) {
    if (any(0, 40) > 0) return any(0, count - 1);
    const i64 odd[] = {-1, INT64_MIN, INT64_MAX, count, -(i64)count - 1};
    return odd[any(0, 4)];
}

static u32 check() {
    // A block has a preemption point before each 256th box of a list, and before each of its rounds but the first.
    const bool is_long = any(0, 2) == 0, has_lists = is_long || any(0, 2) > 0, centred = any(0, 1);
    const u32 sizes[] = {any(1, 3), any(1, 40), any(255, 258), any(300, 1500)}, count = sizes[is_long ? 3 : any(0, 3)];
    const u32 len = any(0, 1) ? min(count, any(0, 1) ? 256u : 1024u) : any(1, min(count, 1024u)), first = any(0, count - len);
    const u32 most = is_long ? any(300, 900) : any(0, 1) ? any(1, 30) : any(1, count + 5);
    const u32 classes = any(1, 3), lists = classes * any(1, 2), width = 1u << (any(0, 1) ? any(0, 8) : any(6, 8));
    Array boxes(tensor::F32, lists / classes * count * 4), scores(tensor::F32, lists * count);
    Array order(tensor::I64, lists * count), overlap(tensor::F32, 1), before(tensor::I64, lists * (most + 1));
    Array output(before), want(before);
    fill_boxes(boxes, centred), fill_scores(scores);
    for (u32 n = 0; n < order.count; n++) order.set<i64>(n, any_box(count));
    const float overlaps[] = {0, 0.25f, 0.5f, 1, -1, NAN, (float)any(0, 100) / 100};
    overlap.set<float>(0, is_long ? 1 : overlaps[any(0, 6)]);
    for (u32 list = 0; list < lists; list++) {
        const i64 odd[] = {-5, (i64)most + 1, INT64_MIN, INT64_MAX}, len = is_long ? any(200, most) : any(0, most);
        for (u32 n = 0; n <= most; n++)
            before.set<i64>(list * (most + 1) + n, n > 0 ? any_box(count) : any(0, 9) ? len : odd[any(0, 3)]);
    }
    std::vector<u32> plan;
    add_input(plan, boxes), add_input(plan, scores), add_input(plan, order), add_input(plan, overlap);
    add_input(plan, before);
    if (!has_lists) plan[16] = plan[17] = 0;
    plan.insert(plan.end(), {count, classes, most, first, len, centred, width});
    const bool clean = run_blocks(lists, output, plan, tensor::suppress);
    for (u32 list = 0; list < lists; list++) {
        const u32 begin = list * (most + 1), box_0 = list / classes * count;
        const i64 known = has_lists ? std::min(std::max(before.at<i64>(begin), (i64)0), (i64)most) : 0;
        std::vector<i64> chosen;
        for (u32 n = 0; n < known; n++) chosen.push_back(before.at<i64>(begin + 1 + n));
        for (u32 place = first; place < first + len; place++) {
            const u32 box = nearest(order.at<i64>(list * count + place), count);
            bool wanted = chosen.size() < most && scores.at<float>(list * count + box) > -INFINITY;
            const Edges own = edges_of(boxes, box_0 + box, centred);
            for (i64 other : chosen)
                if (wanted && overlap.at<float>(0) < share(edges_of(boxes, box_0 + nearest(other, count), centred), own)) wanted = false;
            if (wanted) chosen.push_back(box);
        }
        want.set<i64>(begin, (i64)chosen.size());
        for (u32 n = 0; n < most; n++) want.set<i64>(begin + 1 + n, n < chosen.size() ? chosen[n] : 0);
    }
    const u32 wrong = difference(output, want);
    if (clean && wrong == tensor::NOWHERE) return 0;
    printf("suppress: %u lists of %u classes, at most %u of %u boxes, %u from %u on by %u, lists before %u, centred %u: ", lists,
           classes, most, count, len, first, width, has_lists, centred);
    print_wrong(clean, wrong, output, want);
    return 1;
}

int main(int, char **arguments) {
    u32 failed = 0, cases = 2 * (arguments[1] ? atoi(arguments[1]) : 10);
    for (u32 n = 0; n < cases; n++) failed += check();
    printf("suppress: %u of %u failed\n", failed, cases);
    return failed != 0;
}
