// What makes a kernel preemptible: its blocks can be stopped before they take effect, and what was
// stopped runs later, so that each block takes effect exactly once. README.md beside this file says
// what a kernel must and must not do.
//
// Every kernel is compiled twice: with REEF_GUARDED=1 for best-effort work, and with 0 for work that
// nobody stops, where all of this is empty. Both builds have the same parameters.

#pragma once

#ifndef REEF_GUARDED
#define REEF_GUARDED 1
#endif

// Claims the block, or returns if it was evicted. Every thread must come here, before any barrier.
#define REEF_CLAIM(block, guard)    \
    reef::Block block(guard);       \
    if (!block.claim()) return

// Returns if the block shall stop. Every thread must come here; nothing may have been written before
// that others can see. The last of these is the commit point.
#define REEF_LOOK(block) \
    if (block.stopped()) return

namespace reef {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Of one launch; the first parameter of every preemptible kernel. Laid out as `Guard` in guard.rs.
struct Guard {
    const u32 *live;       // lowest epoch that may run, a word of the device
    const u32 *epoch_word; // the launch's epoch if it stands in a word (graphs), else null
    u32 *stopped;          // how many blocks have stopped
    u32 *list_out;         // which, in any order
    const u32 *list_in;    // blocks of this launch, or null: `first`, `first + 1` ...
    u32 first;
    u32 epoch;
    u32 grid[3];           // of the kernel as a whole, whatever this launch has left of it
    u32 may_stop;          // whether running blocks stop, or only those that have not started
};

// An entry of a list: which block, and in the two highest bits how often it was stopped midway.
const u32 STOPS_SHIFT = 30;
const u32 INDEX_MASK = (1u << STOPS_SHIFT) - 1;
// A block that was stopped this often runs through the next time, however often others come first.
const u32 PATIENCE = 2;

__device__ inline bool is_first_thread() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

__device__ inline u32 linear_block() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

#if REEF_GUARDED

// A claimed block. Loads are volatile so that they reach the device's memory: within a kernel that
// starts after another ended, a block then never runs if one of the other's has been stopped.
class Block {
  public:
    u32 index; // which block of the kernel this is; never blockIdx
    u32 x, y, z;

    // Issues the first look at the flag; its answer is taken in `claim` or by the first `post`.
    __device__ explicit Block(const Guard &g) : guard(g), entering(true), turn(0), seen(0), epoch(0) {
        u32 entry = g.first + linear_block();
        if (g.list_in) entry = g.list_in[linear_block()];
        index = entry & INDEX_MASK;
        stops = entry >> STOPS_SHIFT;
        x = index % g.grid[0];
        y = index / g.grid[0] % g.grid[1];
        z = index / g.grid[0] / g.grid[1];
        if (is_first_thread()) epoch = g.epoch_word ? *(volatile const u32 *)g.epoch_word : g.epoch;
        look();
    }

    // Takes the verdict at entry, with a barrier. `false`: return.
    __device__ bool claim() {
        post();
        __syncthreads();
        return !stop();
    }

    // Looks and takes the verdict at once, with a barrier. `true`: return.
    __device__ bool stopped() {
        look();
        post();
        __syncthreads();
        return stop();
    }

    // The three below are `stopped` in parts, for loops that have a barrier anyway and can look one
    // round ahead, so that nobody waits for the load: look ... post, barrier, stop.

    // Issues the load.
    __device__ void look() {
        if (is_first_thread()) seen = *(volatile const u32 *)guard.live;
    }

    // Writes down what was seen. Between this and `stop` there must be one barrier.
    __device__ void post() {
        turn ^= 1;
        if (is_first_thread()) verdicts()[turn] = (int)(epoch - seen) < 0 && may_stop();
    }

    // Gives the block back if it shall stop.
    __device__ bool stop() {
        bool stops_now = verdicts()[turn];
        if (stops_now && is_first_thread()) give_back();
        entering = false;
        return stops_now;
    }

  private:
    const Guard &guard;
    bool entering;
    u32 turn, seen, epoch, stops;

    // Two in turn, so that one barrier a round is enough.
    __device__ static volatile u32 *verdicts() {
        __shared__ u32 words[2];
        return words;
    }

    __device__ bool may_stop() const { return entering || (guard.may_stop && stops < PATIENCE); }

    __device__ void give_back() {
        u32 again = entering ? stops : stops + 1;
        guard.list_out[atomicAdd(guard.stopped, 1)] = index | again << STOPS_SHIFT;
    }
};

#else

class Block {
  public:
    u32 index, x, y, z;

    __device__ explicit Block(const Guard &)
        : index(linear_block()), x(blockIdx.x), y(blockIdx.y), z(blockIdx.z) {}
    __device__ bool claim() { return true; }
    __device__ bool stopped() { return false; }
    __device__ void look() {}
    __device__ void post() {}
    __device__ bool stop() { return false; }
};

#endif

} // namespace reef
