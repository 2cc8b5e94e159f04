//! Memory that must be free before a real-time program starts.

use crate::report::usage::Usage;
use anyhow::{Context, Result, anyhow};
use reef_guest::join::{GuestInfo, MemoryRequest, ask_for_memory};
use reef_guest::limit;
use reef_guest::page::Class;
use reef_suspend::Driver;
use std::path::Path;
use std::time::Duration;

/// Longest wait for the daemon, which may have to copy all of a device's memory.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Bytes of `--reserve`.
///
/// # Errors
///
/// The text is not a size, or the program is not to be real-time.
pub(super) fn size(reserve: Option<&str>, class: Class) -> Result<Option<u64>> {
    let Some(text) = reserve else { return Ok(None) };
    if class != Class::RealTime {
        let why =
            format!("--reserve {text} needs --class rt: best-effort programs wait for memory");
        return Err(Usage(why).into());
    }
    let bytes = limit::bytes(text).map_err(|why| Usage(format!("--reserve {text}: {why}")))?;
    Ok(Some(bytes))
}

/// Asks the daemon to free `bytes` of the first device that the program sees, and to keep them free
/// for it until this process, which becomes the program, ends.
///
/// # Errors
///
/// There is no device, or the daemon refuses.
pub(super) fn ask(socket: &Path, credentials: &GuestInfo, bytes: u64) -> Result<()> {
    let driver = Driver::open(std::env::var_os("REEF_CUDA")).context("not run: --reserve")?;
    let devices = driver.devices().map_err(|refusal| anyhow!("not run: --reserve: {refusal}"))?;
    let device = *devices.first().context("not run: --reserve: no GPU")?;
    let request = MemoryRequest { device, bytes, is_reserved: true };
    let answer = ask_for_memory(socket, &request, credentials, TIMEOUT);
    answer.with_context(|| format!("not run: --reserve {}", limit::format_bytes(bytes)))
}
