"""Made-up tensors, the same to the last bit as those of reef-models/src/model/seeded.rs."""

import math

import numpy as np


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def units(name, elements, seed):
    """Values in [-1, 1), exact in float32."""
    z = np.arange(1, elements + 1, dtype=np.uint64)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(fnv1a(name) ^ seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def values(name, shape, offset, scale, seed):
    filled = np.float32(offset) + np.float32(scale) * units(name, math.prod(shape), seed)
    return filled.astype(np.float32).reshape(shape)
