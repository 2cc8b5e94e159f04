#include "device.h"
// polls a preempt flag in host (fine-grained, pinned) memory; exits early when it is set
extern "C" __global__ void poll(const unsigned* flag, unsigned long long* progress, unsigned max_iters) {
  __shared__ unsigned stop;
  unsigned long long it = 0;
  for (; it < max_iters; ++it) {
    if (threadIdx.x == 0) stop = __hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
    __syncthreads();
    unsigned s = stop;
    __syncthreads();
    if (s) break;
    __builtin_amdgcn_s_sleep(1);
  }
  if (threadIdx.x == 0) progress[blockIdx.x] = it;
}
