#!/usr/bin/env python3
"""Counts how the functions of CUBINs begin, and what a prologue in machine code would meet. Reads only.

    cuobjdump -arch sm_90 -xelf all LIBRARY        # in an empty folder
    tools/sass_study/count.py FOLDER [--json FILE] [--patch TWIN.ptx]

With --patch it also counts the kernels that the study's patch takes. The result is thrown away: no file is changed or written.
Instructions are 16 bytes on sm_70 and later. An opcode is the low 12 bits; its bits 9 to 11 say where operands come from.
"""

import argparse
import collections
import glob
import json
import os
import struct

import numpy as np

from cubin import BARRIERS, CALL_STACK, FIRST, PARAMETER_SIZE, REGISTERS, attributes, patch, prologue_text, read

CLUSTER, EXPLICIT_CLUSTER, INDIRECT_BRANCHES = 0x3D, 0x3E, 0x34
BAR, CLUSTER_BARRIER, SET_REGISTERS, WAIT_GRID = 0x11D, 0x1C7, 0x1C8, 0x02E
ENVIRONMENT = range(0x40, 0xC0)  # %envreg0 to %envreg31 in constant bank 0


STRONG = (0x0F, 0x15)  # scope of a load: GPU, system


def strong(opcode, high):
    return ((opcode == 0x981) | (opcode == 0x980)) & np.isin(high >> np.uint64(12) & np.uint64(0x1F), STRONG)


def in_loop(which, opcode, low, high):
    """True if one of these instructions lies between a branch backwards and its target.

    Kernels that wait for other blocks do that with strong loads. So do others: it is an upper bound, but for functions that are
    called.
    """
    loads = np.flatnonzero(which)
    if not len(loads):
        return False
    for at in np.flatnonzero(opcode == 0x947):
        one, two = int(low[at]), int(high[at])
        distance = one >> 16 & 0xFF | (one >> 34) << 8 | (two & 0x3FFFF) << 38
        distance -= (distance >> 55) << 56
        target = at + 1 + distance // 4
        if target <= at and ((loads >= target) & (loads < at)).any():
            return True
    return False


def dry_run(cubin, text):
    """What the patch says of each kernel. The changed file is thrown away."""
    said = collections.Counter()
    for name in cubin.kernels():
        try:
            patch(cubin, name, text)
            said["patched"] += 1
        except (ValueError, KeyError, StopIteration) as error:
            said[f"{type(error).__name__} {str(error)[-60:]}"] += 1
    cubin.bytes()
    return said


def tables(cubin):
    """Registers by symbol, and number of functions by section."""
    info = attributes(cubin.by_name[".nv.info"].data)
    counts = dict(struct.unpack("<II", value) for _, attribute, value in info if attribute == REGISTERS)
    symbols = [cubin.symbol(i) for i in range(len(cubin.symbols.data) // 24)]
    return counts, collections.Counter(section for _, kind, _, section, _, _ in symbols if kind & 15 == 2)


def facts(cubin, name, index, counts, functions):
    """What is asked of one kernel."""
    _, _, _, number, value, size = cubin.symbol(index)
    text = cubin.sections[number]
    found = attributes(cubin.by_name[".nv.info." + name].data)
    of = {a: v for _, a, v in found}
    words = np.frombuffer(bytes(text.data), np.uint64).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    opcode = low & np.uint64(0xFFF)
    base, form = opcode & np.uint64(0x1FF), opcode >> np.uint64(9)
    place = (low >> np.uint64(40) & np.uint64(0x3FFF)) * np.uint64(4)
    bank = low >> np.uint64(54) & np.uint64(0x1F)
    constant = ((form == 5) | (form == 3)) & (bank == 0)
    bars = base == BAR
    plain = opcode == 0xB1D  # neither in a register: barrier in bits 54 to 57, count of threads in bits 42 to 53
    first = bytes(text.data[value : value + 16])
    control = struct.unpack_from("<Q", first, 8)[0] >> 41 & 0x1FFFFF
    return {
        "name": name,
        "first": first[:8].hex(),
        "sets_scoreboard": control >> 5 & 7 != 7,
        "waits": control >> 11 & 63,
        "registers": counts[index],
        "barriers": of.get(BARRIERS, 0) if cubin.new_layout else text.flags >> 20 & 0x7F,
        "bars": int(bars.sum()),
        "bar_forms": {f"{int(o):#x}": int((opcode == o).sum()) for o in np.unique(opcode[bars])},
        "bar_numbers": sorted({int(v) for v in low[plain] >> np.uint64(54) & np.uint64(15)}),
        "bar_counted": int(((low[plain] >> np.uint64(42) & np.uint64(0xFFF)) != 0).sum()),
        "bar_dynamic": int((bars & ~plain).sum()),
        "environment": int((constant & (place >= ENVIRONMENT.start) & (place < ENVIRONMENT.stop)).sum()),
        "cluster_barriers": int((base == CLUSTER_BARRIER).sum()),
        "cluster": CLUSTER in of or EXPLICIT_CLUSTER in of,
        "jump_table": INDIRECT_BRANCHES in of,
        "sets_registers": int((base == SET_REGISTERS).sum()),
        "waits_for_grid": int((base == WAIT_GRID).sum()),
        "parameters": of.get(PARAMETER_SIZE, 0),
        "attributes": sorted(of),
        "functions_behind": functions[number] - 1,
        "entry_at_0": value == 0,
        "bytes": len(text.data),
        "looks_in_loops": in_loop(strong(opcode, high), opcode, low, high),
        "swaps_in_loops": in_loop((opcode == 0x3A9) | (opcode == 0x38B), opcode, low, high),
        "strong_loads": bool(strong(opcode, high).any()),
        "call_stack": CALL_STACK in of,
    }


def main():
    parser = argparse.ArgumentParser(description="how functions of CUBINs begin")
    parser.add_argument("folder")
    parser.add_argument("--json")
    parser.add_argument("--patch")
    args = parser.parse_args()
    text, said = args.patch and prologue_text(args.patch), collections.Counter()
    rows, files = [], sorted(glob.glob(os.path.join(args.folder, "*.cubin")))
    for path in files:
        cubin = read(path)
        of_cubin = tables(cubin)
        rows += [facts(cubin, name, index, *of_cubin) for name, index in cubin.kernels().items()]
        if text:
            said += dry_run(cubin, text)
    count = lambda test: sum(bool(test(r)) for r in rows)
    forms = collections.Counter()
    for row in rows:
        forms.update(row["bar_forms"])
    table = {
        "cubins": len(files), "kernels": len(rows),
        "first instruction": dict(collections.Counter(r["first"] for r in rows)),
        "the one first instruction": count(lambda r: bytes.fromhex(r["first"]) == FIRST),
        "it sets a scoreboard": count(lambda r: r["sets_scoreboard"]),
        "it waits for one": count(lambda r: r["waits"]),
        "entry at the section's begin": count(lambda r: r["entry_at_0"]),
        "other functions in the section": count(lambda r: r["functions_behind"]),
        "registers: fewer than 10": count(lambda r: r["registers"] < 10),
        "registers: fewer than 10, in steps of 8": count(lambda r: r["registers"] <= 8),
        "registers: 254 or 255": count(lambda r: r["registers"] >= 254),
        "registers: 168": count(lambda r: r["registers"] == 168),
        "no barrier": count(lambda r: not r["barriers"]),
        "one barrier": count(lambda r: r["barriers"] == 1),
        "2 to 15 barriers": count(lambda r: 1 < r["barriers"] < 16),
        "16 barriers": count(lambda r: r["barriers"] >= 16),
        "BAR with barrier 0": count(lambda r: 0 in r["bar_numbers"]),
        "BAR with another barrier": count(lambda r: any(r["bar_numbers"])),
        "BAR with a count of threads": count(lambda r: r["bar_counted"]),
        "BAR with a barrier or count in a register": count(lambda r: r["bar_dynamic"]),
        "BAR forms, instructions": dict(forms),
        "%envreg": count(lambda r: r["environment"]),
        "cluster": count(lambda r: r["cluster"]),
        "cluster barrier": count(lambda r: r["cluster_barriers"]),
        "setmaxnreg": count(lambda r: r["sets_registers"]),
        "griddepcontrol.wait": count(lambda r: r["waits_for_grid"]),
        "strong load of global memory": count(lambda r: r["strong_loads"]),
        "strong load in a loop": count(lambda r: r["looks_in_loops"]),
        "that, in a name with scan, select, sort or unique": count(
            lambda r: r["looks_in_loops"] and any(w in r["name"].lower() for w in ("scan", "select", "sort", "unique", "onesweep"))
        ),
        "compare-and-swap in a loop": count(lambda r: r["swaps_in_loops"]),
        "jump table": count(lambda r: r["jump_table"]),
        "no parameters": count(lambda r: not r["parameters"]),
        "parameters over 4096 - 64 bytes": count(lambda r: r["parameters"] > 4032),
        "largest parameters": max((r["parameters"] for r in rows), default=0),
        "attributes": {f"{a:#x}": n for a, n in sorted(collections.Counter(a for r in rows for a in r["attributes"]).items())},
        "text, bytes: total": sum(r["bytes"] for r in rows),
        "text, bytes: median": sorted(r["bytes"] for r in rows)[len(rows) // 2] if rows else 0,
    }  # fmt: skip
    if text:
        table["patch, thrown away"] = dict(said)
    for key, value in table.items():
        print(f"{key}: {value}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(table, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
