#!/usr/bin/env python3
"""Writes `wgmma.async` of a tile of 64 rows and each number of columns as C++, since inline assembly has no loops."""

COLUMNS = (32, 40, 56, 64, 72, 96, 104, 128, 200, 256)
KINDS = {"F16": ("k16", "f16.f16", ", 0, 0"), "Tf32": ("k8", "tf32.tf32", "")}


def instruction(kind, columns):
    terms, types, turned = KINDS[kind]
    count = columns // 2
    sums = ", ".join(f"%{n}" for n in range(count))
    outputs = ", ".join(f'"+f"(sums[{n}])' for n in range(count))
    return f"""template <> struct Multiply<{kind}, {columns}> {{
    __device__ static void go(float (&sums)[{count}], u64 x, u64 y) {{
        asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}{terms}.f32.{types} {{{sums}}}, %{count}, %{count + 1}, "
                     "1, 1, 1{turned};"
                     : {outputs}
                     : "l"(x), "l"(y));
    }}
}};"""


print("// Made by instructions.py.")
for kind in KINDS:
    for columns in COLUMNS:
        print(instruction(kind, columns))
