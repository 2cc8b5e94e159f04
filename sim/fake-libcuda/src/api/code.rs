//! Results of the driver's functions, as cuda.h numbers them.

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NOT_INITIALIZED: u32 = 3;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const INVALID_PTX: u32 = 218;
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
pub(crate) const CONTEXT_IS_DESTROYED: u32 = 709;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const ALREADY_REGISTERED: u32 = 712;
pub(crate) const NOT_REGISTERED: u32 = 713;
pub(crate) const NOT_SUPPORTED: u32 = 801;
pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
pub(crate) const CAPTURE_INVALIDATED: u32 = 901;
pub(crate) const CAPTURE_UNMATCHED: u32 = 903;
pub(crate) const CAPTURE_UNJOINED: u32 = 904;
pub(crate) const STREAM_DETACHED: u32 = 917;
pub(crate) const RECAPTURE_FAILURE: u32 = 918;
pub(crate) const ILLEGAL_STATE: u32 = 401;
pub(crate) const UPDATE_FAILED: u32 = 910;
