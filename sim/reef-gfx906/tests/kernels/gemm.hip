#include "device.h"
#define T 16
extern "C" __global__ __launch_bounds__(256) void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[T][T], Bs[T][T];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y*T+ty, col = blockIdx.x*T+tx;
  float acc = 0.f;
  for (int k0 = 0; k0 < K; k0 += T) {
    As[ty][tx] = (row < M && k0+tx < K) ? A[row*K+k0+tx] : 0.f;
    Bs[ty][tx] = (k0+ty < K && col < N) ? B[(k0+ty)*N+col] : 0.f;
    __syncthreads();
    for (int k = 0; k < T; ++k) acc += As[ty][k]*Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row*N+col] = acc;
}
