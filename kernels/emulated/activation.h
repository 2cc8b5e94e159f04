// Stands for activation.h, which is PTX: bounds alone.

#pragma once

struct Activation {
    float low, high;
    float operator()(float x) const { return at_most(at_least(x, low), high); }
    float4 operator()(float4 v) const { return {(*this)(v.x), (*this)(v.y), (*this)(v.z), (*this)(v.w)}; }
};
