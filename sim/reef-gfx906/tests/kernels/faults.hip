// What must end in an error.

extern "C" __global__ void endless(unsigned* word) {
  while (__hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {}
}

extern "C" __global__ void sleeper(unsigned* word) {
  while (__hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0)
    __builtin_amdgcn_s_sleep(1);
}

extern "C" __global__ void store(unsigned* word, unsigned value) {
  if (threadIdx.x == 0) *word = value;
}

extern "C" __global__ void trap() { __builtin_trap(); }
