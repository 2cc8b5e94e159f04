//! Events of the kernel driver.

use crate::abi::{Event, EventDescriptor, Status, put};
use crate::device::machine::device;

/// The number of an event that the caller holds.
fn id(event: *const Event) -> u32 {
    // SAFETY: the interface demands an event of `hsaKmtCreateEvent` that was not destroyed. HSA's
    // runtime keeps to it.
    unsafe { (*event).id }
}

/// Success if the handle was known.
fn status_of(is_known: bool) -> Status {
    if is_known { Status::Success } else { Status::InvalidHandle }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtCreateEvent(
    descriptor: *const EventDescriptor,
    manual: bool,
    set: bool,
    event: *mut *mut Event,
) -> Status {
    if descriptor.is_null() {
        return Status::InvalidParameter;
    }
    // SAFETY: not null, and the interface demands an event's descriptor. Alignment is not demanded.
    let descriptor = unsafe { descriptor.read_unaligned() };
    match device().events.create(descriptor, manual, set) {
        Some(made) => put(event, Box::into_raw(made)),
        None => Status::NoMemory,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtDestroyEvent(event: *mut Event) -> Status {
    if event.is_null() || !device().events.destroy(id(event)) {
        return Status::InvalidHandle;
    }
    // SAFETY: it was known until now, so it is a box that `hsaKmtCreateEvent` has given away.
    drop(unsafe { Box::from_raw(event) });
    Status::Success
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetEvent(event: *const Event) -> Status {
    status_of(!event.is_null() && device().events.set(id(event)))
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtResetEvent(event: *const Event) -> Status {
    status_of(!event.is_null() && device().events.reset(id(event)))
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtQueryEventState(event: *const Event) -> Status {
    hsaKmtWaitOnEvent(event, 0)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtWaitOnEvent(event: *const Event, millis: u32) -> Status {
    hsaKmtWaitOnMultipleEvents(&raw const event, 1, true, millis)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtWaitOnEvent_Ext(event: *const Event, millis: u32, age: *mut u64) -> Status {
    hsaKmtWaitOnMultipleEvents_Ext(&raw const event, 1, true, millis, age)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtWaitOnMultipleEvents(
    events: *const *const Event,
    count: u32,
    all: bool,
    millis: u32,
) -> Status {
    hsaKmtWaitOnMultipleEvents_Ext(events, count, all, millis, std::ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtWaitOnMultipleEvents_Ext(
    events: *const *const Event,
    count: u32,
    all: bool,
    millis: u32,
    ages: *mut u64,
) -> Status {
    if events.is_null() {
        return Status::InvalidHandle;
    }
    let count = count as usize;
    // SAFETY: not null, and the interface demands an array of `count` events.
    let events = unsafe { std::slice::from_raw_parts(events, count) };
    let ages = if ages.is_null() {
        &mut []
    } else {
        // SAFETY: if there are ages, there is one for each event.
        unsafe { std::slice::from_raw_parts_mut(ages, count) }
    };
    if events.iter().any(|event| event.is_null()) {
        return Status::InvalidHandle;
    }
    let ids: Vec<u32> = events.iter().map(|&event| id(event)).collect();
    if device().events.wait(&ids, all, millis, ages) {
        Status::Success
    } else {
        Status::WaitTimeout
    }
}
