//! Results of the runtime's functions, as `driver_types.h` numbers them. Those of the driver are
//! the same numbers.

pub(crate) use reef_cuda_abi::codes::{
    INVALID_DEVICE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, SUCCESS,
};

/// The library's thread state is gone: the process ends.
pub(crate) const CUDART_UNLOADING: u32 = 4;
pub(crate) const INVALID_CONFIGURATION: u32 = 9;
pub(crate) const INVALID_PITCH: u32 = 12;
pub(crate) const INVALID_SYMBOL: u32 = 13;
pub(crate) const INVALID_DIRECTION: u32 = 21;
pub(crate) const INSUFFICIENT_DRIVER: u32 = 35;
/// The driver does not have the function.
pub(crate) const NEWER_DRIVER: u32 = 36;
pub(crate) const MISSING_CONFIGURATION: u32 = 52;
/// The function was not registered, or the device has no code of it.
pub(crate) const INVALID_FUNCTION: u32 = 98;

/// Errors after which the device's context can't be used: each later call has them too.
const STICKY: [u32; 14] = [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810];

/// Returns whether an error stays a thread's last one after it was asked for.
pub(crate) fn is_sticky(code: u32) -> bool {
    STICKY.contains(&code)
}
