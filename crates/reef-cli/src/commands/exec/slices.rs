//! Long kernels in slices, as `reef exec` passes the wish to a program's library.

use crate::report::usage::Usage;
use anyhow::{Result, bail};
use reef_guest::page::Class;
use std::ffi::OsString;

/// Kernels that are sliced.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SlicedKernels {
    /// Kernels that the driver compiles to the machine code that the program has; their blocks
    /// leave while the program is held.
    Same,
    /// As same, but blocks that have not begun stay.
    NoStops,
    /// Also those that the driver compiles to other machine code: last bits may differ.
    Any,
}

/// Wish of a program.
#[derive(clap::Args)]
pub(super) struct Slices {
    /// Launch long kernels of a best-effort program in slices, between which real-time work starts,
    /// where the program has their PTX.
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "same",
        conflicts_with = "swappable"
    )]
    slices: Option<SlicedKernels>,
}

/// Variable for the library.
///
/// # Errors
///
/// The program is a real-time one.
pub(super) fn variable(args: &Slices, class: Class) -> Result<Option<(&'static str, OsString)>> {
    let Some(which) = args.slices else { return Ok(None) };
    if class == Class::RealTime {
        bail!(Usage("--slices is for --class be: kernels of real-time programs stay whole".into()));
    }
    let value = match which {
        SlicedKernels::Same => "1",
        SlicedKernels::NoStops => "no-stops",
        SlicedKernels::Any => "any",
    };
    Ok(Some(("REEF_SLICES", value.into())))
}
