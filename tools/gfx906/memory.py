"""Cases for memory: global, flat, scratch, buffers, scalar loads, and the workgroup's shared memory."""

import re

from base import ARRAYS, MEMORY, NAMES, RNG, Case, machine, some_lanes, text_of
from pcode import V

PRIVATE = 64
SCC = 128


class Bytes:
    """Memory with the changes that are made to it."""

    def __init__(self, data):
        self.data, self.start = bytearray(data), bytes(data)

    def read(self, at, size):
        return int.from_bytes(self.data[at : at + size], "little")

    def write(self, at, bits, size):
        self.data[at : at + size] = (bits & (1 << 8 * size) - 1).to_bytes(size, "little")

    def changes(self, letter):
        for at in range(0, len(self.data), 4):
            word = self.data[at : at + 4]
            if word != self.start[at : at + 4]:
                yield f"{letter}{at}={int.from_bytes(word, 'little'):x}"


PRIVATE_DATA = (MEMORY * 2)[: PRIVATE * 64]


def words(name):
    """How many registers the data and the result take."""
    match = re.search(r"x(\d)$", name)
    if match and "atomic" not in name:
        return int(match[1])
    size = {"b64": 2, "u64": 2, "i64": 2, "f64": 2, "b96": 3, "b128": 4, "x2": 2}.get(name.rsplit("_", 1)[1], 1)
    return size


def prefixed(text):
    """Where there is no calculation of the address, it is the whole one."""
    return text.replace("ADDR_BASE", "ADDR").replace("DATA0", "DATA")


def run(case, text, memory, addresses, offset, data, data2, result, size, lane_memory=None):
    """Evaluates lane after lane; the result goes to registers from `result` on."""
    values = {k: {} for k in range(size)}
    for lane in case.lanes():
        at = lane_memory(lane) if lane_memory else memory
        wide = lambda register: sum(case.vgpr(register + k, lane) << 32 * k for k in range(4)) if register is not None else 0
        env = {"OFFSET": V(offset, 16, "U"), "OFFSET0": V(offset & 255, 8, "U"), "OFFSET1": V(offset >> 8, 8, "U"), "laneId": V(lane, 32, "U")}
        base = addresses(lane)
        whole = base + offset
        calculated = "Calc" in text or "OFFSET" in text
        env["ADDR"] = V(base if calculated else whole, 64, "U")
        env |= {dummy: V(0, 32, "U") for dummy in ("SADDR", "SRSRC", "VADDR", "SOFFSET")}
        env["DATA"] = env["VDATA"] = V(wide(data), 128, "B")
        env["DATA2"] = V(wide(data2), 128, "B")
        old = wide(result) if result is not None else 0
        env["RETURN_DATA"] = V(old, 128, "B")
        if result is not None and "_load" in case.name:
            env["VDATA"] = V(old, 128, "B")
        m = machine(env, at)
        m.whole = whole
        out = m.run(text)
        if result is None:
            continue
        got = out["VDATA" if "VDATA" in m.assigned else "RETURN_DATA"].bits
        for k in range(size):
            values[k][lane] = got >> 32 * k & 0xFFFFFFFF
    if result is not None:
        for k in range(size):
            case.put(result + k, "f" if "f32" in case.name else "x", values[k])


def address_functions():
    from pcode import FUNCTIONS

    whole = lambda self, *_: V(self.whole, 64, "U")
    for name in ("CalcGlobalAddr", "CalcFlatAddr", "CalcScratchAddr", "CalcBufferAddr"):
        FUNCTIONS[name] = whole
    FUNCTIONS["CalcDsAddr"] = lambda self, address, low, high: V(address.bits + low.bits + (high.bits << 8), 64, "U")


address_functions()


def data_arrays(case, name, size, registers=(12,)):
    kind = "f" if name.endswith("f32") else "d" if name.endswith("f64") else "l" if size == 2 else "i"
    for register in registers:
        if size == 2:
            case.load(register, f"{kind}{RNG.randrange(8)}")
        else:
            for k in range(size):
                case.load(register + k, f"{kind}{RNG.randrange(8)}")


def span(register, size):
    return f"v{register}" if size == 1 else f"v[{register}:{register + size - 1}]"


def flat(name):
    size = words(name)
    text = text_of("global_" + name)
    load, atomic = name.startswith("load"), name.startswith("atomic")
    for segment, k in (("global", 0), ("global", 1), ("global", 2), ("flat", 0), ("flat", 1), ("scratch", 0), ("scratch", 1)):
        if atomic and segment == "scratch":
            continue
        case = Case(f"{segment}_{name}", "")
        case.op = name
        offset = [0, 16, 32][k] if segment == "flat" else [16, 0, 24][k]
        array = "o0" if (load or atomic) and not k else "o2"
        case.exec = (1 << 64) - 1 if not k and segment == "global" else some_lanes(10)
        returns = load or (atomic and k)
        data = None if load else 12
        if segment == "scratch":
            ARRAYS.setdefault("o3", [4 * RNG.randrange(8) for _ in range(64)])
            array, offset = "o3", [0, 8][k]
            case.load(8, array)
            address, base = "v8", "off"
            if k:
                address, base = "off", "s8"
                case.scalars[8] = 12
        elif k == 2:
            case.load(8, array)
            case.pointer = (8, 64)
            address, base = "v8", "s[8:9]"
        else:
            case.load(8, "@" + array)
            address, base = "v[8:9]", "off"
        if data:
            data_arrays(case, "", size if "cmpswap" not in name else 2 * size)
            if "cmpswap" in name:
                # Some lanes find what they expect.
                ARRAYS[f"cmp{size}"] = ARRAYS.get(f"cmp{size}") or [int.from_bytes(MEMORY[ARRAYS["o2"][lane] + 64 :][: 4 * size], "little") if lane % 3 else lane for lane in range(64)]
                case.vgprs.clear()
                case.load(8, array if k == 2 else "@" + array)
                case.load(12, "l2" if size == 2 else "i2")
                case.load(12 + size, "lcmp" if size == 2 else "icmp")
        if returns:
            for n in range(size):
                case.load(16 + n, f"i{n + 3}")
        parts = []
        count = size * (2 if "cmpswap" in name else 1)
        if load:
            parts = [span(16, size), address]
        else:
            parts = ([span(16, size)] if returns else []) + [address, span(12, count)]
        if segment != "flat":
            parts.append(base)
        case.asm = f"{segment}_{name} " + ", ".join(parts) + (f" offset:{offset}" if offset else "") + (" glc" if atomic and returns else "")
        if k == 2:
            case.scalars[8] = "@40"
            offset += 64

        def go(case=case, offset=offset, array=array, segment=segment, k=k, returns=returns, data=data):
            if segment == "scratch":
                regions = {lane: Bytes(PRIVATE_DATA[PRIVATE * lane : PRIVATE * (lane + 1)]) for lane in range(64)}
                addresses = (lambda lane: 12) if k else (lambda lane: ARRAYS[array][lane])
                run(case, text, None, addresses, offset, data, None, 16 if returns else None, size, regions.get)
                for lane, region in regions.items():
                    case.out += [f"p{PRIVATE * lane + int(c[1:].split('=')[0])}={c.split('=')[1]}" for c in region.changes("p")]
                return
            memory = Bytes(MEMORY)
            run(case, text, memory, lambda lane: ARRAYS[array][lane], offset, data, None, 16 if returns else None, size)
            case.out += memory.changes("m")

        case.evaluate = go
        yield case


def buffer(name):
    if "wbinvl1" in name:
        yield Case(name, name)
        return
    size, load = words(name), "load" in name
    text = text_of(name)
    for k in range(3):
        case = Case(name, "")
        case.exec = some_lanes(10)
        offset = [4, 0, 20][k]
        data = None if load else 12
        register = 16 if load else 12
        if load:
            for n in range(size):
                case.load(16 + n, f"i{n + 3}")
        else:
            data_arrays(case, "", size)
        case.load(8, "o3" if k < 2 else "o2")
        # A resource of private memory, once with a stack pointer that counts for 64 lanes; and of a range.
        case.scalars.update({4: 0, 5: 0, 6: 0xFFFFFFFF, 7: 0x00027000 | (k == 1) << 23, 10: 64 * 4})
        if k == 1:
            case.scalars[4], case.scalars[5] = 0x1234000, 7
        if k == 2:
            case.scalars[4], case.scalars[10] = "@20", 8
            del case.scalars[5]
        case.asm = f"{name} {span(register, size)}, v8, s[4:7], {'s10' if k else '0'} offen" + (f" offset:{offset}" if offset else "")

        def go(case=case, offset=offset, k=k, data=data):
            if k < 2:
                regions = {lane: Bytes(PRIVATE_DATA[PRIVATE * lane : PRIVATE * (lane + 1)]) for lane in range(64)}
                run(case, text, None, lambda lane: ARRAYS["o3"][lane], offset + (4 if k else 0), data, None, 16 if load else None, size, regions.get)
                for lane, region in regions.items():
                    case.out += [f"p{PRIVATE * lane + int(c[1:].split('=')[0])}={c.split('=')[1]}" for c in region.changes("p")]
                return
            memory = Bytes(MEMORY)
            run(case, text, memory, lambda lane: ARRAYS["o2"][lane], offset + 32 + 8, data, None, 16 if load else None, size)
            case.out += memory.changes("m")

        case.evaluate = go
        yield case


def shared(name):
    text = prefixed(text_of(name))
    size = words(name)
    reads = "read" in name or "_rtn" in name
    result = size * (2 if "read2" in name else 1)
    swap, write2, read2 = "cmpst" in name, "write2" in name, "read2" in name
    for k in range(3):
        case = Case(name, "")
        case.exec = (1 << 64) - 1 if not k or swap else some_lanes(12)
        offset = [0, 64, 136][k]
        array = "o0" if k != 1 and "write" not in name else "o2"
        if "write" in name and size > 1:
            array = "o2"
        case.load(8, array)
        registers = [] if "read" in name else [12, 16] if swap or write2 else [12]
        if registers:
            data_arrays(case, name, size, registers)
        if swap:
            case.vgprs.pop(12)
            kind = "d" if size == 2 else "f"
            case.load(12, {("b32"): "icmp0", ("f32"): "icmp0", ("b64"): "lcmp0", ("f64"): "lcmp0"}[name[-3:]])
        if reads:
            for n in range(result):
                case.load((4 if swap or write2 else 16) + n, f"i{n + 2}")
        out = 4 if swap or write2 else 16
        parts = ([span(out, result)] if reads else []) + ["v8"] + [span(r, size) for r in registers]
        modifiers = f" offset:{offset}" if offset else ""
        if write2 or read2:
            # The order in which lanes write to one place is not defined: they don't.
            low, high = [(0, 1), (1, 0), (0, 1)][k] if "st64" not in name else [(0, 4 // size), (4 // size, 0), (0, 4 // size)][k]
            modifiers = (f" offset0:{low}" if low else "") + (f" offset1:{high}" if high else "")
            offset = low | high << 8
        case.asm = f"{name} " + ", ".join(parts) + modifiers

        def go(case=case, offset=offset, array=array, registers=registers, out=out):
            memory = Bytes(MEMORY)
            run(case, text, memory, lambda lane: ARRAYS[array][lane], offset, registers[0] if registers else None, registers[1] if len(registers) > 1 else None, out if reads else None, result)
            case.out += memory.changes("l")

        case.evaluate = go
        yield case


def permutations():
    for k in range(3):
        for name in ("ds_permute_b32", "ds_bpermute_b32"):
            case = Case(name, f"{name} v16, v8, v12" + (" offset:8" if k else ""))
            case.exec = (1 << 64) - 1 if not k else some_lanes(30)
            case.load(8, ["o0", "i1", "o1"][k]), case.load(12, "i3"), case.load(16, "i4")

            def go(case=case, k=k, name=name):
                grid = [[case.vgpr(8, lane), case.vgpr(12, lane), case.vgpr(16, lane)] for lane in range(64)]
                env = {"VGPR": grid, "ADDR": V(0, 8, "U"), "VDST": V(2, 8, "U"), "OFFSET": V(8 if k else 0, 32, "U"), "EXEC": V(case.exec, 64, "U"), "tmp": [V(0, 32, "B") for _ in range(64)]}
                text = re.sub(r"declare [^\n]*\n", "", text_of(name)).replace("][DATA0]", "][1]")
                machine(env).run(text)
                case.put(16, "x", {lane: grid[lane][2] for lane in range(64)})

            case.evaluate = go
            yield case
    # The pseudocode of ds_swizzle is a picture; these follow AMD's words for its three modes.
    for k, (pattern, source) in enumerate([(0x801F, lambda n: n), (0x041F, lambda n: n ^ 1), (0x7C1F, lambda n: n ^ 31), (0x0010, lambda n: n & 16), (0x03F0 & 0x7FFF, lambda n: n & 16 | 31), (0x8000 | 0b00_01_10_11, lambda n: n & ~3 | 3 - (n & 3)), (0xC000 | 5 << 5, lambda n: (n + 5) & 31), (0xC400 | 3 << 5, lambda n: (n - 3) & 31), (0xC000 | 1 << 5 | 0x18, lambda n: n & 0x18 | (n + 1) & 7)]):
        if k == 0:
            continue
        case = Case("ds_swizzle_b32", f"ds_swizzle_b32 v16, v8 offset:{pattern}")
        case.exec = (1 << 64) - 1 if k & 1 else some_lanes(40)
        case.load(8, "i5"), case.load(16, "i6")
        pick = lambda lane: lane & 32 | source(lane & 31)
        case.put(16, "x", {lane: case.vgpr(8, pick(lane)) if case.exec >> pick(lane) & 1 else 0 for lane in range(64)})
        yield case


def scalar(name):
    if name in ("s_memtime", "s_memrealtime"):
        case = Case(name, f"{name} s[20:21]")
        case.out = ["s20=9abcdef0", "s21=12345678"]
        yield case
        return
    match = re.search(r"x(\d+)$", name)
    size = int(match[1]) if match else 1
    for k in range(4):
        case = Case(name, "")
        case.scalars[8] = "@10"
        case.scalars.update({14: 36, 10: 0, 11: 0})
        registers = f"s[32:{31 + size}]" if size > 1 else "s32"
        load, store, buffered = "load" in name, "store" in name, "buffer" in name
        offset = [("0x18", 0x18), ("s14", 36), ("0x2c", 0x2C), ("0x7f0", 0x7F0)][k]
        if k == 3 and not buffered:
            offset = ("0x4", 4)
        if buffered:
            # 48 bits of base, no stride, a size beyond which everything is zero.
            case.scalars[10] = 0x40
        at = 0x10 + (offset[1] & ~3)
        values = [int.from_bytes(MEMORY[at + 4 * n :][:4], "little") for n in range(size)]
        if buffered:
            values = [value if offset[1] + 4 * n < 0x40 else 0 for n, value in enumerate(values)]
        if store:
            for n in range(size):
                case.scalars[32 + n] = 0xA0B0C0D0 + n
            case.out = [f"m{at + 4 * n}={0xA0B0C0D0 + n:x}" for n in range(size)]
        else:
            case.out = [f"s{32 + n}={value:x}" for n, value in enumerate(values)]
        case.asm = f"{name} {registers}, s[8:{11 if buffered else 9}], {offset[0]}"
        yield case


def compare_arrays():
    """What is at the lanes' addresses, for most of them, so that some comparisons succeed."""
    for letter, size in (("i", 4), ("l", 8)):
        for suffix, base in (("cmp", 80), ("cmp0", 64)):
            at = lambda lane: int.from_bytes(MEMORY[ARRAYS["o2"][lane] + base :][:size], "little")
            ARRAYS[letter + suffix] = [at(lane) if lane % 3 else lane for lane in range(64)]
        for lane in range(5, 64, 8):
            ARRAYS[letter + "cmp0"][lane] = 1 << (8 * size - 1)
    ARRAYS.setdefault("o3", [4 * RNG.randrange(6) for _ in range(64)])


def cases():
    compare_arrays()
    for family, name in NAMES:
        if family == "Flat":
            yield from flat(name)
        elif family == "Mubuf":
            yield from buffer(name)
        elif family == "Smem" and "dcache" not in name:
            yield from scalar(name)
        elif family == "Ds" and "permute" not in name and "swizzle" not in name and name != "ds_nop":
            yield from shared(name)
    yield Case("ds_nop", "ds_nop")
    yield from permutations()
