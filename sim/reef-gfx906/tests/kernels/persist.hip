#include "device.h"
// persistent blocks: take logical block ids from a device-wide counter, resumable
extern "C" __global__ void persist(const unsigned* flag, unsigned* next, unsigned nblocks, const float* in, float* out, unsigned* done) {
  __shared__ unsigned blk; __shared__ float red[256];
  for (;;) {
    if (threadIdx.x == 0) {
      unsigned s = __hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
      blk = s ? 0xffffffffu : atomicAdd(next, 1u);
    }
    __syncthreads();
    unsigned b = blk;
    if (b >= nblocks) { if (b != 0xffffffffu && threadIdx.x == 0) atomicSub(next, 1u); return; }
    red[threadIdx.x] = in[b*blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned s = blockDim.x/2; s; s >>= 1) { if (threadIdx.x < s) red[threadIdx.x] += red[threadIdx.x+s]; __syncthreads(); }
    if (threadIdx.x == 0) { out[b] = red[0]; __threadfence_system(); atomicAdd(done, 1u); }
    __syncthreads();
  }
}
