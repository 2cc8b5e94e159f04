// What becomes of a value in the end.

#pragma once

#include "element.h"

// `Work` in operators/activation.rs says the same. PRODUCT is no activation: pointwise.h has it.
enum Work : u32 { CLAMP, HARD_SIGMOID, HARD_SWISH, SIGMOID, SWISH, PRODUCT };

__device__ inline float clamp(float x, float low, float high) {
    return at_most(at_least(x, low), high);
}

// 1 / (1 + 2^(-x log2 e)), each step to its last or last but one bit.
__device__ inline float sigmoid(float x) {
    const float turned = x * -1.4426950408889634f;
    float power;
#if REEF_AMD
    asm("v_exp_f32 %0, %1" : "=v"(power) : "v"(turned)); // clang 15 has no builtin for it
    return __builtin_amdgcn_rcpf(1.0f + power);
#else
    float gate;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(turned));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(gate) : "f"(1.0f + power));
    return gate;
#endif
}

// `ActivationParams` in operators/activation.rs.
struct Activation {
    u32 work;
    float low, high; // of CLAMP, infinite where there is no bound; what shall stay as it is has none

    __device__ float operator()(float x) const {
        return work == CLAMP ? clamp(x, low, high) : gated(x);
    }

    __device__ float4 operator()(float4 v) const {
        if (work == CLAMP)
            return make_float4(clamp(v.x, low, high), clamp(v.y, low, high), clamp(v.z, low, high),
                               clamp(v.w, low, high));
        return make_float4(gated(v.x), gated(v.y), gated(v.z), gated(v.w));
    }

  private:
    // The gate of a value, or the value behind it.
    __device__ float gated(float x) const {
        const float gate = work == SIGMOID || work == SWISH ? sigmoid(x) : clamp(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
        return work == SWISH || work == HARD_SWISH ? x * gate : gate;
    }
};
