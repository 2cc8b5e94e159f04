"""Cases for scalar instructions, branches and hardware registers."""

import re

import pcode
from base import NAMES, RNG, Case, i32, i64, machine, text_of
from pcode import V

EXEC, VCC, M0, SCC = 126, 106, 124, 128
# They do nothing that a wave could see.
NOTHING = {"s_nop": "s_nop 3", "s_waitcnt": "s_waitcnt vmcnt(0)", "s_setprio": "s_setprio 1", "s_icache_inv": "s_icache_inv", "s_incperflevel": "s_incperflevel 1", "s_decperflevel": "s_decperflevel 1", "s_ttracedata": "s_ttracedata", "s_wakeup": "s_wakeup", "s_dcache_inv": "s_dcache_inv", "s_dcache_wb": "s_dcache_wb", "s_dcache_inv_vol": "s_dcache_inv_vol", "s_dcache_wb_vol": "s_dcache_wb_vol", "s_barrier": "s_barrier", "s_sleep": "s_sleep 2", "s_endpgm": "s_endpgm"}
INLINE32 = {"64": 64, "-16": 0xFFFFFFF0, "1.0": 0x3F800000, "0x87654321": 0x87654321, "0": 0, "31": 31}
INLINE64 = {"33": 33, "-2": (1 << 64) - 2, "1.0": 0x3FF << 52, "0x87654321": 0x87654321}


def widths(text, name):
    """Of the result and of both sources, as the text uses them."""
    out = []
    for what in ("D0", "S0", "S1"):
        types = re.findall(rf"\b{what}(?:\[[^\]]*\])?\.([ufib]\d+)", text)
        out.append(64 if any(t[1:] == "64" for t in types) else 32)
    if "_i32_b64" in name:
        out = [32, 64, 32]
    if "saveexec" in name or "wrexec" in name:
        out = [64, 64, 32]
    return out


def operand(case, register, width, fresh):
    if fresh and RNG.random() < 0.3:
        text = RNG.choice(list(INLINE64 if width == 64 else INLINE32))
        return text, (INLINE64 if width == 64 else INLINE32)[text]
    if width == 64:
        value = i64()
        case.set64(register, value)
        return f"s[{register}:{register + 1}]", value
    value = i32()
    case.scalars[register] = value
    return f"s{register}", value


def run(case, text, values, wide, destination=20, before=None, immediate=None):
    """Evaluates and writes down what changes."""
    env = {f"S{k}": V(value, 64, "B") for k, value in enumerate(values)}
    old = case.scalar(destination, wide)
    env |= {"D0": V(old, wide, "B"), "SCC": V(case.scalars.get(SCC, 0), 1, "U"), "EXEC": V(case.exec, 64, "U"), "PC": V(0x1000, 64, "I"), "M0": V(case.scalars.get(M0, 0), 32, "U"), "VCCZ": V(case.scalar(VCC, 64) == 0, 1, "U"), "EXECZ": V(case.exec == 0, 1, "U")}
    if immediate is not None:
        env |= {"S0": V(immediate, 16, "B"), "S1": V(immediate, 16, "B"), "SIMM16": V(immediate, 16, "I")}
    env |= before or {}
    m = machine(env)
    out = m.run(text)
    if "D0" in m.assigned:
        put(case, destination, out["D0"].bits, wide)
    if "EXEC" in m.assigned:
        put(case, EXEC, out["EXEC"].bits, 64)
    if "SCC" in m.assigned:
        case.out.append(f"scc={out['SCC'].bits}")
    if "M0" in m.assigned:
        put(case, M0, out["M0"].bits, 32)
    if "PC" in m.assigned:
        case.out.append(f"pc={(out['PC'].value - 0x1000) & (1 << 64) - 1:x}")


def put(case, register, value, width):
    case.out.append(f"s{register}={value & 0xFFFFFFFF:x}")
    if width == 64:
        case.out.append(f"s{register + 1}={value >> 32 & 0xFFFFFFFF:x}")


def arithmetic(family, name):
    text = text_of(name, family + "Op" if False else None)
    wide, first, second = widths(text, name)
    for k in range(24):
        case = Case(name, "")
        case.scalars.update({SCC: k & 1, M0: 5})
        case.exec = RNG.getrandbits(64) if k else 0
        shown, values = [], []
        for at, width in ((16, first), (18, second)):
            if at == 18 and family == "Sop1":
                continue
            source, value = operand(case, at, width, k > 4 and "0x" not in "".join(shown))
            shown.append(source)
            values.append(value)
        if k in (1, 2, 3) and len(values) == 2 and first == second:
            # Equal, or only in the lower half.
            values[1] = values[0] ^ ((k == 3) << 40 if first == 64 else 0)
            put_value(case, 18, values[1], first)
        if k in (3, 4) and len(values) == 1:
            values[0] = (1 << first) - 1 if k == 3 else 0
            put_value(case, 16, values[0], first)
        if shown[-1] == "s18" and "bitcmp" in name:
            values[1] = RNG.randrange(64)
            put_value(case, 18, values[1], 32)
        dst = "s[20:21]" if wide == 64 else "s20"
        old = i64()
        case.set64(20, old)
        case.asm = f"{name} " + ", ".join(shown if family == "Sopc" else [dst, *shown])
        case.evaluate = lambda case=case, values=values: run(case, text, values, wide)
        yield case


def put_value(case, register, value, width):
    if width == 64:
        case.set64(register, value)
    else:
        case.scalars[register] = value


def immediate(name):
    text = text_of(name)
    for k in range(30):
        case = Case(name, "")
        value = RNG.choice([0, 1, 0x7FFF, 0x8000, 0xFFFF, RNG.getrandbits(16)])
        case.scalars[SCC] = k & 1
        case.scalars[20] = RNG.choice([value, value, max(value - 1, 0), value >> 1, value + 1, V(value, 16, "I").value & 0xFFFFFFFF, i32(), 0x7FFFFFFF, 0x80000001])
        case.asm = f"{name} s20, {value:#x}"
        before = {"S0": V(case.scalars[20], 32, "B")} if "cmpk" in name else {}
        case.evaluate = lambda case=case, value=value, before=before: run(case, text, [], 32, 20, before, value)
        yield case


def branch(name):
    # The text multiplies in 16 bits, which jumps of more than 32 KB are not cut to.
    text = text_of(name).replace("signext(SIMM16.i16 * 16'4)", "signext(SIMM16.i16) * 4LL")
    for k in range(8):
        case = Case(name, "")
        offset = RNG.choice([-32768, -5, 9, 32767])
        # Each of the conditions without the others.
        case.scalars[SCC] = k & 1
        case.set64(VCC, 0 if k & 2 else 1 << RNG.randrange(64))
        case.exec = 0 if k & 4 else 1 << RNG.randrange(64)
        case.asm = f"{name} {offset & 0xFFFF}"
        case.evaluate = lambda case=case, offset=offset: run(case, text, [], 32, 20, {"SIMM16": V(offset, 16, "I")})
        yield case


def special():
    """What has no text, or one about things that a case doesn't have."""
    def case(name, asm, scalars, out, exec_mask=(1 << 64) - 1):
        made = Case(name, asm)
        made.scalars, made.out, made.exec = scalars, out, exec_mask
        return made

    yield case("s_getpc_b64", "s_getpc_b64 s[20:21]", {}, ["s20=1004", "s21=0"])
    yield case("s_setpc_b64", "s_setpc_b64 s[16:17]", {16: 0x2340, 17: 1}, ["pc=100001340"])
    yield case("s_swappc_b64", "s_swappc_b64 s[20:21], s[16:17]", {16: 0x2340, 17: 1}, ["s20=1004", "s21=0", "pc=100001340"])
    yield case("s_call_b64", "s_call_b64 s[20:21], 7", {}, ["s20=1004", "s21=0", "pc=20"])
    for name, wide in (("s_movrels_b32", 32), ("s_movrels_b64", 64), ("s_movreld_b32", 32), ("s_movreld_b64", 64)):
        pair = lambda r: f"s[{r}:{r + 1}]" if wide == 64 else f"s{r}"
        rel = 16 + 6 if "rels" in name else 20 + 6
        scalars = {M0: 6, 16: 5, 17: 6, 22: 0xABC, 23: 0xDEF}
        value = [0xABC, 0xDEF] if "rels" in name else [5, 6]
        to = 20 if "rels" in name else rel
        yield case(name, f"{name} {pair(20)}, {pair(16)}", scalars, [f"s{to + n}={value[n]:x}" for n in range(wide // 32)])
    for name in ("s_cmov_b32", "s_cmov_b64"):
        wide = name.endswith("64")
        for scc in (0, 1):
            scalars = {16: 0x55, 17: 0x66, 20: 1, 21: 2, SCC: scc}
            out = ["s20=55"] + (["s21=66"] if wide else []) if scc else []
            yield case(name, f"{name} " + ("s[20:21], s[16:17]" if wide else "s20, s16"), scalars, out)
    yield case("s_set_gpr_idx_on", "s_set_gpr_idx_on s16, gpr_idx(SRC0,DST)", {16: 0x1234, M0: 0xFFFF0FAA}, [f"s{M0}=ffff9f34"])
    yield case("s_set_gpr_idx_idx", "s_set_gpr_idx_idx s16", {16: 0x1234, M0: 0xFFFF0FAA}, [f"s{M0}=ffff0f34"])
    yield case("s_set_gpr_idx_mode", "s_set_gpr_idx_mode gpr_idx(SRC1)", {M0: 0xFFFFFFAA}, [f"s{M0}=ffff2faa"])
    yield case("s_set_gpr_idx_off", "s_set_gpr_idx_off", {}, [])
    # Mode: round to nearest, denormals, DX10 clamp off, IEEE.
    yield case("s_getreg_b32", "s_getreg_b32 s20, hwreg(HW_REG_MODE)", {}, ["s20=2f0"])
    yield case("s_getreg_b32", "s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 5)", {}, ["s20=f"])
    yield case("s_getreg_b32", "s_getreg_b32 s20, hwreg(HW_REG_SH_MEM_BASES, 16, 16)", {}, ["s20=4000"])
    yield case("s_getreg_b32", "s_getreg_b32 s20, hwreg(HW_REG_SH_MEM_BASES, 0, 16)", {}, ["s20=5000"])
    yield case("s_setreg_b32", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s16", {16: 0xFFFFFFF1}, ["mode=2d0"])
    yield case("s_setreg_imm32_b32", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0x3", {}, ["mode=230"])
    for text, low, high in (("src_shared_base", 0, 0x40000000), ("src_private_base", 0, 0x50000000)):
        yield case("s_mov_b64", f"s_mov_b64 s[20:21], {text}", {}, [f"s20={low:x}", f"s21={high:x}"])
        yield case("s_mov_b32", f"s_mov_b32 s20, {text}", {}, [f"s20={high:x}"])
    for text, scalars, exec_mask, value in (("src_vccz", {VCC: 0}, 1, 1), ("src_vccz", {VCC + 1: 4}, 1, 0), ("src_execz", {}, 0, 1), ("src_execz", {}, 1 << 40, 0), ("src_scc", {SCC: 1}, 1, 1), ("src_scc", {}, 1, 0)):
        yield case("s_mov_b32", f"s_mov_b32 s20, {text}", scalars, [f"s20={value:x}"], exec_mask)
    for name, asm in NOTHING.items():
        stop = {"s_barrier": ["pause=Barrier"], "s_sleep": ["pause=Sleep"], "s_endpgm": ["pause=Ended"]}
        addresses = {0: 0x1000, 1: 0x700, 2: 0xFFFFFFFF, 3: 0, M0: 0xFFFF}
        yield case(name, asm, {SCC: 1} | addresses, stop.get(name, []), 0)
        yield case(name, asm, {SCC: 0, VCC: 9} | addresses, stop.get(name, []))
    yield case("s_trap", "s_trap 2", {}, ["refused=1"])


SPECIAL = {"s_getpc_b64", "s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_movrels_b32", "s_movrels_b64", "s_movreld_b32", "s_movreld_b64", "s_cmov_b32", "s_cmov_b64", "s_set_gpr_idx_on", "s_set_gpr_idx_idx", "s_set_gpr_idx_mode", "s_set_gpr_idx_off", "s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32", "s_trap"}


def cases():
    for family, name in NAMES:
        if name in SPECIAL or name in NOTHING:
            continue
        if family in ("Sop1", "Sop2", "Sopc"):
            yield from arithmetic(family, name)
        elif family == "Sopk":
            yield from immediate(name)
        elif family == "Sopp":
            yield from branch(name)
    yield from special()
