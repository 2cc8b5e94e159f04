// What the tests of the runtime launch.

extern "C" __global__ void vadd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// Adds one in each element, so that a launch that is lost or doubled shows.
extern "C" __global__ void increment(unsigned* values, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += 1;
}

// Which work-item is where, for grids of three dimensions and uneven ends.
extern "C" __global__ void places(unsigned* out, unsigned width, unsigned height) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  out[(z * height + y) * width + x] = x | y << 8 | z << 16;
}

#define TILE 16
extern "C" __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
  float sum = 0;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    a[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0;
    b[ty][tx] = k0 + ty < K && column < N ? B[(k0 + ty) * N + column] : 0;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += a[ty][k] * b[k][tx];
    __syncthreads();
  }
  if (row < M && column < N) C[row * N + column] = sum;
}

// An array that doesn't fit in registers, because nobody knows the indices before.
extern "C" __global__ void scramble(unsigned* values) {
  unsigned mine[64], sum = 0, start = values[threadIdx.x];
  for (unsigned i = 0; i < 64; ++i) mine[(i * 7 + start) % 64] = i * (threadIdx.x + 1);
  for (unsigned i = 0; i < 64; ++i) sum = sum * 31 + mine[(i * 5 + start / 3) % 64];
  values[threadIdx.x] = sum;
}

#define LOAD(p) __hip_atomic_load(p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM)

// Polls a flag of the host's, and says how often.
extern "C" __global__ void poll(const unsigned* flag, unsigned long long* looks) {
  __shared__ unsigned stop;
  unsigned long long count = 0;
  for (;;) {
    if (threadIdx.x == 0) stop = LOAD(flag);
    __syncthreads();
    unsigned seen = stop;
    __syncthreads();
    if (seen) break;
    ++count;
    __builtin_amdgcn_s_sleep(1);
  }
  if (threadIdx.x == 0) looks[blockIdx.x] = count;
}

// Few blocks take the numbers of many from a counter, until a flag of the host's is raised.
extern "C" __global__ void persist(const unsigned* flag, unsigned* next, unsigned blocks, const float* in,
                                   float* out, unsigned* done) {
  __shared__ unsigned block;
  __shared__ float sums[256];
  for (;;) {
    if (threadIdx.x == 0) block = LOAD(flag) ? ~0u : atomicAdd(next, 1u);
    __syncthreads();
    unsigned mine = block;
    if (mine >= blocks) {
      if (mine != ~0u && threadIdx.x == 0) atomicSub(next, 1u);
      return;
    }
    sums[threadIdx.x] = in[mine * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half >>= 1) {
      if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      out[mine] = sums[0];
      __threadfence_system();
      atomicAdd(done, 1u);
    }
    __syncthreads();
  }
}
