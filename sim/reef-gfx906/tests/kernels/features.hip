#include "device.h"
// What compilers make of the language: each kernel has one feature, and the test computes the same.
typedef _Float16 half;
typedef half half2 __attribute__((ext_vector_type(2)));
typedef unsigned long long u64;

extern "C" __global__ void divide(float* q, const float* a, const float* b, double* dq, const double* da, const double* db) {
  int i = threadIdx.x;
  q[i] = a[i] / b[i];
  q[i + 64] = __builtin_sqrtf(a[i]);
  dq[i] = da[i] / db[i];
  dq[i + 64] = __builtin_sqrt(da[i]);
}

extern "C" __global__ void integers(u64* out, const u64* a, const u64* b) {
  int i = threadIdx.x;
  u64 x = a[i], y = b[i];
  out[i] = x / y;
  out[i + 64] = x % y;
  out[i + 128] = (u64)((long long)x / (long long)y);
  out[i + 192] = (u64)((unsigned)x / (unsigned)y) << 32 | (unsigned)((int)x % (int)y);
  out[i + 256] = x << (y & 63) ^ x >> (y & 31) ^ (u64)((long long)x >> (y & 63));
  out[i + 320] = __builtin_popcountll(x) + __builtin_clzll(x | 1) * 100 + __builtin_ctzll(y | 1ull << 63) * 10000;
}

// Private arrays that don't fit in registers, and one that does but is indexed.
extern "C" __global__ void arrays(int* out, const int* index, int n) {
  int i = threadIdx.x, a[64], v[6];
  for (int k = 0; k < 64; k++) a[k] = k * index[k];
  for (int k = 0; k < 6; k++) v[k] = index[k];
  int sum = i;
  for (int k = 0; k < n; k++) {
    a[(index[k] + i) & 63] += sum;
    v[(unsigned)(index[k] + k) % 6] ^= sum;
    sum += a[(sum ^ index[k]) & 63] + v[(unsigned)k % 6];
  }
  out[i] = sum;
}

__attribute__((noinline)) static __device__ void bump(int* p, int by) { *p += by; }

// A pointer that may be to shared, private or global memory.
extern "C" __global__ void generic(int* out, int which) {
  __shared__ int shared[64];
  int i = threadIdx.x, local[8];
  for (int k = 0; k < 8; k++) local[k] = k * 3;
  shared[i] = i;
  __syncthreads();
  int* volatile choice = which == 0 ? &shared[i] : which == 1 ? &local[i & 7] : &out[64 + i];
  int* p = choice;
  *p += 5;
  bump(p, 7);
  __syncthreads();
  out[i] = shared[63 - i] + local[i & 7] * 1000;
}

extern "C" __global__ void atomics(unsigned* u, u64* l, float* f) {
  __shared__ unsigned count;
  __shared__ float sum;
  if (threadIdx.x == 0) count = 0, sum = 0;
  __syncthreads();
  unsigned ticket = __hip_atomic_fetch_add(&count, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __hip_atomic_fetch_add(&sum, 0.5f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __hip_atomic_fetch_max(&u[0], ticket, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM);
  __hip_atomic_fetch_xor(&u[1], 1u << (threadIdx.x & 31), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  u64 before = __hip_atomic_fetch_add(&l[0], 1ull << 33, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_or(&l[1 + (before >> 39)], 1ull << (before >> 33 & 63), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_add(f, 0.25f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  unsigned expected = 0;
  if (__hip_atomic_compare_exchange_strong(&u[2], &expected, threadIdx.x + 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM)) u[3] = threadIdx.x + 1;
  __syncthreads();
  if (threadIdx.x == 0) u[4] = count, f[1] = sum;
}

// Sums over a wave, by permutations and by row operations; ballots and broadcasts.
extern "C" __global__ void lanes(int* out, const int* in) {
  int i = threadIdx.x, x = in[i], sum = x;
  for (int k = 1; k < 64; k <<= 1) sum += __builtin_amdgcn_ds_bpermute((i ^ k) << 2, sum);
  out[i] = sum;
  int prefix = x;
  prefix += __builtin_amdgcn_update_dpp(0, prefix, 0x111, 15, 15, false);
  prefix += __builtin_amdgcn_update_dpp(0, prefix, 0x112, 15, 15, false);
  prefix += __builtin_amdgcn_update_dpp(0, prefix, 0x114, 15, 15, false);
  prefix += __builtin_amdgcn_update_dpp(0, prefix, 0x118, 15, 15, false);
  prefix += __builtin_amdgcn_update_dpp(0, prefix, 0x142, 10, 15, false);
  prefix += __builtin_amdgcn_update_dpp(0, prefix, 0x143, 12, 15, false);
  out[i + 64] = prefix;
  out[i + 128] = __builtin_popcountll(__builtin_amdgcn_uicmp(x, 100, 36)) + __builtin_amdgcn_readlane(x, 17) + __builtin_amdgcn_readfirstlane(x);
  out[i + 192] = __builtin_amdgcn_ds_swizzle(x, 0x041f);
}

extern "C" __global__ void halves(half2* out, const half2* a, const half2* b, float* f, const half* h) {
  int i = threadIdx.x;
  out[i] = a[i] * b[i] + a[i];
  out[i + 64] = __builtin_elementwise_max(a[i], b[i]) - b[i];
  f[i] = (float)h[i] * (float)h[i + 64] + f[i];
  ((half*)(out + 128))[i] = (half)f[i];
}
