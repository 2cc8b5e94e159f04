//! Plain loops, compiled for the widest vectors that the machine has, and hints to its caches.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_ET1, _MM_HINT_T1, _mm_prefetch};

/// Runs `body` with the widest vectors at hand.
///
/// `body` must be a closure marked `#[inline(always)]` or small enough to be inlined: it is compiled
/// again inside a function with those instructions enabled.
#[inline]
pub(super) fn widest<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has AVX-512.
            return unsafe { avx512(body) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2.
            return unsafe { avx2(body) };
        }
    }
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512<R>(body: impl FnOnce() -> R) -> R {
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// A hint that the line at `at` will be read.
#[inline]
pub(super) fn prefetch_to_read(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has SSE, and a hint may point anywhere.
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// A hint that the line at `at` will be written.
#[inline]
pub(super) fn prefetch_to_write(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; machines without the instruction take it for a no-op.
    unsafe {
        _mm_prefetch::<_MM_HINT_ET1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
