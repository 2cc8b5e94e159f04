//! Chains with AVX-512: each step of 64 values before the next one.

use super::steps::Link;
use crate::kernels::tensor::formulas::access_pattern::Operand;
use crate::kernels::tensor::formulas::vectors::{chosen, erf, gelu_of, power};
use crate::kernels::values::lanes::{LANES, lanes};
use std::arch::x86_64::*;

/// Vectors that go through a step together.
const VECTORS: usize = 4;

/// Values that go through a chain together.
type Values = [__m512; VECTORS];

/// Changes `values` link by link.
///
/// # Panics
///
/// If an operand has fewer values.
#[target_feature(enable = "avx512f")]
pub(super) fn apply(links: &[(Link, Operand<'_>)], values: &mut [f32]) {
    let len = values.len();
    for (_, operand) in links {
        assert!(!matches!(operand, Operand::Each(with) if with.len() < len), "{len} values");
    }
    for at in (0..len).step_by(VECTORS * LANES) {
        let masks = std::array::from_fn(|v| lanes((len - at).saturating_sub(v * LANES)));
        let to = values.as_mut_ptr().wrapping_add(at);
        // SAFETY: the masks leave out what is behind the values, and the operands have as many.
        unsafe {
            let mut made = load(to, masks);
            for (link, operand) in links {
                let with = match operand {
                    Operand::Each(with) => load(with.as_ptr().wrapping_add(at), masks),
                    Operand::All(value) => [_mm512_set1_ps(*value); VECTORS],
                };
                made = step(*link, made, with);
            }
            for v in 0..VECTORS {
                _mm512_mask_storeu_ps(to.wrapping_add(v * LANES), masks[v], made[v]);
            }
        }
    }
}

/// # Safety
///
/// All floats that the masks name can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32, masks: [__mmask16; VECTORS]) -> Values {
    let mut values = [_mm512_setzero_ps(); VECTORS];
    for v in 0..VECTORS {
        // SAFETY: the lanes that the masks name can be read: `load` demands it.
        values[v] = unsafe { _mm512_maskz_loadu_ps(masks[v], from.wrapping_add(v * LANES)) };
    }
    values
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step(link: Link, x: Values, y: Values) -> Values {
    match link {
        Link::Add => each(x, y, |x, y| _mm512_add_ps(x, y)),
        Link::Sub => each(x, y, |x, y| _mm512_sub_ps(x, y)),
        Link::Mul => each(x, y, |x, y| _mm512_mul_ps(x, y)),
        Link::Div => each(x, y, |x, y| _mm512_div_ps(x, y)),
        Link::Min => each(x, y, |x, y| chosen(x, y, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(y, x))),
        Link::Max => each(x, y, |x, y| chosen(x, y, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(y, x))),
        Link::Abs => each(x, y, |x, _| _mm512_abs_ps(x)),
        Link::Sqrt => each(x, y, |x, _| _mm512_sqrt_ps(x)),
        Link::Exp => each(x, y, |x, _| power(x)),
        Link::Erf => each(x, y, |x, _| erf(x)),
        Link::Gelu => each(x, y, |x, _| gelu_of(x)),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each(x: Values, y: Values, function: impl Fn(__m512, __m512) -> __m512) -> Values {
    let mut made = [_mm512_setzero_ps(); VECTORS];
    for v in 0..VECTORS {
        made[v] = function(x[v], y[v]);
    }
    made
}
