#!/usr/bin/env python3
"""How far ways to compute a quantized convolution are from ONNX Runtime's: integers in 32 bits, times one factor.

    pip install numpy
    python3 reef-models/tools/quantized_ways.py

Prints for each way the part of numbers of 8 bits that differ, the largest difference, and the mean, in steps. Inputs, filters
and biases are random: inputs of all signs with symmetric scales, or behind a ReLU with the zero point -128.
docs/internals/quantized-files.md describes the ways.
"""

import numpy as np

random = np.random.default_rng(47)
f32 = np.float32
OUTPUTS, PIXELS = 64, 400


def halves(x):
    return x.astype(np.float16).astype(np.float64)


def case(terms, relu, per_channel):
    """Differences of each way for sums of this many terms."""
    x = random.normal(0, 1, (terms, PIXELS))
    x = np.maximum(x, 0) if relu else x
    scale_x, zero_x = (f32(x.max() / 255), -128) if relu else (f32(abs(x).max() / 127), 0)
    q = np.clip(np.round(x / scale_x) + zero_x, -128, 127)

    w = random.uniform(0.3, 1.5, (OUTPUTS, 1)) * random.normal(0, 1, (OUTPUTS, terms)) / terms**0.5
    largest = abs(w).max(1, keepdims=True) if per_channel else np.full((OUTPUTS, 1), abs(w).max())
    scale_w = (largest / 127).astype(f32)
    w = np.clip(np.round(w / scale_w), -127, 127)
    factor = (scale_x * scale_w).astype(f32)
    bias = np.round(random.normal(0, 0.3, (OUTPUTS, 1)) / factor)

    sums, rows = w @ q, w.sum(1, keepdims=True)
    exact = sums - zero_x * rows + bias
    values = exact * factor.astype(float)
    scale_y, zero_y = (f32(values.max() / 255), -128) if relu else (f32(abs(values).max() / 127), 0)

    def stored(x, low=-128):
        return np.clip(np.round(f32(x)) + zero_y, low, 127)

    there = stored(exact.astype(f32) * (factor / scale_y).astype(f32))
    added = ((bias - zero_x * rows) * factor.astype(float)).astype(f32)
    whole = sums.astype(f32) * factor + added

    # The kernels' arithmetic, with numbers that are one more where the zero point is the lowest number.
    up = 1 if zero_y == -128 else 0
    moved = sums.astype(f32) * (factor / scale_y).astype(f32) + (added / scale_y + f32(zero_y + up))
    # Filters as they would be rounded with the scale of the largest of each row.
    again = (abs(w).max(1, keepdims=True) * scale_w / 127).astype(f32)
    twice = np.clip(np.round(w * scale_w / again), -127, 127)
    rounded = (twice @ q - zero_x * twice.sum(1, keepdims=True)) * (again * scale_x).astype(float)
    made = {
        "moved by the bias": np.clip(np.round(moved), -127, 127) - up,
        "not moved": stored(whole / scale_y, -127),
        "filters rounded again": stored((rounded + bias * factor.astype(float)) / scale_y),
        "sums stored as halves": stored(halves(whole) / scale_y),
        "products of halves": stored((halves(w * scale_w) @ halves((q - zero_x) * scale_x) + bias * factor) / scale_y),
    }
    return {way: numbers - there for way, numbers in made.items()}


def main():
    print("input | filters | terms | way | differ | largest | mean")
    for relu in (False, True):
        for per_channel in (False, True):
            for terms in (144, 576, 4608):
                for way, off in case(terms, relu, per_channel).items():
                    place = f"{'ReLU' if relu else 'symmetric'} | per {'channel' if per_channel else 'tensor'} | {terms}"
                    print(f"{place} | {way} | {100 * (off != 0).mean():.3f} % | {int(abs(off).max())} | {off.mean():+.4f}")


if __name__ == "__main__":
    main()
