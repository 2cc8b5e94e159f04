//! Refusals of the driver.

use reef_cuda_abi::codes;

/// A call that the driver refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {} (code {code})", name(*code))]
pub struct Refusal {
    /// Name of the call.
    pub function: &'static str,
    /// `CUresult`.
    pub code: u32,
}

impl Refusal {
    /// `CUDA_ERROR_NOT_READY`.
    pub const NOT_READY: u32 = codes::NOT_READY;
}

/// Name of a `CUresult`, as far as these calls return it.
fn name(code: u32) -> &'static str {
    match code {
        codes::INVALID_VALUE => "InvalidValue",
        codes::OUT_OF_MEMORY => "OutOfMemory",
        codes::NOT_INITIALIZED => "NotInitialized",
        codes::NO_DEVICE => "NoDevice",
        304 => "OperatingSystem",
        codes::ILLEGAL_STATE => "IllegalState",
        codes::NOT_READY => "NotReady",
        codes::NOT_PERMITTED => "NotPermitted",
        codes::NOT_SUPPORTED => "NotSupported",
        999 => "Unknown",
        _ => "refused",
    }
}
