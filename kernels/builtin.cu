// Kernels that every device has: the one of the conformance suite, REEF's toy network, and what
// queues are made of.

#include "reef.h"

using reef::u32;
using reef::u64;
using reef::u8;

#if REEF_AMD
// 25 MHz on gfx906, whatever clock the units have; on others what the board gives. The host finds out.
__device__ static long long ticks() { return __builtin_amdgcn_s_memrealtime(); }
__device__ static u64 device_time() { return ticks(); }
#define MICROSECOND 25
#else
__device__ static long long ticks() { return clock64(); }
// In nanoseconds.
__device__ static u64 device_time() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#define MICROSECOND 1400
#endif

// Sets a word of the host's to the time in ticks of the device's clock.
__device__ static void note_time(void *word) { *(volatile u64 *)word = device_time(); }

// Notes when a launch of the plain build began and ended, if its guard, which stops nothing there, names words of the
// host's for that: `Guard::noting` in guard.rs. So a real-time kernel needs no launch in front of it and none behind.
class Noted {
#if REEF_GUARDED
  public:
    __device__ explicit Noted(const reef::Guard &) {}
#else
  public:
    __device__ explicit Noted(const reef::Guard &g) : guard(g) {
        if (guard.live && reef::linear_block() == 0 && reef::is_first_thread())
            note_time((void *)guard.live);
    }

    // Only launches of one block are asked for their end: the host then sees all that its threads wrote.
    __device__ ~Noted() {
        if (!guard.stopped) return;
        __threadfence_system();
        __syncthreads();
        if (reef::is_first_thread()) note_time(guard.stopped);
    }

  private:
    const reef::Guard &guard;
#endif
};

// About a microsecond.
__device__ static void rest() {
    long long start = ticks();
    while (ticks() - start < MICROSECOND) {
    }
}

// Microseconds between preemption points: a preemption point costs about 0.17.
const u64 POLL_EVERY = 16;

// cell[i] = cell[i] * 3 + value, after `rounds` microseconds in which the block may be stopped.
__device__ __forceinline__ void append_turn(reef::Turns &turns, u64 *cells, u64 value, u64 rounds) {
    REEF_CLAIM_TURN(block, turns);
    // Blocks that began together look one after the other, so that some place is free at once.
    u64 end = block.index % POLL_EVERY + 1;
    for (u64 round = 0; round < rounds; end += POLL_EVERY) {
        block.poll();
        for (; round < min(end, rounds); round++) rest();
        block.post();
        __syncthreads();
        if (block.stop()) return;
    }
    if (reef::is_first_thread()) cells[block.index] = cells[block.index] * 3 + value;
}

extern "C" __global__ void append(reef::Guard guard, u64 *cells, u64 value, u64 rounds) {
    Noted noted(guard);
    REEF_EACH(turns, guard) append_turn(turns, cells, value, rounds);
}

// REEF's toy network; its blocks are of 4 x 8 x 4 threads.
const u32 TOY_THREADS = 128;

__device__ __forceinline__ void add_turn(reef::Turns &turns, const float *b, const float *a,
                                         float *temp) {
    REEF_CLAIM_TURN(block, turns);
    u32 t = reef::linear_thread(), i = block.index * TOY_THREADS + t;
    temp[i] = b[t] + a[i];
}

extern "C" __global__ void add(reef::Guard guard, const float *b, const float *a, float *temp) {
    Noted noted(guard);
    REEF_EACH(turns, guard) add_turn(turns, b, a, temp);
}

__device__ __forceinline__ void multiply_turn(reef::Turns &turns, const float *temp,
                                              const float *c, float *out) {
    REEF_CLAIM_TURN(block, turns);
    u32 t = reef::linear_thread(), i = block.index * TOY_THREADS + t;
    out[i] = temp[t] * c[i];
}

extern "C" __global__ void multiply(reef::Guard guard, const float *temp, const float *c, float *out) {
    Noted noted(guard);
    REEF_EACH(turns, guard) multiply_turn(turns, temp, c, out);
}

// Copies `bytes` bytes, `chunk` (a multiple of 16) by each block.
__device__ __forceinline__ void copy_turn(reef::Turns &turns, const u8 *from, u8 *to, u64 bytes,
                                          u64 chunk) {
    REEF_CLAIM_TURN(block, turns);
    u64 begin = block.index * chunk, end = min(begin + chunk, bytes);
    u64 whole = begin;
    if ((((u64)from | (u64)to) & 15) == 0) {
        whole = begin + ((end - begin) & ~15ull);
        for (u64 at = begin + threadIdx.x * 16; at < whole; at += blockDim.x * 16)
            *(uint4 *)(to + at) = *(const uint4 *)(from + at);
    }
    for (u64 at = whole + threadIdx.x; at < end; at += blockDim.x) to[at] = from[at];
}

extern "C" __global__ void copy(reef::Guard guard, const u8 *from, u8 *to, u64 bytes, u64 chunk) {
    Noted noted(guard);
    REEF_EACH(turns, guard) copy_turn(turns, from, to, bytes, chunk);
}

// Sets `words` words to `value`, `chunk` by each block.
__device__ __forceinline__ void fill_turn(reef::Turns &turns, u32 *to, u64 words, u64 value,
                                          u64 chunk) {
    REEF_CLAIM_TURN(block, turns);
    u64 begin = block.index * chunk, end = min(begin + chunk, words);
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) to[at] = (u32)value;
}

extern "C" __global__ void fill(reef::Guard guard, u32 *to, u64 words, u64 value, u64 chunk) {
    Noted noted(guard);
    REEF_EACH(turns, guard) fill_turn(turns, to, words, value, chunk);
}

// Notes the time, then, if it is asked to, that all before it has ended. Both words are the host's.
extern "C" __global__ void stamp(u64 *time, u32 *done, u64 position) {
    note_time(time);
    __threadfence_system();
    if (done) *(volatile u32 *)done = (u32)position;
}

// Sets one word, for drivers without stream memory operations.
extern "C" __global__ void store(u32 *word, u64 value) {
    *(volatile u32 *)word = (u32)value;
    __threadfence_system();
}

// Tells the host how many blocks of each launch have stopped, and clears the counts. One block.
extern "C" __global__ void report(u32 *stopped, u32 *host, u64 count, u32 *done, u64 turn) {
    for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
        *(volatile u32 *)(host + i) = stopped[i];
        stopped[i] = 0;
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) *(volatile u32 *)done = (u32)turn;
}
