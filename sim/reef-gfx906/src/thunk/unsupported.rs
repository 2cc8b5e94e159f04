//! Functions that the runtime imports and the device doesn't have: sharing between processes and
//! with graphics, shared virtual memory, debuggers, profilers. And settings that have no meaning
//! here.

use crate::abi::{Status, put};
use crate::clock::CLOCK_KHZ;

macro_rules! answer {
    ($status:ident: $($name:ident)*) => {$(
        /// Whatever it is asked.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            Status::$status
        }
    )*};
}

answer! { NotSupported:
    hsaKmtDbgDisable
    hsaKmtDbgEnable
    hsaKmtDbgGetDeviceData
    hsaKmtDbgGetQueueData
    hsaKmtExportDMABufHandle
    hsaKmtOpenSMI
    hsaKmtRegisterGraphicsHandleToNodes
    hsaKmtRegisterSharedHandle
    hsaKmtRegisterSharedHandleToNodes
    hsaKmtRuntimeEnable
    hsaKmtShareMemory
    hsaKmtSPMAcquire
    hsaKmtSPMRelease
    hsaKmtSPMSetDestBuffer
    hsaKmtSVMGetAttr
}

answer! { Success:
    hsaKmtReplaceAsanHeaderPage
    hsaKmtReturnAsanHeaderPage
    hsaKmtRuntimeDisable
    hsaKmtSetMemoryPolicy
    hsaKmtSetTrapHandler
    hsaKmtSVMSetAttr
}

/// ROCr 6.1 hands it on to `amdgpu_query_gpu_info`, which is below.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetAMDGPUDeviceHandle(_node: u32, handle: *mut u64) -> Status {
    put(handle, 0)
}

/// `amdgpu_gpu_info` of libdrm, of which ROCr 6.1 takes the device's number, family, engines and
/// clock.
#[unsafe(no_mangle)]
extern "C" fn amdgpu_query_gpu_info(_device: u64, info: *mut [u32; 20]) -> i32 {
    let mut facts = [0; 20];
    facts[0] = 0x66a1;
    facts[3] = 141;
    facts[10] = 4;
    facts[11] = 1;
    facts[18] = CLOCK_KHZ;
    put(info, facts);
    0
}
