// What the tests of the scheduler launch.

#define LOAD(p) __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

// All blocks wait for each other, so all must be resident at once.
extern "C" __global__ void meet(unsigned* arrived, unsigned rounds) {
  for (unsigned round = 1; round <= rounds; ++round) {
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(arrived, 1u);
      while (LOAD(arrived) < round * gridDim.x) __builtin_amdgcn_s_sleep(1);
    }
    __syncthreads();
  }
}

// Turns around `turns` times and counts itself.
extern "C" __global__ void work(unsigned* count, unsigned turns) {
  unsigned value = threadIdx.x;
  for (unsigned i = 0; i < turns; ++i) value = value * 1664525u + 1013904223u;
  if (value != 0x12345u) atomicAdd(count, 1u);
}

// Waits until a word is not 0; only another kernel will set it.
extern "C" __global__ void wait(const unsigned* word) {
  while (LOAD(word) == 0) __builtin_amdgcn_s_sleep(1);
}

extern "C" __global__ void raise(unsigned* word) { atomicAdd(word, 1u); }

// Each block notes which other one came before it.
extern "C" __global__ void order(unsigned* ticket, unsigned* tickets) {
  if (threadIdx.x == 0) tickets[blockIdx.x] = atomicAdd(ticket, 1u);
}
