// What a thread works on at a time: one number, or four adjoining channels.

#pragma once

#include "element.h"

struct One {
    // 64 bits each.
    struct Wide {
        double value = 0;
        __device__ void add(One other) { value += other.value; }
        __device__ One narrow() const { return One((float)value); }
    };

    float value;
    __device__ One(float v) : value(v) {}
    __device__ void add(One other) { value += other.value; }
    __device__ void raise(One other) { value = larger(value, other.value); }
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
    struct Wide {
        double x = 0, y = 0, z = 0, w = 0;
        __device__ void add(Four other) {
            x += other.value.x, y += other.value.y, z += other.value.z, w += other.value.w;
        }
        __device__ Four narrow() const { return make_float4(x, y, z, w); }
    };

    float4 value;
    __device__ Four(float v) : value(make_float4(v, v, v, v)) {}
    __device__ Four(float4 v) : value(v) {}
    __device__ void add(Four other) { value = value + other.value; }
    __device__ void raise(Four other) {
        value.x = larger(value.x, other.value.x), value.y = larger(value.y, other.value.y);
        value.z = larger(value.z, other.value.z), value.w = larger(value.w, other.value.w);
    }
    __device__ void times(float f) { value.x *= f, value.y *= f, value.z *= f, value.w *= f; }
    __device__ void times(Four other) {
        value.x *= other.value.x, value.y *= other.value.y;
        value.z *= other.value.z, value.w *= other.value.w;
    }
    template <class Function> __device__ void become(Function f) {
        value = f(value);
    }
    template <class Element> __device__ static Four load(const View &view, u64 at) {
        return load4((const Element *)view.data + at);
    }
    template <class Element> __device__ void store(const View &view, u64 at) const {
        store4((Element *)view.data + at, value);
    }
    static constexpr u32 CHANNELS = 4;
};

// Makes sums of any number of values: parts of 64 in 32 bits, and the sum of those in 64. One after the other
// in 32 bits, what comes last is rounded away. MANY: whether there may be more than one part.
template <class Lanes, bool MANY> class Parts {
  public:
    // One more value has been added to `part`.
    __device__ void added(Lanes &part) {
        if (MANY && ++count % 64 == 0) whole.add(part), part = Lanes(0.0f);
    }
    // The sum of all parts, of which `part` is the last.
    __device__ Lanes total(Lanes part) {
        if (!MANY || count < 64) return part;
        whole.add(part);
        return whole.narrow();
    }

  private:
    typename Lanes::Wide whole;
    u32 count = 0;
};
