//! Opening the driver, its version, and its clocks.

use crate::abi::{Clocks, Status, Version, put};
use crate::clock::{host_nanos, ticks};
use crate::device::machine::device;

#[unsafe(no_mangle)]
extern "C" fn hsaKmtOpenKFD() -> Status {
    device();
    Status::Success
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtCloseKFD() -> Status {
    Status::Success
}

/// As new as ROCr 5.2 and 6.1 know; the latter asks for 1.4 at least on gfx906.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetVersion(version: *mut Version) -> Status {
    put(version, Version { major: 1, minor: 14 })
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetXNACKMode(enable: i32) -> Status {
    if enable == 0 { Status::Success } else { Status::NotSupported }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetXNACKMode(enabled: *mut i32) -> Status {
    put(enabled, 0)
}

/// Capabilities of debuggers here: none.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetRuntimeCapabilities(capabilities: *mut u32) -> Status {
    put(capabilities, 0)
}

/// Clocks of the device and of the host, read at the same moment.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetClockCounters(_node: u32, clocks: *mut Clocks) -> Status {
    let nanos = host_nanos();
    put(clocks, Clocks { gpu: ticks(nanos), cpu: nanos, system: nanos, system_hz: 1_000_000_000 })
}
