//! Results of the driver's functions, as cuda.h numbers them.

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NOT_INITIALIZED: u32 = 3;
pub(crate) const DEINITIALIZED: u32 = 4;
/// The session is over.
pub(crate) const DEVICE_UNAVAILABLE: u32 = 46;
pub(crate) const NO_DEVICE: u32 = 100;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_IMAGE: u32 = 200;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const FILE_NOT_FOUND: u32 = 301;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const ALREADY_REGISTERED: u32 = 712;
pub(crate) const NOT_REGISTERED: u32 = 713;
pub(crate) const NOT_PERMITTED: u32 = 800;
pub(crate) const NOT_SUPPORTED: u32 = 801;
