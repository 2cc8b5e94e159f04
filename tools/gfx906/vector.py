"""Cases for vector instructions: every encoding that an operation has, with the modifiers of each."""

import math
import re

import pcode
from base import ARRAYS, DENORM_WIDTH, NAMES, RNG, WIDE, Case, machine, some_lanes, text_of
from pcode import V, from_float

APPROXIMATE = re.compile(r"v_(rcp|rsq|sqrt|exp|log|sin|cos)_")
# The carry or the mask comes in through VCC, or operand 2 of the longer encoding.
TAKES_MASK = ("v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32", "v_cndmask_b32")
GIVES_MASK = TAKES_MASK[:3] + ("v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_div_scale_f32", "v_div_scale_f64", "v_mad_u64_u32", "v_mad_i64_i32")
SATURATES = {"v_add_u32", "v_sub_u32", "v_subrev_u32", "v_add_i32", "v_sub_i32", "v_add_u16", "v_sub_u16", "v_subrev_u16", "v_add_i16", "v_sub_i16"}
PACKED_SATURATES = {"v_pk_add_i16", "v_pk_sub_i16", "v_pk_add_u16", "v_pk_sub_u16"}
KEEPS = {"v_mad_f16", "v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16", "v_fma_mixlo_f16", "v_fma_mixhi_f16"}
INLINE = {"f": {"1.0": 0x3F800000, "-4.0": 0xC0800000, "0.15915494": 0x3E22F983, "5": 5, "-7": 0xFFFFFFF9}, "h": {"1.0": 0x3C00, "-0.5": 0xB800, "0.15915494": 0x3118, "3": 3, "-2": 0xFFFFFFFE}, "d": {"2.0": 0x4000 << 48, "-0.5": 0xBFE0 << 48, "0.15915494309189532": 0x3FC45F306DC9C882, "9": 9, "-3": (1 << 64) - 3}, "i": {"1.0": 0x3F800000, "33": 33, "-16": 0xFFFFFFF0, "0": 0, "64": 64, "0.5": 0x3F000000}, "l": {"17": 17, "-1": (1 << 64) - 1, "64": 64}, "p": {"3": 3, "-2": 0xFFFFFFFE}}
LITERAL = {"f": 0x40490FDB, "h": 0x4248, "d": 0x400921FB, "i": 0x12345678, "l": 0x12345678}


class Signature:
    def __init__(self, name):
        self.name, self.text = name, text_of(name)
        if self.text is None:
            raise KeyError(name)
        self.sources, self.short = [], []
        for k in range(3):
            if re.search(rf"\bS{k}\b", self.text) or "SRC[i]" in self.text:
                self.sources.append(self.operand(rf"S{k}", f"S{k}"))
                self.short.append(bool(re.search(rf"\bS{k}\.[uif]16", self.text)))
        self.compare = name.startswith("v_cmp")
        if self.compare and not self.sources:
            # Always false, or true: its operands are of the type in its name.
            kind = {"f16": "h", "f32": "f", "f64": "d", "i64": "l", "u64": "l"}.get(name[-3:], "i")
            self.sources, self.short = [kind] * 2, [name.endswith("16")] * 2
        d = re.findall(r"\bD0(?:\[[^\]]*\])?\.([a-z]+\d+)", self.text)
        self.dst = d[0] if d else "f16" if "tmp.f16" in self.text else "u32"
        self.pair = "v_pk_" in name or "cvt_pk" in name
        self.width = max([pcode.split(t)[1] for t in d if t[0] in "ufib"] or [32])

    def operand(self, pattern, plain):
        types = re.findall(rf"\b{pattern}(?:\[[^\]]*\])?\.([a-z]+\d+)", self.text)
        types = [t for t in types if t[0] in "ufib"] or ["f16" if "mix" in self.name or "dot2_f32_f16" in self.name else "u32"]
        if "mix" in self.name:
            return "p"
        first = max(types, key=lambda t: pcode.split(t)[1])
        sliced = re.search(rf"\b{pattern}\[(31|63) : ", self.text) and first[1:] == "16"
        if first == "f64":
            return "d"
        if first[1:] == "64":
            return "l"
        if first == "f16" or "f16" in types:
            return "p" if sliced else "h"
        return "f" if "f32" in types else "i"


def float_bits(kind):
    return {"f": 32, "h": 16, "d": 64, "p": 16}.get(kind)


def modified(bits, kind, absolute, negative):
    width = float_bits(kind)
    if width and absolute:
        bits &= ~(1 << (width - 1))
    if width and negative:
        bits ^= 1 << (width - 1)
    return bits


def finished(value, width, omod, clamp):
    """Output modifiers of a float."""
    v = V(value, width, "F")
    if omod:
        v = pcode.scaled(v, {1: 1, 2: 2, 3: -1}[omod])
    if clamp:
        x = v.value
        v = from_float(0.0, width) if math.isnan(x) or x <= 0 else v if x < 1 else from_float(1.0, width)
    return v.bits


def saturated(name, s, d0):
    """What clamping means for integers: the exact result within its type."""
    width = int(name[-2:])
    signed = name[-3] == "i"
    to = lambda x: V(x, width, "I" if signed else "U").value
    a, b = to(s[0]), to(s[1])
    a, b = (b, a) if "rev" in name else (a, b)
    exact = a + b if "add" in name else a - b
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return max(low, min(high, exact)) & ((1 << width) - 1)


class Form:
    """How a case is written, and what its modifiers do."""

    def __init__(self, kind, **fields):
        self.kind = kind
        self.abs = self.neg = self.omod = self.op_sel = self.neg_hi = 0
        self.op_sel_hi = 7
        self.clamp = self.same = False
        self.sdwa = self.dpp = None
        self.vary = 0
        self.__dict__.update(fields)


SELECT = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"]


def selected(bits, select, sext):
    if select == 6:
        return bits
    first, width = (8 * select, 8) if select < 4 else (16 * (select - 4), 16)
    return V(bits >> first, width, "I" if sext else "U").value & 0xFFFFFFFF


def placed(value, old, select, unused):
    if select == 6:
        return value
    first, width = (8 * select, 8) if select < 4 else (16 * (select - 4), 16)
    mask = ((1 << width) - 1) << first
    part = value << first & mask
    if unused == 2:
        return old & ~mask | part
    if unused == 1 and value >> (width - 1) & 1:
        return part | ~((1 << (first + width)) - 1) & 0xFFFFFFFF
    return part


def dpp_source(control, lane):
    row, at, n = lane & ~15, lane & 15, control & 15
    if control < 0x100:
        return lane & ~3 | control >> (2 * (lane & 3)) & 3
    group = control >> 4
    if group == 0x10:
        return lane + n if at + n < 16 else None
    if group == 0x11:
        return lane - n if at >= n else None
    if group == 0x12:
        return row | (at - n) & 15
    return {0x130: lane + 1 if lane < 63 else None, 0x134: (lane + 1) & 63, 0x138: lane - 1 if lane else None, 0x13C: (lane - 1) & 63, 0x140: row | 15 - at, 0x141: lane ^ 7, 0x142: row - 1 if row else None, 0x143: 31 if lane >= 32 else None}[control]


DPP = [(0x1B, "quad_perm:[3,2,1,0]"), (0xC9, "quad_perm:[1,2,0,3]"), (0x101, "row_shl:1"), (0x10F, "row_shl:15"), (0x113, "row_shr:3"), (0x124, "row_ror:4"), (0x130, "wave_shl:1"), (0x134, "wave_rol:1"), (0x138, "wave_shr:1"), (0x13C, "wave_ror:1"), (0x140, "row_mirror"), (0x141, "row_half_mirror"), (0x142, "row_bcast:15"), (0x143, "row_bcast:31")]


def build(name, signature, form, serial):
    """The case, or None where the operation has no such form."""
    s, case = signature, Case(name, "")
    kinds = s.sources
    long = form.kind in ("e64", "vop3")
    if form.kind in ("sdwa", "dpp") and (s.width == 64 and not s.compare or any(k in WIDE for k in kinds)):
        return None
    case.exec = (1 << 64) - 1 if form.vary == 0 else some_lanes(20 if form.kind == "dpp" else 12)
    operands, texts, used = [], [], 0
    for k, kind in enumerate(kinds):
        register = 0 if form.same else 2 * k
        wide = kind in WIDE
        array = f"{kind}{(k + serial) % 8}"
        choice = form.vary and RNG.randrange(4) if form.kind not in ("sdwa", "dpp") else 0
        # One operand may be something else than a vector register: the first, or any of the longer form.
        if choice and not used and (k == 0 or long) and "mix" not in name and not s.pair:
            used = 1
            if choice == 1:
                operands.append(("s", 16))
                case.set64(16, ARRAYS[array][0] & ((1 << 64) - 1))
                texts.append("s[16:17]" if wide else "s16")
                continue
            if choice == 2 or long or kind not in LITERAL:
                # The result of a float for an integer of 16 bits is not defined.
                text = RNG.choice([text for text in INLINE[kind] if "." not in text or not (kind == "i" and s.short[k])])
                operands.append(("c", INLINE[kind][text]))
                texts.append(text)
                continue
            literal = LITERAL[kind]
            operands.append(("c", literal << 32 if kind == "d" else literal))
            texts.append(hex(literal))
            continue
        if not (form.same and k):
            case.load(register, array)
            if s.compare and not wide:
                # What a test of longer operands would see beyond, NaN among it.
                case.load(register + 1, f"i{(k + serial + 3) % 8}")
        operands.append(("v", register))
        texts.append(f"v[{register}:{register + 1}]" if wide else f"v{register}")
    shown = list(texts)
    if form.kind in ("e64", "vop3", "dpp", "sdwa") or "mix" in name:
        for k, kind in enumerate(kinds):
            if form.abs >> k & 1 and float_bits(kind):
                shown[k] = f"|{shown[k]}|"
            if form.neg >> k & 1 and float_bits(kind):
                # "-5" would be the constant minus five.
                shown[k] = f"neg({shown[k]})" if operands[k][0] == "c" and "|" not in shown[k] else f"-{shown[k]}"
    if form.sdwa:
        for k in range(len(kinds)):
            if form.sdwa["sext"][k] and not float_bits(kinds[k]):
                shown[k] = f"sext({texts[k]})"
    wide_dst = s.width == 64 and not s.compare
    case.load(6, ("d" if wide_dst else "p" if "16" in s.dst or "mix" in name else "f" if "f32" in s.dst else "i") + str((serial + 5) % 8))
    dst = "v[6:7]" if wide_dst else "v6"
    mask_in = RNG.getrandbits(64)
    parts, mask_at, mask_to = [dst], 106, 106
    if s.compare:
        mask_to = 10 if long else 106
        parts = ["s[10:11]" if long else "vcc"]
    elif name in GIVES_MASK:
        mask_to = 10 if long else 106
        parts.append("s[10:11]" if long else "vcc")
    if name in TAKES_MASK:
        mask_at = 12 if long else 106
    parts += shown
    if name in TAKES_MASK:
        parts.append("s[12:13]" if long else "vcc")
    case.set64(mask_at, mask_in)
    simm = 0
    if name in ("v_madmk_f32", "v_madak_f32", "v_madmk_f16", "v_madak_f16"):
        simm = LITERAL["f" if name.endswith("32") else "h"]
        parts.insert(2 if "mk" in name else 3, hex(simm))
    suffix = {"vop3": "", "vop3p": "", "plain": ""}.get(form.kind, "_" + form.kind)
    asm = f"{name}{suffix} " + ", ".join(parts)
    if form.clamp and form.kind != "vop3p":
        asm += " clamp"
    if form.omod:
        asm += ["", " mul:2", " mul:4", " div:2"][form.omod]
    if form.sdwa:
        w = form.sdwa
        if not s.compare:
            asm += f" dst_sel:{SELECT[w['dst']]} dst_unused:UNUSED_{['PAD', 'SEXT', 'PRESERVE'][w['unused']]}"
        asm += "".join(f" src{k}_sel:{SELECT[w['src'][k]]}" for k in range(len(kinds)))
    if form.dpp:
        asm += f" {form.dpp['text']} row_mask:{form.dpp['rows']:#x} bank_mask:{form.dpp['banks']:#x}" + (" bound_ctrl:0" if form.dpp["zero"] else "")
    if form.kind == "vop3p":
        bits = lambda x: "[" + ",".join(str(x >> k & 1) for k in range(len(kinds))) + "]"
        asm += f" op_sel:{bits(form.op_sel)} op_sel_hi:{bits(form.op_sel_hi)}"
        if "f16" in name and "_f16" in name or "mix" in name:
            if "mix" in name:
                asm = asm  # neg and abs are written at the operands
            elif form.neg or form.neg_hi:
                asm += f" neg_lo:{bits(form.neg)} neg_hi:{bits(form.neg_hi)}"
        else:
            form.neg = form.neg_hi = 0
        asm += " clamp" if form.clamp else ""
    elif form.op_sel:
        asm += " op_sel:[" + ",".join(str(form.op_sel >> k & 1) for k in [*range(len(kinds)), 3]) + "]"
    case.asm = asm
    case.evaluate = lambda: evaluate(case, name, s, form, operands, mask_in, mask_to, simm)
    return case


def source(case, operand, kind, lane):
    what, at = operand
    if what == "c":
        return at
    if what == "s":
        return case.scalar(at, 64 if kind in WIDE else 32)
    return case.wide(at, lane) if kind in WIDE else case.vgpr(at, lane)


def evaluate(case, name, s, form, operands, mask_in, mask_to, simm):
    values, high, mask, written = {}, {}, 0, case.lanes()
    DENORM_WIDTH[0] = 64 if s.width == 64 else 32
    if form.dpp:
        written = [lane for lane in written if dpp_active(form.dpp, lane, case.exec)]
    for lane in written:
        raw = [source(case, operand, kind, lane) for operand, kind in zip(operands, s.sources)]
        if form.dpp:
            at = dpp_source(form.dpp["control"], lane)
            inside = at is not None and case.exec >> at & 1
            raw[0] = source(case, operands[0], s.sources[0], at) if inside else 0
        if form.sdwa:
            raw = [selected(x, form.sdwa["src"][k], form.sdwa["sext"][k] and not float_bits(s.sources[k])) for k, x in enumerate(raw)]
        if form.op_sel and form.kind != "vop3p":
            raw = [x >> 16 if form.op_sel >> k & 1 and s.short[k] else x for k, x in enumerate(raw)]
        raw, opsel = packed(raw, name, s, form) if form.kind == "vop3p" else (raw, 0)
        if form.kind != "vop3p":
            raw = [modified(x, kind, form.abs >> k & 1, form.neg >> k & 1) for k, (x, kind) in enumerate(zip(raw, s.sources))]
        old = case.wide(6, lane) if s.width == 64 and not s.compare else case.vgpr(6, lane)
        env = {f"S{k}": V(x, 64, "B") for k, x in enumerate(raw)}
        env |= {"D0": V(0 if s.compare else old, 64, "B"), "VCC": V(mask_in, 64, "U"), "EXEC": V(case.exec, 64, "U"), "laneId": V(lane, 32, "U"), "SIMM32": V(simm, 32, "B"), "SIMM16": V(simm, 16, "B")}
        if "mix" in name:
            env |= {"SRC": [V(x, 32, "B") for x in raw], "in": [V(0, 32, "B")] * 3, "OPSEL": V(form.op_sel, 3, "U"), "OPSEL_HI": V(form.op_sel_hi, 3, "U")}
            env = mixed(env, raw, form)
        if "div_scale" in name:
            env["D0"] = V(raw[0], 64, "B")
        out = machine(env).run(s.text)
        result = out["D0"].bits
        if name in SATURATES and form.clamp:
            result = saturated(name, raw, old)
        if name in PACKED_SATURATES and form.clamp:
            halves = [saturated(name, [x >> shift & 0xFFFF for x in raw], 0) for shift in (0, 16)]
            result = halves[0] | halves[1] << 16
        flag = out["VCC"].bits >> lane & 1
        if "div_scale" in name:
            flag = out["VCC"].bits & 1
        if name.startswith("v_mad_") and s.width == 64:
            flag = out["D1"].bits & 1
        if s.compare:
            flag = result >> lane & 1
        mask |= flag << lane
        result = output(result, old, name, s, form)
        values[lane], high[lane] = result & 0xFFFFFFFF, result >> 32
    outputs(case, name, s, form, values, high, mask, mask_to)


def dpp_active(dpp, lane, exec_mask):
    at = dpp_source(dpp["control"], lane)
    inside = at is not None and exec_mask >> at & 1
    return dpp["rows"] >> lane // 16 & 1 and dpp["banks"] >> lane // 4 % 4 & 1 and (dpp["zero"] or inside)


def packed(raw, name, s, form):
    if "mix" in name or "dot" in name and "f16" not in name:
        return raw, 0
    out = []
    for k, x in enumerate(raw):
        if "dot" in name and k == 2:
            out.append(x)
            continue
        low = x >> 16 if form.op_sel >> k & 1 else x & 0xFFFF
        high = x >> 16 if form.op_sel_hi >> k & 1 else x & 0xFFFF
        if form.neg >> k & 1:
            low ^= 0x8000
        if form.neg_hi >> k & 1:
            high ^= 0x8000
        out.append(low & 0xFFFF | (high & 0xFFFF) << 16)
    return out, 0


def mixed(env, raw, form):
    """Signs of a mixed operand: on the float that it becomes, which has the sign of its bits."""
    bits = []
    for k, x in enumerate(raw):
        sign = 0x80000000 if not form.op_sel_hi >> k & 1 or form.op_sel >> k & 1 else 0x8000
        if form.abs >> k & 1:
            x &= ~sign
        if form.neg >> k & 1:
            x ^= sign
        bits.append(V(x, 32, "B"))
    return env | {"SRC": bits}


def output(result, old, name, s, form):
    if s.compare:
        return 0
    if s.width == 64:
        return finished(result, 64, form.omod, form.clamp) if s.dst == "f64" else result
    result &= 0xFFFFFFFF
    float16 = s.dst == "f16" and not s.pair and "mix" not in name and name != "v_pack_b32_f16"
    if name in KEEPS:
        half = result >> 16 if name.endswith("mixhi_f16") else result & 0xFFFF
        half = finished(half, 16, form.omod, form.clamp) if s.dst == "f16" else half
        if form.op_sel & 8 and form.kind != "vop3p":
            return old & 0xFFFF | half << 16
        return result & 0xFFFF | half << 16 if name.endswith("mixhi_f16") else result & 0xFFFF0000 | half
    if name == "v_sat_pk_u8_i16":
        result &= 0xFFFF
    elif float16 or s.dst in ("u16", "i16", "b16") and not s.pair and "[15 : 0]" not in s.text.replace("S", ""):
        result &= 0xFFFF
        if s.dst == "f16":
            result = finished(result, 16, form.omod, form.clamp)
        if form.op_sel & 8 and form.kind != "vop3p":
            return old & 0xFFFF | result << 16
    elif s.dst == "f32":
        result = finished(result, 32, form.omod, form.clamp)
    elif "v_pk" in name and "f16" in name and form.clamp:
        result = finished(result & 0xFFFF, 16, 0, True) | finished(result >> 16, 16, 0, True) << 16
    if form.sdwa:
        result = placed(result, old, form.sdwa["dst"], form.sdwa["unused"])
    return result


def outputs(case, name, s, form, values, high, mask, mask_to):
    kind = {"f32": "f", "f16": "h", "f64": "d"}.get(s.dst, "x")
    if s.pair and "f16" in name and "norm" not in name or "mix" in name and "16" in name or "fma_legacy" in name:
        kind = "p"
    if form.op_sel & 8 or name in KEEPS:
        kind = "p" if kind == "h" else kind
    if form.sdwa and kind == "h" and not APPROXIMATE.match(name):
        kind = "p"
    if APPROXIMATE.match(name):
        kind += "1"
    full = case.exec
    case_lanes = case.lanes()
    if s.compare:
        case.out.append(f"s{mask_to}={mask & 0xFFFFFFFF:x}")
        case.out.append(f"s{mask_to + 1}={mask >> 32:x}")
        if "cmpx" in name:
            case.out += [f"s126={mask & 0xFFFFFFFF:x}", f"s127={mask >> 32:x}"]
        return
    merged = {lane: values.get(lane, case.vgpr(6, lane)) for lane in case_lanes}
    case.put(6, kind if s.width != 64 or kind == "x" else kind, merged)
    if s.width == 64:
        case.put(7, "x" if kind == "x" else "D", {lane: high.get(lane, case.vgpr(7, lane)) for lane in case_lanes})
    if name in GIVES_MASK:
        case.out.append(f"s{mask_to}={mask & 0xFFFFFFFF:x}")
        case.out.append(f"s{mask_to + 1}={mask >> 32:x}")


def forms(name, family, s):
    floats = [bool(float_bits(kind)) for kind in s.sources]
    any_float = any(floats)
    float_out = s.dst in ("f32", "f16", "f64")
    bits = lambda: RNG.getrandbits(3)
    if family == "Vop3p":
        yield Form("vop3p", op_sel=0, op_sel_hi=7)
        for k in range(3):
            signs = {"abs": bits(), "neg": bits()} if "mix" in name else {"neg": bits(), "neg_hi": bits()}
            if "dot" in name and "f16" not in name:
                signs = {}
            select = {"op_sel": bits(), "op_sel_hi": bits()} if "dot" not in name or "f16" in name else {}
            yield Form("vop3p", vary=k + 1, clamp=k == 2 and ("f16" in name or "mix" in name or name in PACKED_SATURATES), **signs, **select)
        return
    short = family in ("Vop1", "Vop2", "Vopc")
    yield Form("e32" if short else "vop3")
    yield Form("e32" if short else "vop3", vary=1)
    yield Form("e32" if short else "vop3", vary=2)
    if s.compare:
        yield Form("e32", same=True)
    long = "e64" if short else "vop3"
    if short:
        yield Form("e64", vary=1)
    if any_float:
        yield Form(long, abs=bits(), neg=bits() | 1, vary=1)
        yield Form(long, abs=7, neg=bits(), vary=2)
    if float_out and name not in ("v_div_scale_f32", "v_div_scale_f64"):
        yield Form(long, omod=RNG.choice([1, 2, 3]), vary=1)
        yield Form(long, clamp=True, vary=1)
        yield Form(long, clamp=True, omod=RNG.choice([1, 2, 3]), neg=bits(), vary=2)
    if name in SATURATES:
        yield Form(long, clamp=True, vary=0)
    if family == "Vop3" and ("16" in name):
        for select in (1, 2, 4, 8, 15):
            yield Form("vop3", op_sel=select, vary=1)
    if short:
        for k in range(3):
            selects = [RNG.randrange(7), RNG.randrange(7)]
            sext = [RNG.random() < 0.5, RNG.random() < 0.5]
            parts = [6] if s.dst == "f32" else [6] if APPROXIMATE.match(name) else [4, 5, 6] if s.dst == "f16" else range(7)
            yield Form("sdwa", vary=k + 1, sdwa={"dst": RNG.choice(parts) if k else 6, "unused": RNG.randrange(3), "src": selects, "sext": sext}, abs=bits() if k == 1 else 0, neg=bits() if k else 0)
        for k in range(2):
            control, text = RNG.choice(DPP)
            yield Form("dpp", vary=k + 1, dpp={"control": control, "text": text, "rows": RNG.choice([15, RNG.randrange(16)]), "banks": RNG.choice([15, RNG.randrange(16)]), "zero": RNG.random() < 0.5}, abs=bits() if k else 0, neg=bits() if k else 0)


SPECIAL = {"v_nop", "v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32", "v_swap_b32"}


def cases():
    serial = 0
    for family, name in NAMES:
        if family not in ("Vop1", "Vop2", "Vop3", "Vop3p", "Vopc") or name in SPECIAL:
            continue
        signature = Signature(name)
        for form in forms(name, family, signature):
            serial += 1
            case = build(name, signature, form, serial)
            if case:
                yield case
    # Every lane control, on a plain move.
    signature = Signature("v_mov_b32")
    for control, text in DPP:
        for zero in (False, True):
            form = Form("dpp", vary=1, dpp={"control": control, "text": text, "rows": 15, "banks": 15, "zero": zero})
            yield build("v_mov_b32", signature, form, serial)
            full = Form("dpp", vary=0, dpp={"control": control, "text": text, "rows": 13, "banks": 11, "zero": zero})
            yield build("v_mov_b32", signature, full, serial)
    yield from special()


def special():
    for k in range(3):
        case = Case("v_readfirstlane_b32", "v_readfirstlane_b32 s20, v0")
        case.load(0, f"i{k}")
        case.exec = [some_lanes(9), 1 << 63, 0][k]
        lane = (case.exec & -case.exec).bit_length() - 1 if case.exec else 0
        case.out = [f"s20={case.vgpr(0, lane):x}"]
        yield case
        case = Case("v_readlane_b32", f"v_readlane_b32 s20, v0, {['s16', '37', 'm0'][k]}")
        case.load(0, f"i{k + 3}")
        case.scalars = {16: 0x12345649, 124: 63}
        case.exec = some_lanes(5)
        case.out = [f"s20={case.vgpr(0, [9, 37, 63][k]):x}"]
        yield case
        case = Case("v_writelane_b32", f"v_writelane_b32 v0, {['m0', '-9', 's17'][k]}, {['m0', '61', '8'][k]}")
        case.load(0, "i2")
        case.scalars = {17: 0xCAFE0002, 124: 0xFFFFFF43}
        lane, value = [(3, 0xFFFFFF43), (61, 0xFFFFFFF7), (8, 0xCAFE0002)][k]
        # Whether the lane is active doesn't matter.
        case.exec = [~(1 << lane) & (1 << 64) - 1, 0, 1 << lane][k]
        case.out = [f"w0.{lane}={value:x}"]
        yield case
        case = Case("v_swap_b32", "v_swap_b32 v0, v2")
        case.load(0, "i4"), case.load(2, "i5")
        case.exec = some_lanes(30 + k)
        case.put(0, "x", {lane: case.vgpr(2, lane) for lane in case.lanes()})
        case.put(2, "x", {lane: case.vgpr(0, lane) for lane in case.lanes()})
        yield case
    yield Case("v_nop", "v_nop")
    yield Case("v_nop", "v_nop_e64")
