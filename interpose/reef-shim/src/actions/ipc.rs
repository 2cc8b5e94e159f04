//! Memory of other processes by handles (`cuIpcOpenMemHandle`).

use crate::driver::state::Inside;
use crate::limit::charges::{self, Charge, Kind};
use crate::limit::exporters::{self, IpcHandle};
use crate::limit::imports;

/// Gets the handle of linear memory, by which other processes may open it.
pub(crate) fn get(handle: *const IpcHandle, at: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let code = real();
    // SAFETY: null, or where the driver has just written.
    let handle = unsafe { handle.as_ref() }.filter(|_| code == 0);
    if let (Some(handle), Some((begin, charge))) = (handle, charges::whole_at(at)) {
        let account = charge.device.account();
        exporters::link(handle, begin, charge.bytes, account, charges::is_linear);
    }
    code
}

/// Opens memory of another process.
pub(crate) fn open(at: *const usize, handle: &IpcHandle, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let exporter = exporters::of_handle(handle);
    let code = real();
    // SAFETY: null, or where the driver has just written.
    if let (0, Some(at)) = (code, unsafe { at.as_ref() }) {
        imports::note_opened(*at, exporter);
    }
    code
}

/// Closes memory of another process, which may be open several times.
pub(crate) fn close(at: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    let charge = charges::take(Kind::Opened, at); // another thread may get its address at once
    let code = real();
    let Some(charge) = charge else { return code };
    match charge.opened - u64::from(code == 0) {
        0 => charge.end(),
        opened => charges::open(at, Charge { opened, ..charge }),
    }
    code
}
