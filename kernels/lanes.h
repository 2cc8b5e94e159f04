// What a thread works on at a time: one number, or four adjoining channels.

#pragma once

#include "element.h"

struct One {
    float value;
    __device__ One(float v) : value(v) {}
    __device__ void add(One other) { value += other.value; }
    __device__ void raise(One other) { value = fmaxf(value, other.value); }
    __device__ void times(float factor) { value *= factor; }
    __device__ void times(One other) { value *= other.value; }
    template <class Function> __device__ void become(Function f) { value = f(value); }
    template <class Element> __device__ static One load(const View &view, u64 at) {
        return view.load<Element>(at);
    }
    template <class Element> __device__ void store(const View &view, u64 at) const {
        view.store<Element>(at, value);
    }
    static constexpr u32 CHANNELS = 1;
};

struct Four {
    float4 value;
    __device__ Four(float v) : value(make_float4(v, v, v, v)) {}
    __device__ Four(float4 v) : value(v) {}
    __device__ void add(Four other) { value = value + other.value; }
    __device__ void raise(Four other) {
        value.x = fmaxf(value.x, other.value.x), value.y = fmaxf(value.y, other.value.y);
        value.z = fmaxf(value.z, other.value.z), value.w = fmaxf(value.w, other.value.w);
    }
    __device__ void times(float f) { value.x *= f, value.y *= f, value.z *= f, value.w *= f; }
    __device__ void times(Four other) {
        value.x *= other.value.x, value.y *= other.value.y;
        value.z *= other.value.z, value.w *= other.value.w;
    }
    template <class Function> __device__ void become(Function f) {
        value = make_float4(f(value.x), f(value.y), f(value.z), f(value.w));
    }
    template <class Element> __device__ static Four load(const View &view, u64 at) {
        return load4((const Element *)view.data + at);
    }
    template <class Element> __device__ void store(const View &view, u64 at) const {
        store4((Element *)view.data + at, value);
    }
    static constexpr u32 CHANNELS = 4;
};
