#!/usr/bin/env python3
"""Writes the golden vectors of reef-gfx906: for each opcode of its table, encodings by LLVM's assembler and
results by AMD's pseudocode.

    pip install tinygrad==0.14.0; apt-get install llvm-19
    tools/gfx906/golden.py sim/reef-gfx906/src/isa/golden.txt

The seed is fixed, so the same inputs give the same file.
"""

import re
import subprocess
import sys
import time

import base
import vector

MC = ["llvm-mc-19", "--arch=amdgcn", "--mcpu=gfx906", "--show-encoding"]


def assemble(cases):
    """Gives each case its bytes; drops those that LLVM doesn't take."""
    while True:
        lines = "".join(case.asm + "\n" for case in cases)
        done = subprocess.run(MC, input=lines, capture_output=True, text=True)
        refused = {}
        for line, why in re.findall(r"<stdin>:(\d+):\d+: error: (.*)", done.stderr):
            refused[int(line) - 1] = why
        if not refused:
            break
        if "-v" in sys.argv:
            for at, why in refused.items():
                print(f"refused: {cases[at].asm}: {why}", file=sys.stderr)
        cases = [case for at, case in enumerate(cases) if at not in refused]
    codes = re.findall(r"; encoding: \[([^\]]*)\]", done.stdout)
    assert len(codes) == len(cases), (len(codes), len(cases))
    for case, code in zip(cases, codes):
        case.code = code.replace("0x", "").replace(",", "")
    return cases


def main():
    began = time.time()
    modules = [vector]
    for extra in ("scalar", "memory"):
        try:
            modules.append(__import__(extra))
        except ModuleNotFoundError:
            pass
    cases = assemble([case for module in modules for case in module.cases()])
    lacking = {name for _, name in base.NAMES} - {getattr(case, "op", case.name) for case in cases}
    with open(sys.argv[1], "w") as out:
        out.write("# Made by tools/gfx906/golden.py. The format is described where it is read.\n")
        for name, values in base.ARRAYS.items():
            width = 16 if name[0] in base.WIDE else 8
            out.write(f"@{name} " + "".join(f"{value:0{width}x}" for value in values) + "\n")
        out.write(f"@memory {base.MEMORY.hex()}\n")
        for case in cases:
            if case.evaluate:
                try:
                    case.evaluate()
                except Exception as error:
                    print(f"{case.asm}: {error!r}", file=sys.stderr)
                    if "-x" in sys.argv:
                        raise
                    continue
            out.write(case.line() + "\n")
    print(f"{len(cases)} cases, {time.time() - began:.0f} s; none for: {sorted(lacking)}")


main()
