//! Launches of kernels: checked, or by the rest of the library.

use super::check;
use crate::actions::launch::Work;
use crate::settings::runs_again;
use crate::kernel_variants::launch::{self as variants, KernelLaunch};

/// Launches a kernel.
#[inline]
pub(crate) fn launch(of: &KernelLaunch, work: Work, real: impl FnOnce() -> u32) -> u32 {
    if runs_again() { check::launch(of, real) } else { variants::launch(of, work, real) }
}
