// Enough of a GPU for one block of a kernel at a time, on the host: its threads are fibers, which change places at barriers
// and where a warp's lanes exchange what they have. Asynchronous copies happen when they are waited for and not before, so
// that a wait that is missing shows. Stands for reef.h, element.h, mma.h and split.h: what is in PTX there is C++ here.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __CUDA_ARCH__ 800
#define REEF_ASYNC 1
#define REEF_AMD 0

struct float2 { float x, y; };
struct uint2 { unsigned x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct char4 { signed char x, y, z, w; };
struct uchar4 { unsigned char x, y, z, w; };
struct Index { unsigned x; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
using std::max;
using std::min;

// --- Threads ---------------------------------------------------------------------------------------------------

struct Pending {
    char *to;
    const char *from;
    size_t bytes;
    bool inside;
    void finish() {
        if (inside)
            memcpy(to, from, bytes);
        else
            memset(to, 0, bytes);
        bytes = 0;
    }
};

struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(128 << 10);
    bool done;
    std::vector<std::vector<Pending>> groups; // of copies; the last one is still open
    std::vector<std::vector<std::function<void()>>> products; // of warpgroups, likewise
    bool unseen; // copies have come that products don't see yet
};

struct Meeting { unsigned arrived = 0, round = 0, kind = 0; };

struct Lanes { uint32_t a[32][4], b[32][2]; };

inline std::vector<Fiber> fibers;
inline unsigned running;
inline ucontext_t host;
inline unsigned steps; // meetings of all, and threads that have ended
inline bool threads_run_backwards;
inline Meeting block_meeting, warp_meetings[32];
inline Lanes warps[32];
inline std::function<void()> entry;
#define threadIdx (Index{running})
#define blockDim (Index{(unsigned)fibers.size()})

inline void others() { swapcontext(&fibers[running].context, &host); }

// All come from the same kind of place.
inline void meet(Meeting &meeting, unsigned threads, unsigned kind = 0) {
    unsigned round = meeting.round;
    if (meeting.arrived > 0 && meeting.kind != kind) fprintf(stderr, "threads meet at different places\n"), abort();
    meeting.kind = kind;
    if (++meeting.arrived == threads)
        meeting.arrived = 0, meeting.round++, steps++;
    else
        while (meeting.round == round) others();
}

inline void __syncthreads() { meet(block_meeting, fibers.size()); }
inline void meet_warp() { meet(warp_meetings[running / 32], 32); }

inline void start() {
    entry();
    fibers[running].done = true;
    steps++;
    others();
}

// Runs `kernel` in so many threads to their end, when nothing may be under way any more.
inline void run_block(unsigned threads, std::function<void()> kernel) {
    entry = kernel;
    if (fibers.size() != threads) fibers = std::vector<Fiber>(threads);
    for (Fiber &fiber : fibers) {
        fiber.done = fiber.unseen = false;
        fiber.groups.assign(1, {}), fiber.products.assign(1, {});
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        makecontext(&fiber.context, start, 0);
    }
    for (bool left = true; left;) {
        const unsigned before = steps;
        left = false;
        for (unsigned n = 0; n < threads; n++) {
            running = threads_run_backwards ? threads - 1 - n : n;
            if (!fibers[running].done) left = true, swapcontext(&host, &fibers[running].context);
        }
        if (left && steps == before) fprintf(stderr, "threads wait for others that don't come\n"), abort();
    }
    for (const Fiber &fiber : fibers) {
        for (const auto &group : fiber.groups)
            if (!group.empty()) fprintf(stderr, "copies are under way at the end\n"), abort();
        for (const auto &group : fiber.products)
            if (!group.empty()) fprintf(stderr, "products are under way at the end\n"), abort();
    }
}

// --- reef.h: the plain build, and a guarded one's look at entry and at `stopped` ----------------------------------

namespace reef {
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
inline u32 block_index;
inline bool block_stops;
// Whether `stopped` is a barrier, at which of its calls, counted from 1, the block stops, and whether it has.
inline bool block_is_guarded, block_has_stopped;
inline u32 stopping_point;
struct Turns {};
enum Line { LINE };
enum Ahead { AHEAD };
inline void wait_for_previous() {}
inline void let_next_start() {}

struct Block {
    u32 index = block_index;
    Block(Turns &, Line) {}
    Block(Turns &, Ahead) {}
    void follow() {}
    void fetch() {}
    bool evicted() { return block_stops; }
    bool arrive() { return true; }
    bool stopped() {
        if (!block_is_guarded) return false;
        meet(block_meeting, fibers.size(), 1);
        if (++points != stopping_point) return false;
        return block_has_stopped = true;
    }
    void poll() {}
    void post() {}
    bool stop() { return false; }

  private:
    u32 points = 0;
};
} // namespace reef

// --- element.h -------------------------------------------------------------------------------------------------

using reef::u16;
using reef::u32;
using reef::u64;

struct Divisor {
    u32 factor, shift;
    u32 operator()(u32 n) const { return (u64)n * factor >> shift; }
};
struct Half { u16 bits; };
inline u32 __float_as_uint(float value) { u32 bits; memcpy(&bits, &value, 4); return bits; }
inline float __uint_as_float(u32 bits) { float value; memcpy(&value, &bits, 4); return value; }
inline int __float2int_rn(float value) { return (int)nearbyintf(value); }
inline u16 half_of(float value) { _Float16 half = (_Float16)value; u16 bits; memcpy(&bits, &half, 2); return bits; }
inline float of_half(u16 bits) { _Float16 half; memcpy(&half, &bits, 2); return (float)half; }
inline float to_float(float value) { return value; }
inline float to_float(Half value) { return of_half(value.bits); }
inline void set(float &to, float value) { to = value; }
inline void set(Half &to, float value) { to.bits = half_of(value); }
inline float4 load4(const float *from) { return {from[0], from[1], from[2], from[3]}; }
struct ushort4 { u16 x, y, z, w; };
inline float4 wide(float4 four) { return four; }
inline float4 wide(ushort4 v) { return {of_half(v.x), of_half(v.y), of_half(v.z), of_half(v.w)}; }
inline float4 load4(const Half *from) { return wide(*(const ushort4 *)from); }
template <class Element> struct FourOf;
template <> struct FourOf<float> { typedef float4 Stored; };
template <> struct FourOf<Half> { typedef ushort4 Stored; };
inline void store4(float *to, float4 v) { to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w; }
inline void store4(Half *to, float4 v) { set(to[0], v.x), set(to[1], v.y), set(to[2], v.z), set(to[3], v.w); }
inline float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
inline float at_least(float value, float low) { return value < low ? low : value; }
inline float relu(float value) { return at_least(value, 0); }
inline float larger(float a, float b) { return b > a || b != b ? b : a; }
inline float at_most(float value, float high) { return value > high ? high : value; }

// --- plan.h, as far as it is in the way of nothing; tensors.h has the whole of it ---------------------------------

#ifndef WHOLE_PLAN
namespace tensor {
const u32 NOWHERE = ~0u;
inline float infinity() { return INFINITY; }
inline u32 offset_in(const u32 *view, u32 i) {
    u32 at = 0;
    for (u32 axes = *view++; axes > 0; axes--, view += 4) {
        u32 rest = Divisor{view[0], view[1]}(i);
        at += (i - rest * view[2]) * view[3];
        i = rest;
    }
    return at;
}
inline u32 offset_in(const u32 *plan, u32 view, u32 i) { return view ? offset_in(plan + view, i) : i; }
} // namespace tensor
#endif

// --- mma.h -----------------------------------------------------------------------------------------------------

#ifndef REEF_SLAB
#define REEF_SLAB 256
#endif
const u32 SLAB = REEF_SLAB, CHUNK = 16, CHUNKS = SLAB / CHUNK;
inline u32 swizzled(u32 row, u32 chunk) { return row * SLAB + (chunk ^ (row & 7)) * CHUNK; }

// Copies come as soon as they are asked for, or not before they are waited for.
inline bool copies_are_early;
inline void copy(char *to, const char *from, size_t bytes, bool inside) {
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes) {
        fprintf(stderr, "a copy of %zu bytes from %p to %p\n", bytes, from, to);
        abort();
    }
    fibers[running].groups.back().push_back({to, from, bytes, inside});
    if (copies_are_early) fibers[running].groups.back().back().finish();
}
typedef char *SharedPlace;
inline SharedPlace shared_place(char *memory) { return memory; }
inline void as_it_is(u32 &) {}
inline void copy_chunk(char *to, const char *from, bool inside) { copy(to, from, 16, inside); }
inline void copy_word(char *to, const char *from, bool inside) { copy(to, from, 4, inside); }
inline void end_copies() { fibers[running].groups.emplace_back(); }
template <int groups> void wait_copies() {
    auto &all = fibers[running].groups;
    for (; all.size() > groups + 1; all.erase(all.begin()))
        for (Pending &copy : all.front()) {
            fibers[running].unseen = true;
            if (copy.bytes > 0) copy.finish();
        }
}

inline float of_bits(u32 bits) { return __uint_as_float(bits); }
inline u32 as_tf32(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    return std::isfinite(value) ? (bits + 0x1000) & ~0x1fffu : bits;
}
template <class Element> float4 as_multiplied(float4 v) {
    if (sizeof(Element) == sizeof(float))
        for (float *x : {&v.x, &v.y, &v.z, &v.w}) *x = of_bits(as_tf32(*x));
    return v;
}
inline float reciprocal(float x) { return 1 / x; }
inline float power_of_two(float x) { return exp2f(x); }
inline u32 as_halves(float low, float high) { return half_of(low) | (u32)half_of(high) << 16; }

// D += A B of a warp, from fragments as the PTX manual has them: `at(lane, word, part)` of A is at row, term.
template <int TERMS, class Sum, class Unpack> void multiply_of_warp(Sum (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, Unpack part) {
    const u32 lane = running % 32, g = lane / 4, t = lane % 4, parts = TERMS / 8;
    Lanes &all = warps[running / 32];
    memcpy(all.a[lane], a, 16), all.b[lane][0] = b0, all.b[lane][1] = b1;
    meet_warp();
    for (u32 n = 0; n < 4; n++) {
        const u32 row = g + n / 2 * 8, column = 2 * t + n % 2;
        for (u32 k = 0; k < TERMS; k++) {
            // Term k is in word k / (TERMS / 2) of lane (k % (TERMS / 2)) / parts, of parts packed into a word.
            u32 upper = k / (TERMS / 2), of = k % (TERMS / 2) / parts, p = k % parts;
            c[n] += part(all.a[row % 8 * 4 + of][upper * 2 + row / 8], p) * part(all.b[column * 4 + of][upper], p);
        }
    }
    meet_warp();
}
struct Tf32 {
    typedef float Element, Sum;
    static float whole(float sum) { return sum; }
    static void round(u32 (&a)[4]) {
        for (u32 &word : a) word = as_tf32(of_bits(word));
    }
    static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        multiply_of_warp<8>(c, a, b0, b1, [](u32 word, u32) { return of_bits(word); });
    }
};
struct RoundedTf32 : Tf32 {
    static void round(u32 (&)[4]) {}
};
struct F16 {
    typedef Half Element;
    typedef float Sum;
    static float whole(float sum) { return sum; }
    static void round(u32 (&)[4]) {}
    static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        multiply_of_warp<16>(c, a, b0, b1, [](u32 word, u32 p) { return of_half((u16)(word >> 16 * p)); });
    }
};
inline void multiply_integers(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    multiply_of_warp<32>(c, a, b0, b1, [](u32 word, u32 p) { return (int)(signed char)(word >> 8 * p); });
}

// Of four matrices of eight rows of 16 bytes, each of which a lane points at, what `of(rows, lane)` gives a lane.
template <class Of> void load_of_warp(u32 (&to)[4], const char *row, Of of) {
    static const char *rows[32][32];
    const u32 lane = running % 32;
    const char *(&all)[32] = rows[running / 32];
    all[lane] = row;
    meet_warp();
    for (u32 n = 0; n < 4; n++) to[n] = of(all + 8 * n, lane);
    meet_warp();
}
// The word lane % 4 of row lane / 4.
inline void load_matrices(u32 (&to)[4], const char *row) {
    load_of_warp(to, row, [](const char **rows, u32 lane) {
        u32 word;
        memcpy(&word, rows[lane / 4] + lane % 4 * 4, 4);
        return word;
    });
}
// Turned: halves of rows 2 * (lane % 4) and the next, of column lane / 4.
inline void load_turned(u32 (&to)[4], const char *row) {
    load_of_warp(to, row, [](const char **rows, u32 lane) {
        u16 halves[2];
        for (u32 k = 0; k < 2; k++) memcpy(&halves[k], rows[lane % 4 * 2 + k] + lane / 4 * 2, 2);
        return halves[0] | (u32)halves[1] << 16;
    });
}

// --- wgmma.h ---------------------------------------------------------------------------------------------------

// Products read both sides when they are asked for, or not before they are waited for.
inline bool products_are_late;
struct Lines { const char *at; };
inline Lines lines_at(const char *place) {
    if ((uintptr_t)place % 1024) fprintf(stderr, "lines at %p\n", place), abort();
    return {place};
}
inline Lines behind(Lines lines, u32 bytes) { return {lines.at + bytes}; }
inline void show_to_products() { fibers[running].unseen = false; }
template <class Sum, int N> void begin_products(Sum (&)[N]) {}
inline void end_products() { fibers[running].products.emplace_back(); }
template <int groups, class Sum, int N> void wait_products(Sum (&)[N]) {
    auto &all = fibers[running].products;
    for (; all.size() > groups + 1; all.erase(all.begin()))
        for (const auto &product : all.front()) product();
}
inline float as_read(Half value) { return to_float(value); }
inline float as_read(float value) { return of_bits(__float_as_uint(value) & ~0x1fffu); } // lower bits are cut off
// The hardware swizzles addresses: chunk by line, each of 128 bytes.
template <class Element> float term_of(Lines lines, u32 line, u32 term) {
    uintptr_t at = (uintptr_t)lines.at + line * 128 + term * sizeof(Element);
    at ^= (at >> 7 & 7) << 4;
    return as_read(*(const Element *)at);
}
template <class Math, int COLUMNS> struct Product {
    static void add(typename Math::Sum (&sums)[COLUMNS / 2], Lines rows, Lines columns) {
        for (const Fiber &fiber : fibers)
            if (fiber.unseen) fprintf(stderr, "copies that products don't see\n"), abort();
        auto product = [&sums, rows, columns, thread = running] {
            typedef typename Math::Element Element;
            const u32 lane = thread % 32, first = thread / 32 % 4 * 16 + lane / 4;
            for (u32 n = 0; n < COLUMNS / 2; n++) {
                const u32 row = first + n / 2 % 2 * 8, column = n / 4 * 8 + lane % 4 * 2 + n % 2;
                for (u32 term = 0; term < 32 / sizeof(Element); term++)
                    sums[n] += term_of<Element>(rows, row, term) * term_of<Element>(columns, column, term);
            }
        };
        if (products_are_late)
            fibers[running].products.back().push_back(product);
        else
            product();
    }
};

// What another lane of the warp has, all of which are here.
template <class T> T __shfl_xor_sync(u32, T value, u32 with) {
    static T values[32][32];
    T (&all)[32] = values[running / 32];
    all[running % 32] = value;
    meet_warp();
    T other = all[running % 32 ^ with];
    meet_warp();
    return other;
}

// --- split.h ---------------------------------------------------------------------------------------------------

inline float4 load_shared(const float *from) { return load4(from); }
inline bool block_is_last;
inline bool comes_last(u32 *arrivals, u32 splits) {
    __syncthreads();
    if (running == 0) {
        block_is_last = ++*arrivals == splits;
        if (block_is_last) *arrivals = 0;
    }
    __syncthreads();
    return block_is_last;
}
