"""Where the words for gfx906 differ from the pseudocode that there is, which is for CDNA.

EXTRA: operations that CDNA doesn't have. CHANGED: operations that its text leaves open or gets wrong.
"""

MIX = """
declare in : 32'F[3];
for i in 0 : 2 do
if !OPSEL_HI[i] then in[i] = SRC[i].f32
elsif OPSEL[i] then in[i] = f16_to_f32(SRC[i][31 : 16].f16)
else in[i] = f16_to_f32(SRC[i][15 : 0].f16)
endif
endfor;
"""

EXTRA = {
    # Vega 20 has these in place of CDNA's fused forms; the product is rounded before the sum.
    "V_MAC_F32": "D0.f32 = S0.f32 * S1.f32 + D0.f32",
    "V_MAD_F32": "D0.f32 = S0.f32 * S1.f32 + S2.f32",
    "V_MADMK_F32": "D0.f32 = S0.f32 * SIMM32.f32 + S1.f32",
    "V_MADAK_F32": "D0.f32 = S0.f32 * S1.f32 + SIMM32.f32",
    "V_MAD_LEGACY_F32": "if ((S0.f32 == 0.0F) || (S1.f32 == 0.0F)) then D0.f32 = 0.0F + S2.f32 else D0.f32 = S0.f32 * S1.f32 + S2.f32 endif",
    # v_fma_mix of gfx906 has the numbers of gfx900's v_mad_mix, and is fused.
    "V_FMA_MIX_F32": MIX + "D0.f32 = fma(in[0], in[1], in[2])",
    "V_FMA_MIXLO_F16": MIX + "D0[15 : 0].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
    "V_FMA_MIXHI_F16": MIX + "D0[31 : 16].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
    "V_EXP_LEGACY_F32": "D0.f32 = pow(2.0F, S0.f32)",
    "V_LOG_LEGACY_F32": "D0.f32 = log2(S0.f32)",
}


def frexp(bits, suffix):
    return f"if (!isNAN(S0.f{bits}) && (abs(S0.f{bits}) < +INF) && (S0.f{bits} != 0.0)) then D0.{suffix} = frexp_exponent(S0.f{bits}) else D0.{suffix} = 0 endif"


def fmas(bits, middle, power):
    scaled = lambda power: f"ldexp(fma(S0.f{bits}, S1.f{bits}, S2.f{bits}), {power})"
    return f"""if VCC.u64[laneId] then
if exponent(S2.f{bits}) > {middle} then D0.f{bits} = {scaled(power)} else D0.f{bits} = {scaled(f"-{power}")} endif
else D0.f{bits} = fma(S0.f{bits}, S1.f{bits}, S2.f{bits}) endif"""


CHANGED = {
    # The text has half of the power and one direction only, which would undo no scaling of v_div_scale.
    # Whole divisions, which compilers make of these, are tested against those of the host.
    "V_DIV_FMAS_F32": fmas(32, 127, 64),
    "V_DIV_FMAS_F64": fmas(64, 1023, 128),
    # floor(x + 0.5) rounds up below a half; rounding to even is meant.
    "V_RNDNE_F16": "D0.f16 = rint(S0.f16)",
    "V_RNDNE_F32": "D0.f32 = rint(S0.f32)",
    "V_RNDNE_F64": "D0.f64 = rint(S0.f64)",
    # A fraction is less than one: the difference is not rounded up to it.
    "V_FRACT_F16": "D0.f16 = below_one(S0.f16 + -floor(S0.f16))",
    "V_FRACT_F32": "D0.f32 = below_one(S0.f32 + -floor(S0.f32))",
    "V_FRACT_F64": "D0.f64 = below_one(S0.f64 + -floor(S0.f64))",
    # The exponent of a denormal is that of its value, and of zero it is zero.
    "V_FREXP_EXP_I16_F16": frexp(16, "i16"),
    "V_FREXP_EXP_I32_F32": frexp(32, "i32"),
    "V_FREXP_EXP_I32_F64": frexp(64, "i32"),
    # The whole turns are dropped before the product with pi is rounded.
    "V_SIN_F32": "D0.f32 = turn_sin(S0.f32)",
    "V_COS_F32": "D0.f32 = turn_cos(S0.f32)",
    "V_SIN_F16": "D0.f16 = turn_sin(S0.f16)",
    "V_COS_F16": "D0.f16 = turn_cos(S0.f16)",
    # The table of the text is empty.
    "V_CVT_OFF_F32_I4": "D0.f32 = i32_to_f32(signext_from_bit(S0.u32[3 : 0].i32, 4)) * 0.0625F",
    # A sum of eight bits each must not lose its carry.
    "V_LERP_U8": "\n".join(
        ["tmp = 0U;"]
        + [
            f"tmp += ((32'U(S0.u32[{8 * k + 7} : {8 * k}]) + 32'U(S1.u32[{8 * k + 7} : {8 * k}]) + 32'U(S2.u32[{8 * k}])) >> 1U) << {8 * k}U;"
            for k in range(4)
        ]
        + ["D0.u32 = tmp"]
    ),
    # Only the result's upper half is kept by those that aren't "legacy".
    "V_MAD_F16": "D0[15 : 0].f16 = S0.f16 * S1.f16 + S2.f16",
    "V_MAD_U16": "D0[15 : 0].u16 = S0.u16 * S1.u16 + S2.u16",
    "V_MAD_I16": "D0[15 : 0].i16 = S0.i16 * S1.i16 + S2.i16",
    "V_FMA_F16": "D0[15 : 0].f16 = fma(S0.f16, S1.f16, S2.f16)",
}
