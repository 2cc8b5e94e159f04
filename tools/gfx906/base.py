"""Inputs, cases and the evaluation of one operation."""

import glob
import math
import os
import random
import re
import sys
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pcode
from pcode import FUNCTIONS, V, Machine, from_float, from_fraction, to_width
from semantics import CHANGED, EXTRA, fixup, scale

from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

RNG = random.Random(906)
HERE = os.path.dirname(os.path.abspath(__file__))
OPS = os.path.join(HERE, "..", "..", "sim", "reef-gfx906", "src", "isa", "ops")

# --- the pseudocode by plain names


def plain(key):
    return re.sub(r"_E(32|64)$", "", key.name)


TEXT = {}
for key, text in PCODE.items():
    TEXT.setdefault((type(key).__name__, plain(key)), text)
    TEXT.setdefault(plain(key), text)


for bits in (32, 64):
    CHANGED[f"V_DIV_SCALE_F{bits}"] = scale(TEXT[f"V_DIV_SCALE_F{bits}"], bits, 2 * bits)
    CHANGED[f"V_DIV_FIXUP_F{bits}"] = fixup(TEXT[f"V_DIV_FIXUP_F{bits}"], bits)


def rint(_, v):
    x = v.value
    return v if math.isnan(x) or math.isinf(x) else from_fraction(Fraction(round(Fraction(x))), v.width, math.copysign(1, x) < 0)


def below_one(_, v):
    return from_fraction(1 - Fraction(1, 2 ** (pcode.FORMATS[v.width][3] + 1)), v.width) if v.value >= 1 else v


def turned(f):
    def apply(_, v):
        x = v.value
        if math.isnan(x) or math.isinf(x):
            return from_float(math.nan, v.width)
        return from_float(f(math.fmod(x, 1.0) * math.tau), v.width)

    return apply


def fma_ldexp(_, a, b, c, n):
    if any(math.isnan(v.value) or math.isinf(v.value) for v in (a, b, c)):
        return pcode.fma(a, b, c)
    exact = Fraction(a.value) * Fraction(b.value) + Fraction(c.value)
    return from_fraction(exact * Fraction(2) ** n.value, a.width, pcode.fma(a, b, c).bits >> (a.width - 1))


FUNCTIONS.update(
    fma_ldexp=fma_ldexp,
    rint=rint,
    below_one=below_one,
    turn_sin=turned(math.sin),
    turn_cos=turned(math.cos),
    frexp_exponent=lambda _, v: V(math.frexp(v.value)[1], 32, "I"),
)


def text_of(name, family=None):
    upper = name.upper()
    if upper in EXTRA:
        return EXTRA[upper]
    if upper in CHANGED:
        return CHANGED[upper]
    if upper.startswith("V_CMPX"):
        upper = upper.replace("V_CMPX", "V_CMP")
    return TEXT.get((family, upper)) or TEXT.get(upper)


def call(name, values):
    """An operation inside of another's text: `v_min_f32(a, b)`."""
    inner = machine({f"S{k}": v for k, v in enumerate(values)} | {"D0": V(0, 64, "B")})
    if name == "s_ff1_i32_b64":
        inner.env["S0"] = values[0]
    out = inner.run(text_of(name))["D0"]
    kind = name.rsplit("_", 1)[1]
    to, width = pcode.split(kind) if kind[0] in "fui" and kind[1:].isdigit() else ("U", 32)
    if name in ("v_sad_u8", "v_msad_u8"):
        to, width = "U", 32
    return V(out.bits, width, to)


def denormal(a, width):
    # "DENORM" of either width is read as: denormal in the width of the operation.
    x = to_width(a, DENORM_WIDTH[0]) if a.width != DENORM_WIDTH[0] else a
    return x.value != 0 and not math.isnan(x.value) and abs(x.value) < 2.0 ** (1 - {32: 127, 64: 1023}[x.width])


DENORM_WIDTH = [32]


def machine(variables, memory=None):
    env = {"WAVE_MODE_IEEE": V(1, 1, "U"), "SCC": V(0, 1, "U"), "OPSEL": V(0, 4, "U"), "laneId": V(0, 32, "U")}
    env.update(variables)
    return Machine(env, call, memory, denormal)


for texts, k, text in [(texts, k, text) for texts in (TEXT, CHANGED) for k, text in texts.items()]:
    texts[k] = text.replace("WAVE_MODE.IEEE", "WAVE_MODE_IEEE").replace("+INF.f32", "INF.f32").replace("-INF.f32", "(-INF).f32").replace("+INF.f16", "INF.f16").replace("-INF.f16", "(-INF).f16").replace("-UNDERFLOW_F32", "-0.0F").replace("UNDERFLOW_F32", "0.0F").replace("-OVERFLOW_F32", "(-INF).f32").replace("OVERFLOW_F32", "INF.f32").replace("-UNDERFLOW_F64", "-0.0").replace("UNDERFLOW_F64", "0.0").replace("-OVERFLOW_F64", "-INF").replace("OVERFLOW_F64", "INF")

# --- inputs


def edge(values):
    return lambda: RNG.choice(values)


F32 = [0, 1 << 31, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FA00001, 0xFFC12345, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x3F000000, 0xBF000000, 0x40000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x4F000000, 0xCF000000, 0x4F800000, 0x477FE000, 0x477FF000, 0x33800000, 0x38800000, 0x387FC000, 0x3EFFFFFF, 0xBF7FFFFF]
F16 = [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 0xFE12, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0x3800, 0xB800, 0x4000, 0x3E00, 0x4100, 0xC100, 0x37FF, 0x5BFF]
F64 = [0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0x7FF4 << 48, 0xFFF8 << 48, 0x7FFC << 48, 1, 0xFFFFFFFFFFFFF, 1 << 52, (0x7FF << 52) - 1, 0x3FE << 52, 0x4000 << 48, 0x3FF8 << 48, 0xC004 << 48, 0x41E0 << 48, 0xC1E00000_00200000, 0x41EFFFFF_FFE00000, 0x41DFFFFF_FFFFFFFF, 0x36A0 << 48, 0x47EFFFFF_F0000000]
I32 = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF8000, 0x00FF00FF, 0x0C0D0B0A, 0x00100005, 0x00400000, 0x00200000]


def f32():
    r = RNG.random()
    if r < 0.3:
        return RNG.choice(F32)
    if r < 0.75:
        return RNG.getrandbits(1) << 31 | (127 + RNG.randint(-6, 6)) << 23 | RNG.getrandbits(23)
    return RNG.getrandbits(32)


def f16():
    r = RNG.random()
    if r < 0.3:
        return RNG.choice(F16)
    if r < 0.75:
        return RNG.getrandbits(1) << 15 | (15 + RNG.randint(-5, 5)) << 10 | RNG.getrandbits(10)
    return RNG.getrandbits(16)


def f64():
    r = RNG.random()
    if r < 0.3:
        return RNG.choice(F64)
    if r < 0.75:
        return RNG.getrandbits(1) << 63 | (1023 + RNG.randint(-9, 33)) << 52 | RNG.getrandbits(52)
    return RNG.getrandbits(64)


def i32():
    r = RNG.random()
    if r < 0.4:
        return RNG.choice(I32)
    if r < 0.5:
        return RNG.getrandbits(5)
    return RNG.getrandbits(32)


def i64():
    r = RNG.random()
    if r < 0.4:
        return RNG.choice([0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 32, (1 << 32) - 1, 0xFFFFFFFF00000000])
    return RNG.getrandbits(RNG.choice([8, 33, 64]))


def p16():
    return f16() | f16() << 16


MAKE = {"f": f32, "h": lambda: f16() | RNG.getrandbits(16) << 16, "p": p16, "d": f64, "i": i32, "l": i64}
ARRAYS = {}
for kind, make in MAKE.items():
    for k in range(8):
        ARRAYS[f"{kind}{k}"] = [make() for _ in range(64)]
    for k in range(8):  # Some lanes have equal operands.
        if k & 3:
            for lane in range(64):
                # All of it, or only as much as a shorter type would see.
                mask = RNG.choice([-1, -1, 0xFFFF, 0xFFFFFFFF, ~0xFFFFFFFF if kind in "dl" else -1])
                if RNG.random() < 0.25:
                    mine, other = ARRAYS[f"{kind}{k}"], ARRAYS[f"{kind}{k - 1}"]
                    mine[lane] = mine[lane] & ~mask | other[lane] & mask
# Zero times infinity, and the like, where a case takes two arrays that follow each other.
for kind, (infinity, nan, minus) in {"f": (0x7F800000, 0x7FC00000, 1 << 31), "h": (0x7C00, 0x7E00, 0x8000), "d": (0x7FF << 52, 0x7FF8 << 48, 1 << 63)}.items():
    for k in range(8):
        ARRAYS[f"{kind}{k}"][:4] = [0, infinity, minus, nan] if k & 1 else [infinity, minus, nan, nan]
WIDE = "dl"
ARRAYS["o0"] = [RNG.randrange(0, 24) * 16 for _ in range(64)]
ARRAYS["o1"] = RNG.sample(range(0, 64 * 12, 12), 64)
ARRAYS["o2"] = RNG.sample(range(0, 64 * 16, 16), 64)
MEMORY = bytes(RNG.getrandbits(8) if RNG.random() < 0.7 else RNG.choice([0, 0xFF, 0x7F, 0x80]) for _ in range(2048))

# What comparisons of floats see in another way than those of bits: a zero, and a NaN.
MEMORY = bytearray(MEMORY)
for lane in range(64):
    at = ARRAYS["o2"][lane] + 64
    if lane % 8 == 5:
        MEMORY[at : at + 8] = bytes(8)
    elif lane % 8 == 6:
        MEMORY[at : at + 4] = (0x7FC00000).to_bytes(4, "little")
    elif lane % 8 == 7:
        MEMORY[at : at + 8] = (0x7FF8 << 48).to_bytes(8, "little")
MEMORY = bytes(MEMORY)

# --- cases


class Case:
    """One instruction with its inputs, and what must come out."""

    def __init__(self, name, asm):
        self.name, self.asm, self.code = name, asm, None
        self.vgprs, self.scalars, self.out = {}, {}, []
        self.exec = (1 << 64) - 1
        self.evaluate = None

    def lanes(self):
        return [lane for lane in range(64) if self.exec >> lane & 1]

    def load(self, register, array):
        """Puts an array into a register, or a pair."""
        self.vgprs[register] = array

    def vgpr(self, register, lane):
        for first, array in self.vgprs.items():
            value = ARRAYS[array.lstrip("@")][lane]
            if register == first:
                return value & 0xFFFFFFFF
            if register == first + 1 and array[0] in WIDE:
                return value >> 32
        return 0

    def wide(self, register, lane):
        return self.vgpr(register, lane) | self.vgpr(register + 1, lane) << 32

    def scalar(self, register, width=32):
        value = self.scalars.get(register, 0)
        return value | self.scalars.get(register + 1, 0) << 32 if width == 64 else value

    def set64(self, register, value):
        self.scalars[register] = value & 0xFFFFFFFF
        self.scalars[register + 1] = value >> 32

    def put(self, register, kind, values):
        """A result for the active lanes."""
        data = "".join(f"{values[lane] & 0xFFFFFFFF:08x}" for lane in self.lanes())
        self.out.append(f"v{register}:{kind}={data}")

    def line(self):
        v = ",".join(f"v{r}={a}" for r, a in self.vgprs.items())
        text = lambda x: x if isinstance(x, str) else f"{x:x}"
        s = ",".join(f"s{r}={text(x)}" for r, x in sorted(self.scalars.items()))
        name = getattr(self, "op", self.name)
        return f"{name}|{self.asm}|{self.code}|{v}|{s}|{self.exec:x}|{','.join(self.out)}"


def some_lanes(n=14):
    return sum(1 << lane for lane in RNG.sample(range(64), n))


def names():
    out = []
    for path in sorted(glob.glob(os.path.join(OPS, "*.rs"))):
        text = open(path).read()
        out += re.findall(r'^\s+(Sop1|Sop2|Sopk|Sopc|Sopp|Smem|Vop1|Vop2|Vop3|Vop3p|Ds|Mubuf|Flat) \S+ "(\w+)"', text, re.M)
    for kind in "u16 i16 u32 i32 u64 i64".split():
        for test in "f lt eq le gt ne ge t".split():
            out += [("Vopc", f"v_cmp_{test}_{kind}"), ("Vopc", f"v_cmpx_{test}_{kind}")]
    for kind in "f16 f32 f64".split():
        for test in "f lt eq le gt lg ge o u nge nlg ngt nle neq nlt tru class".split():
            out += [("Vopc", f"v_cmp_{test}_{kind}"), ("Vopc", f"v_cmpx_{test}_{kind}")]
    return out


NAMES = names()
