//! Vectors of AVX-512 that end where a row does.

use std::arch::x86_64::*;

/// Floats of a vector.
pub(in crate::kernels) const LANES: usize = 16;

/// The lanes of a vector that has `left` floats, or of a full one if there are more.
#[inline]
pub(in crate::kernels) fn lanes(left: usize) -> __mmask16 {
    if left < LANES { (1 << left) - 1 } else { !0 }
}

/// Writes the lanes of `mask`: all of them by a plain store, which a processor may do without
/// reading the line.
///
/// # Safety
///
/// The lanes can be written to `to`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) unsafe fn write(to: *mut f32, mask: __mmask16, value: __m512) {
    // SAFETY: the lanes of `mask` can be written to `to`, all of them without one: `write` demands
    // it.
    unsafe {
        if mask == !0 {
            _mm512_storeu_ps(to, value);
        } else {
            _mm512_mask_storeu_ps(to, mask, value);
        }
    }
}
