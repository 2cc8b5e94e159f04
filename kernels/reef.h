// What makes a kernel preemptible: its blocks can be stopped before they take effect, and what was
// stopped runs later, so that each block takes effect exactly once. README.md next to this file says
// what a kernel must and must not do.
//
// Every kernel is compiled twice: with REEF_GUARDED=1 for best-effort work, and with 0 for work that
// nobody stops, where all of this is empty. Both builds have the same parameters.

#pragma once

#ifndef REEF_GUARDED
#define REEF_GUARDED 1
#endif

// Whether blocks take turns where the grid of a launch is smaller than the kernel's, in a build of its own: it takes
// registers that launches at full width need for more blocks.
#ifndef REEF_TURNS
#define REEF_TURNS 0
#endif

// Whether this is compiled for AMD's GPUs. All that differs in the kernels hangs on it.
#ifdef __HIP__
#define REEF_AMD 1
#else
#define REEF_AMD 0
#endif

// hiprtc has HIP's headers built in; hipcc has them next to clang's wrapper; clang alone has none.
#if REEF_AMD && !defined(__HIPCC_RTC__)
#ifdef __CLANG_HIP_RUNTIME_WRAPPER_H__
#include <hip/hip_runtime.h>
#else
#include "amd.h"
#endif
#endif

// Claims the block, or returns if it was evicted. Every thread must come here, before any barrier.
#define REEF_CLAIM(block, guard)          \
    reef::Turns block##_turns(guard);     \
    REEF_CLAIM_TURN(block, block##_turns)

// The same in the body of a kernel whose blocks take turns.
#define REEF_CLAIM_TURN(block, turns) \
    reef::Block block(turns);         \
    if (!block.claim()) return

// Runs what follows, a call that is inlined, once for each block that this one stands for: a narrow launch has
// fewer blocks than the kernel, and each runs several, one after the other.
#define REEF_EACH(turns, guard) for (reef::Turns turns(guard); turns.left(); turns.next())

// Returns if the block shall stop. Every thread must come here; nothing may have been written before
// that others can see. The last of these is the commit point.
#define REEF_PREEMPTION_POINT(block) \
    if (block.stopped()) return

namespace reef {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Of one launch; the first parameter of every preemptible kernel. Laid out as `Guard` in guard.rs.
struct Guard {
    const u32 *live;       // lowest epoch that may run, a word of the device, alone in its line
    const u32 *epoch_word; // the launch's epoch if it stands in a word (graphs), else null
    u32 *stopped;          // how many blocks have stopped
    u32 *list_out;         // which, in any order
    const u32 *list_in;    // blocks of this launch, or null: `first`, `first + 1` ...
    u32 first;
    u32 epoch;
    u32 grid[3];           // of the kernel as a whole, whatever this launch has left of it
    u32 may_stop;          // whether running blocks stop, or only those that have not started
    u32 count;             // blocks of this launch, whatever its grid
    u32 stride;            // the grid of this launch
};

// An entry of a list: which block, and in the two highest bits how often it was stopped midway.
const u32 STOPS_SHIFT = 30;
const u32 INDEX_MASK = (1u << STOPS_SHIFT) - 1;
// A block that was stopped this often runs through the next time, however often others come first.
const u32 PATIENCE = 2;

__device__ inline bool is_first_thread() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

__device__ inline u32 linear_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

__device__ inline u32 linear_block() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

// A word as the device's memory has it now, whoever writes it: never from the cache of one unit.
__device__ inline u32 fresh(const u32 *word) {
#if REEF_AMD
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
    return *(volatile const u32 *)word;
#endif
}

// A word in shared memory that threads pass each other across a barrier. On AMD the barrier is known to
// the compiler as a fence, and a volatile word would be reached by way of the global loads' queue.
#if REEF_AMD
typedef u32 SharedWord;
#else
typedef volatile u32 SharedWord;
#endif

// Programmatic dependent launch, from sm_90 on (PTX manual, `griddepcontrol`): a launch of a graph may start while the one
// before it runs. It waits by itself for the end of that, and then can read all that it wrote. In launches that start in turn
// neither does anything.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A block of either build.
class Follows {
  public:
    // Waits for the launch before this one, if it started early. All threads come here before they read what others wrote.
    // Then the next launch may start: no earlier, or launches that only wait would take the places of best-effort work.
    __device__ void follow() {
        wait_for_previous();
        let_next_start();
    }
};

// Says that a grid and its blocks have one dimension.
enum Line { LINE };
// The same, and that the block calls `follow`, or what it consists of, before it reads what others wrote and before it writes.
enum Ahead { AHEAD };

#if REEF_GUARDED

// The blocks of a launch that one block of its grid runs: the one of its own place, and each `stride`th from
// there on. Kernels without REEF_EACH run the first, and are launched with a grid of all of them.
class Turns {
  public:
    // The grid of a guarded launch is a line, whatever the kernel's.
    __device__ explicit Turns(const Guard &g) : guard(g), place(blockIdx.x), more(true) {}

    __device__ bool left() const { return more; }

    // Goes on to the next, whose shared memory is the same: behind a barrier.
    __device__ void next() {
#if REEF_TURNS
        place += guard.stride;
        more = more && place < guard.count;
        if (more) __syncthreads();
#else
        more = false;
#endif
    }

  private:
    friend class Block;
    const Guard &guard;
    u32 place;
    bool more;

    __device__ u32 entry(u32 at) const {
        return guard.list_in ? guard.list_in[at] : guard.first + at;
    }

    // Gives this block back, and all behind it, which have not begun. One thread.
    __device__ __forceinline__ void give_back(u32 again) {
        u32 behind = REEF_TURNS ? (guard.count - 1 - place) / guard.stride : 0;
        u32 to = atomicAdd(guard.stopped, 1 + behind);
        guard.list_out[to] = again;
        for (u32 at = place; behind > 0; behind--)
            guard.list_out[++to] = entry(at += guard.stride);
    }
};

// A claimed block. Loads of the flag are `fresh`: within a kernel that starts after another ended, a
// block then never runs if one of the other's has been stopped.
class Block : public Follows {
  public:
    u32 index; // which block of the kernel this is; never blockIdx
    u32 x, y, z;

    // Issues the first preemption point at the flag; its answer is taken in `claim` or by the first `post`.
    __device__ explicit Block(Turns &t) : Block(t, is_first_thread()) {
        x = index % guard.grid[0];
        y = index / guard.grid[0] % guard.grid[1];
        z = index / guard.grid[0] / guard.grid[1];
        follow();
        if (first && guard.epoch_word) epoch = fresh(guard.epoch_word);
        poll();
    }

    // For short kernels whose grid and blocks have one dimension. They look once, by `fetch`.
    __device__ Block(Turns &t, Line) : Block(t, AHEAD) { follow(); }
    __device__ Block(Turns &t, Ahead) : Block(t, threadIdx.x == 0) { x = index; }

    // Issues the first preemption point as an asynchronous copy, which the compiler can't move to where somebody
    // waits for it. Its verdict is `arrive`, or `evicted` behind a wait for the copies issued so far
    // (it belongs to the next group of cp.async) and a barrier.
    __device__ __forceinline__ void fetch() {
        if (first) copy_words();
    }

    // Waits for all asynchronous copies. `false`: return.
    __device__ __forceinline__ bool arrive() {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_all;" ::: "memory");
#endif
        __syncthreads();
        return !evicted();
    }

    // Gives the block back if the first preemption point says so.
    __device__ __forceinline__ bool evicted() {
        const SharedWord *words = copies();
        if (guard.epoch_word) epoch = words[EPOCH];
        return leave((int)(epoch - words[LIVE]) < 0);
    }

    // Takes the verdict at entry, with a barrier. `false`: return.
    __device__ bool claim() {
        post();
        __syncthreads();
        return !stop();
    }

    // Looks and takes the verdict at once, with a barrier. `true`: return.
    __device__ bool stopped() {
        poll();
        post();
        __syncthreads();
        return stop();
    }

    // The three below are `stopped` in parts, for loops that have a barrier anyway and can look one
    // round ahead, so that nobody waits for the load: look ... post, barrier, stop.

    // Issues the load.
    __device__ void poll() {
        if (first) seen = fresh(guard.live);
    }

    // Writes down what was seen. Between this and `stop` there must be one barrier.
    __device__ void post() {
        turn ^= 1;
        if (first) verdicts()[turn] = (int)(epoch - seen) < 0 && may_stop();
    }

    // Gives the block back if it shall stop.
    __device__ bool stop() { return leave(verdicts()[turn]); }

  private:
    Turns &turns;
    const Guard &guard;
    bool first, entering;
    u32 turn, seen, epoch, stops;

    __device__ Block(Turns &t, bool first_thread)
        : x(0), y(0), z(0), turns(t), guard(t.guard), first(first_thread), entering(true), turn(0),
          seen(0), epoch(t.guard.epoch) {
        u32 entry = t.entry(t.place);
        index = entry & INDEX_MASK;
        stops = entry >> STOPS_SHIFT;
    }

    static const u32 LIVE = 0, EPOCH = 4; // places of the words among their copies

    // The live word through the second-level cache, with what else is in its line; the epoch was
    // written before the kernel started, so any cache will do.
    __device__ void copy_words() const {
        u32 *to = copies();
#if __CUDA_ARCH__ >= 800
        u32 address = (u32)__cvta_generic_to_shared(to);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(guard.live)
                     : "memory");
        if (guard.epoch_word)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address + 4 * EPOCH),
                         "l"(guard.epoch_word)
                         : "memory");
#else
        to[LIVE] = fresh(guard.live);
        if (guard.epoch_word) to[EPOCH] = *guard.epoch_word;
#endif
    }

    __device__ static u32 *copies() {
        __shared__ __align__(16) u32 words[8];
        return words;
    }

    // Two in turn, so that one barrier a round is enough.
    __device__ static SharedWord *verdicts() {
        __shared__ u32 words[2];
        return words;
    }

    __device__ bool may_stop() const { return entering || (guard.may_stop && stops < PATIENCE); }

    // Gives the block back, with those that would have had their turns after it, if it stops. All threads know.
    __device__ __forceinline__ bool leave(bool stops_now) {
        if (stops_now && first) turns.give_back(index | (entering ? stops : stops + 1) << STOPS_SHIFT);
        turns.more = turns.more && !stops_now;
        entering = false;
        return stops_now;
    }
};

#else

class Turns {
  public:
    __device__ explicit Turns(const Guard &) : more(true) {}
    __device__ bool left() const { return more; }
    __device__ void next() { more = false; }

  private:
    bool more;
};

class Block : public Follows {
  public:
    u32 index, x, y, z;

    __device__ explicit Block(Turns &t) : Block(t, AHEAD) { follow(); }
    __device__ Block(Turns &t, Line) : Block(t) {}
    __device__ Block(Turns &, Ahead)
        : index(linear_block()), x(blockIdx.x), y(blockIdx.y), z(blockIdx.z) {}

    __device__ void fetch() {}
    __device__ bool arrive() { return true; }
    __device__ bool evicted() { return false; }
    __device__ bool claim() { return true; }
    __device__ bool stopped() { return false; }
    __device__ void poll() {}
    __device__ void post() {}
    __device__ bool stop() { return false; }
};

#endif

} // namespace reef
