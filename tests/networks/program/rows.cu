#include <hip/hip_runtime.h>

// Rows of 10 in an order that is given as numbers of 64 bits.
extern "C" __global__ void fused_take_kernel0(float* __restrict__ T_take, float* __restrict__ placeholder, long* __restrict__ placeholder1) {
  if (((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) < 100) {
    T_take[((((int)blockIdx.x) * 32) + ((int)threadIdx.x))] = placeholder[((((int)max((long)0, min((long)9, placeholder1[(((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) / 10)]))) * 10) + (((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) % 10))];
  }
}

// A softmax of each row in four launches.
extern "C" {
__global__ void fused_nn_softmax_1_kernel0(float* __restrict__ T_softmax_maxelem, float* __restrict__ placeholder) {
  if (((int)threadIdx.x) < 10) {
    T_softmax_maxelem[(((int)threadIdx.x))] = -3.402823e+38f;
    for (int k = 0; k < 10; ++k) {
      T_softmax_maxelem[(((int)threadIdx.x))] = max(T_softmax_maxelem[(((int)threadIdx.x))], placeholder[((((int)threadIdx.x) * 10) + k)]);
    }
  }
}

__global__ void fused_nn_softmax_1_kernel1(float* __restrict__ T_softmax_exp, float* __restrict__ placeholder, float* __restrict__ T_softmax_maxelem) {
  if (((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) < 100) {
    T_softmax_exp[((((int)blockIdx.x) * 32) + ((int)threadIdx.x))] = __ocml_exp_f32((placeholder[((((int)blockIdx.x) * 32) + ((int)threadIdx.x))] - T_softmax_maxelem[(((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) / 10)]));
  }
}

__global__ void fused_nn_softmax_1_kernel2(float* __restrict__ T_softmax_expsum, float* __restrict__ T_softmax_exp) {
  if (((int)threadIdx.x) < 10) {
    T_softmax_expsum[(((int)threadIdx.x))] = 0.000000e+00f;
    for (int k = 0; k < 10; ++k) {
      T_softmax_expsum[(((int)threadIdx.x))] = (T_softmax_expsum[(((int)threadIdx.x))] + T_softmax_exp[((((int)threadIdx.x) * 10) + k)]);
    }
  }
}

__global__ void fused_nn_softmax_1_kernel3(float* __restrict__ T_softmax_norm, float* __restrict__ T_softmax_exp, float* __restrict__ T_softmax_expsum) {
  if (((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) < 100) {
    T_softmax_norm[((((int)blockIdx.x) * 32) + ((int)threadIdx.x))] = (T_softmax_exp[((((int)blockIdx.x) * 32) + ((int)threadIdx.x))] / T_softmax_expsum[(((((int)blockIdx.x) * 32) + ((int)threadIdx.x)) / 10)]);
  }
}
}
