//! Clocks of the device and of the host, read at the same moment.

use crate::abi::{Clocks, Status, put};
use crate::clock::{host_nanos, ticks};

#[unsafe(no_mangle)]
extern "C" fn hsaKmtGetClockCounters(_node: u32, clocks: *mut Clocks) -> Status {
    let nanos = host_nanos();
    put(clocks, Clocks { gpu: ticks(nanos), cpu: nanos, system: nanos, system_hz: 1_000_000_000 })
}
