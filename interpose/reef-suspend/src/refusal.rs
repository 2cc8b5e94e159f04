//! Refusals of the driver.

/// A call that the driver refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {} (code {code})", name(*code))]
pub struct Refusal {
    /// Name of the call.
    pub function: &'static str,
    /// `CUresult`.
    pub code: u32,
}

pub(crate) const NOT_PERMITTED: u32 = 800;
pub(crate) const NOT_SUPPORTED: u32 = 801;

impl Refusal {
    /// `CUDA_ERROR_NOT_READY`.
    pub const NOT_READY: u32 = 600;

    /// Returns whether the work of the process did not end in time.
    pub fn is_not_ready(&self) -> bool {
        self.code == Self::NOT_READY
    }
}

/// Name of a `CUresult`, as far as these calls return it.
fn name(code: u32) -> &'static str {
    match code {
        1 => "InvalidValue",
        2 => "OutOfMemory",
        3 => "NotInitialized",
        100 => "NoDevice",
        304 => "OperatingSystem",
        401 => "IllegalState",
        Refusal::NOT_READY => "NotReady",
        NOT_PERMITTED => "NotPermitted",
        NOT_SUPPORTED => "NotSupported",
        999 => "Unknown",
        _ => "refused",
    }
}
