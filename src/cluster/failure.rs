//! Errors of what runs on a cluster.

use reef_core::Error;

/// An error that may be a device's: what clients of a cluster run fails with one.
pub trait Failure: From<Error> {
    /// Returns the device's error, if it is one. Only that leads to a check whether the device is
    /// lost.
    fn device_error(&self) -> Option<&Error>;
}

impl Failure for Error {
    fn device_error(&self) -> Option<&Error> {
        Some(self)
    }
}

#[cfg(feature = "models")]
impl Failure for reef_models::Error {
    fn device_error(&self) -> Option<&Error> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}
