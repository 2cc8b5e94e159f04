//! Plain loops, compiled for the widest vectors that the machine has.

/// Runs `body` with the widest vectors at hand.
///
/// `body` must be a closure marked `#[inline(always)]` or small enough to be inlined: it is
/// compiled again inside a function with those instructions enabled. Write `for` in it and not
/// `for_each`, whose loop is a function of its own that isn't always inlined, and then has none of
/// them.
#[inline]
pub(in crate::kernels) fn widest<R>(body: impl FnOnce() -> R) -> R {
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
