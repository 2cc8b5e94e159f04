//! Memory for a real-time program: what the driver refuses is asked for at the daemon, and made
//! again.
//!
//! The daemon suspends best-effort programs until there is room. The calling thread waits for that
//! as it would for the driver; a refusal of the daemon leaves the driver's.

use crate::driver::{calls, state};
use crate::explain;
use crate::settings::settings;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_guest::join::{MemoryRequest, ask_for_memory};
use reef_guest::page::Class;
use std::panic::catch_unwind;
use std::time::Duration;

/// Longest wait: the time of copying 200 GiB at the driver's 2 GB/s, and some.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Bytes that a context takes at most, its program's code included.
const CONTEXT: u64 = 1 << 30;

/// Makes an allocation of `bytes` on the current context's device, and makes it again after the
/// daemon has freed memory.
pub(crate) fn or_ask(bytes: u64, real: impl Fn() -> u32) -> u32 {
    or_ask_on(calls::device, bytes, real)
}

/// Makes a context on a device, as [`or_ask`] makes an allocation.
pub(crate) fn context_or_ask(ordinal: i32, real: impl Fn() -> u32) -> u32 {
    or_ask_on(|| Some(ordinal), CONTEXT, real)
}

/// Makes an allocation on a device, as [`or_ask`] does on the current one.
pub(crate) fn or_ask_on(
    ordinal: impl FnOnce() -> Option<i32>,
    bytes: u64,
    real: impl Fn() -> u32,
) -> u32 {
    match real() {
        OUT_OF_MEMORY if is_real_time() && is_freed(ordinal(), bytes) => real(),
        code => code,
    }
}

/// Returns whether this program is to be real-time, and not a child whose parent has the device.
fn is_real_time() -> bool {
    state::is_on() && settings().socket.is_some() && settings().class == Class::RealTime
}

/// Asks the daemon, and waits. Returns whether there is room now.
fn is_freed(ordinal: Option<i32>, bytes: u64) -> bool {
    let asked = catch_unwind(|| {
        let device = calls::uuid(ordinal?)?;
        let request = MemoryRequest { device, bytes, is_reserved: false };
        let (socket, info) = (settings().socket.as_ref()?, settings().guest_info.as_ref().ok()?);
        let answer = ask_for_memory(socket, &request, info, TIMEOUT);
        answer.map_err(|why| explain::refuse::<()>(&format!("memory: {why}"))).ok()
    });
    asked.is_ok_and(|freed| freed.is_some())
}
