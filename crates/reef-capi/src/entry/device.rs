//! Devices.

use crate::entry::args::{give, give_text, place, text};
use crate::entry::record;
use crate::entry::types::{
    REEF_ALL, REEF_DEVICE_QUEUE, REEF_HOST_QUEUE, reef_device, reef_device_info, reef_level,
};
use crate::guard::answer;
use crate::handles;
use crate::status::reef_status;
use reef::PreemptLevel;
use reef_any::Device;
use std::ffi::c_char;

/// Opens a device by its name: "cpu", "cuda:1", "cpu:0?units=4"; "auto" is the first GPU, else the
/// CPU.
///
/// REEF_NOT_FOUND: the library has no such backend, or the backend no such device or driver. Any
/// thread.
///
/// # Safety
///
/// `name` is null or a string that ends with a zero byte; `device` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_device_open(
    name: *const c_char,
    device: *mut *mut reef_device,
) -> reef_status {
    answer(|| {
        place("device", device)?;
        // SAFETY: `name` is null or a string that ends with a zero byte: reef.h demands it of the
        // program.
        let name = unsafe { text("name", name) }?;
        let opened = Device::open(name)?;
        // SAFETY: `device` is not null, as `place` has checked, and can be written: reef.h demands
        // it of the program.
        unsafe { give(opened, device) }
    })
}

/// Frees the handle; NULL does nothing. Networks, dispatchers and clients of the device go on.
///
/// Any thread; calls with the handle that have begun go on.
#[unsafe(no_mangle)]
pub extern "C" fn reef_device_free(device: *mut reef_device) -> reef_status {
    answer(|| {
        if device.is_null() {
            return Ok(());
        }
        handles::close::<Device>(device.addr()).map(drop)
    })
}

/// Facts about the device. Any thread.
///
/// # Safety
///
/// `info` is null or as large as its `struct_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_device_get_info(
    device: *const reef_device,
    info: *mut reef_device_info,
) -> reef_status {
    answer(|| {
        let facts = handles::get::<Device>(device.addr())?.info();
        let (units, level) = (facts.units, level(facts.level));
        let facts = reef_device_info { struct_size: 0, units, level, reserved: 0 };
        // SAFETY: `info` is null or as large as its `struct_size`: reef.h demands it of the
        // program.
        unsafe { record::write(facts, info) }
    })
}

/// The device's name for people, cut to `size` bytes with the zero byte at its end. `needed`, if it
/// isn't NULL, gets the bytes that the whole name takes with it. Any thread.
///
/// # Safety
///
/// `size` bytes at `name` can be written, or `size` is 0; `needed` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_device_get_name(
    device: *const reef_device,
    name: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> reef_status {
    answer(|| {
        let whole = handles::get::<Device>(device.addr())?.info().name;
        // SAFETY: `size` bytes at `name` can be written, or `size` is 0, and `needed` is null or
        // can be written: reef.h demands it of the program.
        unsafe { give_text(&whole, name, size, needed) }
    })
}

fn level(level: PreemptLevel) -> reef_level {
    match level {
        PreemptLevel::HostQueue => REEF_HOST_QUEUE,
        PreemptLevel::DeviceQueue => REEF_DEVICE_QUEUE,
        PreemptLevel::All => REEF_ALL,
    }
}
