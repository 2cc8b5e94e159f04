// Each tile of wgmma.h with each number of parts, for one kind of elements.

#include "study.h"
#include "wgmma.h"

namespace {

typedef CUresult (*EncodeTiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                                const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
typedef CUresult (*EncodeIm2col)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                                 const int *, const int *, cuuint32_t, cuuint32_t, const cuuint32_t *, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

template <class F> F driver(const char *name) {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CALL(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    return (F)function;
}

const auto PROMOTED = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;

CUtensorMapDataType type(const Work &w) { return w.halves ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32; }

CUtensorMap matrix(const Work &w, const char *data, int lines, int pitch, int box) {
    static EncodeTiled encode = driver<EncodeTiled>("cuTensorMapEncodeTiled");
    CUtensorMap map;
    const cuuint64_t sizes[2] = {(cuuint64_t)pitch, (cuuint64_t)lines}, strides[1] = {(cuuint64_t)pitch * w.element};
    const cuuint32_t boxes[2] = {128u / w.element, (cuuint32_t)box}, ones[2] = {1, 1};
    const CUresult code = encode(&map, type(w), 2, (void *)data, sizes, strides, boxes, ones,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, PROMOTED,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", code), exit(1);
    return map;
}

CUtensorMap picture(const Work &w, int box) {
    static EncodeIm2col encode = driver<EncodeIm2col>("cuTensorMapEncodeIm2col");
    CUtensorMap map;
    const cuuint64_t c = w.shape.channels, side = w.shape.side, e = w.element;
    const cuuint64_t sizes[4] = {c, side, side, 1}, strides[3] = {c * e, side * c * e, side * side * c * e};
    const int lower[2] = {-1, -1}, upper[2] = {-1, -1};
    const cuuint32_t ones[4] = {1, 1, 1, 1};
    const CUresult code = encode(&map, type(w), 4, w.activations, sizes, strides, lower, upper, 128u / w.element, box,
                                 ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, PROMOTED,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) fprintf(stderr, "cuTensorMapEncodeIm2col: %d\n", code), exit(1);
    return map;
}

template <class Math, int X, int Y, int DEPTH, bool PICTURES, bool SWAPPED> void take(const Work &w, Found &best) {
    typedef hopper::Tile<Math, X, Y, DEPTH, PICTURES, SWAPPED> Tile;
    const Shape &s = w.shape;
    if (s.columns % Tile::COLUMNS || PICTURES != (s.side != 0)) return;
    const void *kernel = (const void *)hopper::run<Tile>;
    CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::SHARED));
    const int tiles_down = (s.rows + Tile::ROWS - 1) / Tile::ROWS, tiles_across = s.columns / Tile::COLUMNS;
    const int slabs = (s.side ? 9 * s.channels : s.terms) * w.element / 128, tiles = tiles_down * tiles_across;
    std::vector<CUtensorMap> weights;
    for (int copy = 0; copy < w.copies; copy++)
        weights.push_back(matrix(w, w.weights_of(copy), s.columns, w.pitch, Tile::COLUMNS));
    const CUtensorMap activations = PICTURES ? picture(w, Tile::ROWS) : matrix(w, w.activations, s.rows, s.terms, Tile::ROWS);
    hopper::Job job = {};
    job.bias = w.bias, job.output = w.output, job.partials = w.partials, job.arrivals = w.arrivals;
    job.rows = s.rows, job.columns = s.columns, job.tiles_x = SWAPPED ? tiles_across : tiles_down;
    job.slabs = slabs, job.act = s.act;
    job.tap_slabs = s.side ? s.channels * w.element / 128 : 1, job.window = s.window(), job.line = s.side;
    for (unsigned splits : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16})
        for (unsigned sum : {hopper::WHOLE, hopper::BY_LAST, hopper::BY_CLUSTER}) {
            if ((splits == 1) != (sum == hopper::WHOLE)) continue;
            if (splits > 1 && (splits * tiles > 2 * 132 || (int)splits * 2 > slabs)) continue;
            if (sum == hopper::BY_CLUSTER && splits > 8) continue;
            if (sum == hopper::BY_LAST && 16.0 * splits * tiles * Tile::ALL > PARTIALS) continue;
            for (unsigned late : {0, 1}) {
                job.splits = splits, job.sum = sum, job.late = late;
                auto launch = [&](int copy, cudaStream_t stream) {
                    (SWAPPED ? job.x : job.y) = weights[copy % w.copies];
                    (SWAPPED ? job.y : job.x) = activations;
                    void *params[1] = {&job};
                    const unsigned cluster = sum == hopper::BY_CLUSTER ? splits : 1;
                    return launch_early(kernel, tiles * splits, Tile::THREADS, Tile::SHARED, cluster, params, stream) == cudaSuccess;
                };
                const double micros = time_chain(w, launch);
                if (micros < 0) continue;
                launch(0, 0);
                char how[96];
                snprintf(how, sizeof how, "%dx%d%s *%d /%u%s%s", Tile::ROWS, Tile::COLUMNS, SWAPPED ? " swapped" : "", DEPTH, splits,
                         sum == hopper::BY_CLUSTER ? " cluster" : sum == hopper::BY_LAST ? " last" : "", late ? " late" : "");
                record(w, "wgmma", how, micros, difference(w));
                if (micros < best.micros) best = {how, micros};
            }
        }
}

template <class Math> Found fastest(const Work &w) {
    Found best = {"", 1e30};
    // Two blocks of a multiprocessor, or one with as much as it has under way.
    take<Math, 64, 64, 6, false, false>(w, best);
    take<Math, 64, 64, 12, false, false>(w, best);
    take<Math, 128, 64, 4, false, false>(w, best);
    take<Math, 128, 64, 8, false, false>(w, best);
    take<Math, 64, 128, 4, false, false>(w, best);
    take<Math, 64, 128, 8, false, false>(w, best);
    take<Math, 128, 128, 6, false, false>(w, best);
    take<Math, 64, 96, 5, false, false>(w, best);
    take<Math, 64, 96, 10, false, false>(w, best);
    take<Math, 128, 96, 7, false, false>(w, best);
    take<Math, 64, 32, 8, false, true>(w, best);
    take<Math, 64, 64, 6, false, true>(w, best);
    take<Math, 64, 40, 8, false, true>(w, best);
    take<Math, 128, 40, 5, false, true>(w, best);
    take<Math, 128, 40, 10, false, true>(w, best);
    take<Math, 128, 32, 5, false, true>(w, best);
    take<Math, 64, 56, 7, false, true>(w, best);
    take<Math, 128, 56, 4, false, true>(w, best);
    take<Math, 128, 56, 9, false, true>(w, best);
    take<Math, 64, 72, 6, false, true>(w, best);
    take<Math, 128, 72, 4, false, true>(w, best);
    take<Math, 64, 104, 5, false, true>(w, best);
    take<Math, 64, 104, 10, false, true>(w, best);
    take<Math, 128, 104, 3, false, true>(w, best);
    take<Math, 128, 104, 7, false, true>(w, best);
    take<Math, 64, 128, 4, false, true>(w, best);
    take<Math, 64, 200, 3, false, true>(w, best);
    take<Math, 64, 200, 6, false, true>(w, best);
    take<Math, 128, 200, 5, false, true>(w, best);
    take<Math, 64, 64, 6, true, false>(w, best);
    take<Math, 64, 128, 4, true, false>(w, best);
    take<Math, 64, 256, 5, true, false>(w, best);
    take<Math, 128, 64, 3, true, false>(w, best);
    take<Math, 128, 64, 4, true, false>(w, best);
    take<Math, 192, 64, 6, true, false>(w, best);
    take<Math, 128, 128, 3, true, false>(w, best);
    take<Math, 128, 128, 6, true, false>(w, best);
    take<Math, 128, 256, 4, true, false>(w, best);
    take<Math, 192, 128, 5, true, false>(w, best);
    take<Math, 256, 128, 4, true, false>(w, best);
    take<Math, 64, 56, 7, true, true>(w, best);
    take<Math, 64, 104, 5, true, true>(w, best);
    take<Math, 128, 104, 3, true, true>(w, best);
    take<Math, 64, 200, 3, true, true>(w, best);
    take<Math, 128, 200, 5, true, true>(w, best);
    return best;
}

} // namespace
