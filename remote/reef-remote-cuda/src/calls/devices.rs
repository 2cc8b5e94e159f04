//! Start, devices and errors: answered from the facts that the server gave.

use super::export::{give, plain};
use crate::session::{Session, session};
use crate::state::thread::in_thread;
use reef_cuda_abi::codes::*;
use reef_remote_calls::DeviceFacts;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Once;

plain! {
    cuInit(flags: u32) = init;
    cuDriverGetVersion(version: *mut i32) = version;
    cuDeviceGetCount(count: *mut i32) = count;
    cuDeviceGet(device: *mut i32, ordinal: i32) = get;
    cuDeviceGetName(name: *mut c_char, len: i32, device: i32) = name;
    cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) = uuid;
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) = uuid;
    cuDeviceTotalMem_v2(bytes: *mut u64, device: i32) = memory;
    cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32) = attribute;
    cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32) = capability;
    cuDeviceGetPCIBusId(name: *mut c_char, len: i32, device: i32) = pci;
    cuDeviceGetByPCIBusId(device: *mut i32, name: *const c_char) = by_pci;
    cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) = can_access_peer;
    cuGetErrorName(code: u32, text: *mut *const c_char) = error_name;
    cuGetErrorString(code: u32, text: *mut *const c_char) = error_text;
    cuGetExportTable(table: *mut *const c_void, uuid: *const [u8; 16]) = export_table;
    cuThreadExchangeStreamCaptureMode(mode: *mut u32) = exchange_mode;
    cuProfilerStart() = nothing;
    cuProfilerStop() = nothing;
}

fn nothing() -> Result<(), u32> {
    Ok(())
}

fn init(flags: u32) -> Result<(), u32> {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    session().map(|_| ())
}

unsafe fn version(version: *mut i32) -> Result<(), u32> {
    // SAFETY: cuDriverGetVersion demands that `version` may be written; `give` refuses null.
    unsafe { give(version, session()?.facts.version) }
}

unsafe fn count(count: *mut i32) -> Result<(), u32> {
    // SAFETY: cuDeviceGetCount demands that `count` may be written; `give` refuses null.
    unsafe { give(count, session()?.facts.devices.len() as i32) }
}

fn facts(session: &Session, device: i32) -> Result<&DeviceFacts, u32> {
    let device = usize::try_from(device).ok();
    device.and_then(|device| session.facts.devices.get(device)).ok_or(INVALID_DEVICE)
}

unsafe fn get(device: *mut i32, ordinal: i32) -> Result<(), u32> {
    facts(session()?, ordinal)?;
    // SAFETY: cuDeviceGet demands that `device` may be written; `give` refuses null.
    unsafe { give(device, ordinal) }
}

/// Copies as much of a text as there is room for, with a zero behind it.
unsafe fn give_text(to: *mut c_char, len: i32, text: &str) -> Result<(), u32> {
    let room = usize::try_from(len).ok().filter(|len| *len > 0 && !to.is_null());
    let room = room.ok_or(INVALID_VALUE)? - 1;
    let count = text.len().min(room);
    // SAFETY: `to` is not null, and the driver demands `len` bytes there that may be written.
    // `count + 1` is not more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), count);
        to.add(count).write(0);
    }
    Ok(())
}

unsafe fn name(name: *mut c_char, len: i32, device: i32) -> Result<(), u32> {
    // SAFETY: cuDeviceGetName demands that `len` bytes may be written to `name`, which `give_text`
    // does not exceed.
    unsafe { give_text(name, len, &facts(session()?, device)?.name) }
}

unsafe fn pci(name: *mut c_char, len: i32, device: i32) -> Result<(), u32> {
    // SAFETY: cuDeviceGetPCIBusId demands that `len` bytes may be written to `name`, which
    // `give_text` does not exceed.
    unsafe { give_text(name, len, &facts(session()?, device)?.pci) }
}

unsafe fn by_pci(device: *mut i32, name: *const c_char) -> Result<(), u32> {
    if name.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuDeviceGetByPCIBusId demands a text that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let devices = &session()?.facts.devices;
    let found = devices.iter().position(|facts| facts.pci.eq_ignore_ascii_case(&name));
    // SAFETY: cuDeviceGetByPCIBusId demands that `device` may be written; `give` refuses null.
    unsafe { give(device, found.ok_or(INVALID_DEVICE)? as i32) }
}

unsafe fn uuid(uuid: *mut [u8; 16], device: i32) -> Result<(), u32> {
    // SAFETY: cuDeviceGetUuid demands 16 bytes at `uuid` that may be written; `give` refuses null.
    unsafe { give(uuid, facts(session()?, device)?.uuid) }
}

unsafe fn memory(bytes: *mut u64, device: i32) -> Result<(), u32> {
    // SAFETY: cuDeviceTotalMem demands that `bytes` may be written; `give` refuses null.
    unsafe { give(bytes, facts(session()?, device)?.memory) }
}

fn attribute_of(facts: &DeviceFacts, attribute: u32) -> Result<i32, u32> {
    let found = facts.attributes.iter().find(|(of, _)| *of == attribute);
    found.map(|(_, value)| *value).ok_or(INVALID_VALUE)
}

unsafe fn attribute(value: *mut i32, attribute: u32, device: i32) -> Result<(), u32> {
    let found = attribute_of(facts(session()?, device)?, attribute)?;
    // SAFETY: cuDeviceGetAttribute demands that `value` may be written; `give` refuses null.
    unsafe { give(value, found) }
}

unsafe fn capability(major: *mut i32, minor: *mut i32, device: i32) -> Result<(), u32> {
    let facts = facts(session()?, device)?;
    // SAFETY: cuDeviceComputeCapability demands that `major` and `minor` may be written; `give`
    // refuses null. The numbers are those of the two attributes.
    unsafe {
        give(major, attribute_of(facts, 75)?)?;
        give(minor, attribute_of(facts, 76)?)
    }
}

unsafe fn can_access_peer(can: *mut i32, device: i32, peer: i32) -> Result<(), u32> {
    let session = session()?;
    facts(session, device)?;
    facts(session, peer)?;
    // SAFETY: cuDeviceCanAccessPeer demands that `can` may be written; `give` refuses null.
    unsafe { give(can, 0) }
}

unsafe fn error(text: *mut *const c_char, code: u32, which: usize) -> Result<(), u32> {
    let found = session()?.errors.get(&code).map(|texts| texts[which].as_ptr());
    // SAFETY: cuGetErrorName and cuGetErrorString demand that `text` may be written; `give` refuses
    // null. The text lives as long as the session.
    unsafe { give(text, found.unwrap_or(std::ptr::null())) }?;
    found.map(|_| ()).ok_or(INVALID_VALUE)
}

unsafe fn error_name(code: u32, text: *mut *const c_char) -> Result<(), u32> {
    // SAFETY: cuGetErrorName demands that `text` is null or may be written, as `error` does.
    unsafe { error(text, code, 0) }
}

unsafe fn error_text(code: u32, text: *mut *const c_char) -> Result<(), u32> {
    // SAFETY: cuGetErrorString demands that `text` is null or may be written, as `error` does.
    unsafe { error(text, code, 1) }
}

/// Tables of functions that only the vendor's own libraries know. The runtime is the first that
/// asks for one.
unsafe fn export_table(table: *mut *const c_void, uuid: *const [u8; 16]) -> Result<(), u32> {
    static SAID: Once = Once::new();
    if !table.is_null() {
        // SAFETY: not null, and cuGetExportTable demands that `table` may be written.
        unsafe { table.write(std::ptr::null()) };
    }
    // SAFETY: null, or the 16 bytes of a number, which cuGetExportTable demands.
    let uuid = unsafe { uuid.as_ref() }.copied().unwrap_or_default();
    let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    SAID.call_once(|| {
        eprintln!(
            "reef: cuGetExportTable {uuid}: the vendor's CUDA runtime or libraries are not \
             supported on a remote device; link the program with -cudart shared"
        );
    });
    Err(NOT_SUPPORTED)
}

unsafe fn exchange_mode(mode: *mut u32) -> Result<(), u32> {
    if mode.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cuThreadExchangeStreamCaptureMode demands a mode at `mode`, which it
    // reads and writes.
    let new = unsafe { mode.read() };
    if new > 2 {
        return Err(INVALID_VALUE);
    }
    let old = in_thread(|thread| thread.capture_mode.replace(new))?;
    // SAFETY: cuThreadExchangeStreamCaptureMode demands that `mode` may be written, and it was just
    // read.
    unsafe { give(mode, old) }
}
