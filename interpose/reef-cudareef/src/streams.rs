//! The streams for which preemption is enabled.

use crate::driver::Driver;
use crate::fault::{Fault, Result};
use crate::slots::{self, Free, Reached, Slot};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a thread which waits for a stream spins before it sleeps.
const SPIN: Duration = Duration::from_micros(200);
/// Interval at which it polls after that.
const POLL: Duration = Duration::from_micros(50);

struct Enabled {
    context: usize,
    /// The driver's number of the stream, where it has any: handles come again.
    id: Option<u64>,
    gate: Mutex<Gate>,
}

/// Locked by one stream's calls, so that a stream whose queue is full keeps no other one from being
/// restored.
struct Gate {
    /// `None` once preemption was disabled.
    slot: Option<Slot>,
    is_closed: bool,
}

/// Locked for look-ups, and never while the driver is called.
#[derive(Default)]
struct Streams {
    enabled: HashMap<usize, Arc<Enabled>>,
    /// Free slots by context.
    free: HashMap<usize, Free>,
}

static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(Mutex::default);

/// Enables preemption, after all that the stream has has ended.
pub(crate) fn enable(stream: usize) -> Result<()> {
    let driver = Driver::get()?;
    let (context, id) = (driver.context()?, driver.id(stream));
    forget_destroyed(stream, id)?;
    let mut slot = slot(driver, context)?;
    if let Err(fault) = try_out(driver, stream, &mut slot) {
        STREAMS.lock().free.remove(&context); // the context may be another one of the same name
        return Err(fault);
    }
    let gate = Mutex::new(Gate { slot: Some(slot), is_closed: false });
    let enabled = Arc::new(Enabled { context, id, gate });
    match STREAMS.lock().enabled.entry(stream) {
        Entry::Vacant(place) => drop(place.insert(enabled)),
        Entry::Occupied(_) => return Err(Fault::enabled_already(stream)), // by another thread
    }
    Ok(())
}

fn slot(driver: &Driver, context: usize) -> Result<Slot> {
    let free = STREAMS.lock().free.entry(context).or_default().take();
    if let Some(slot) = free {
        return Ok(slot);
    }
    let mut page = slots::page(driver)?;
    let slot = page.swap_remove(0);
    let mut streams = STREAMS.lock();
    let free = streams.free.entry(context).or_default();
    page.into_iter().for_each(|slot| free.give(slot));
    Ok(slot)
}

/// Refuses a stream that is enabled, unless that was an older one of the same handle.
fn forget_destroyed(stream: usize, id: Option<u64>) -> Result<()> {
    let old = STREAMS.lock().enabled.get(&stream).cloned();
    match old {
        None => Ok(()),
        Some(old) if old.id.is_some() && old.id != id => disable(stream),
        Some(_) => Err(Fault::enabled_already(stream)),
    }
}

/// Checks that the stream can do what gates need. Leaves it empty.
fn try_out(driver: &Driver, stream: usize, slot: &mut Slot) -> Result<()> {
    if driver.is_capturing(stream) {
        return Err(capturing(stream));
    }
    slot.mark(driver, stream)?;
    driver.synchronize(stream)?;
    if slot.is_reached() {
        return Ok(());
    }
    Err(Fault::invalid(format!("stream {stream:#x}: cuStreamWriteValue32 wrote nothing")))
}

/// Opens the stream's gate for good.
pub(crate) fn disable(stream: usize) -> Result<()> {
    let enabled = STREAMS.lock().enabled.remove(&stream);
    let enabled = enabled.ok_or_else(|| Fault::not_enabled(stream))?;
    let slot = enabled.gate.lock().slot.take();
    if let Some(slot) = slot {
        slot.open();
        STREAMS.lock().free.entry(enabled.context).or_default().give(slot);
    }
    Ok(())
}

/// Closes the stream's gate, unless it is closed; `waits`: until all before it in the stream has
/// ended.
pub(crate) fn preempt(stream: usize, waits: bool) -> Result<()> {
    let (driver, enabled) = (Driver::get()?, find(stream)?);
    driver.within(enabled.context, || {
        let (gate, reached) = close(driver, stream, &mut enabled.gate.lock())?;
        if waits {
            until(|| reached.is_past(gate), || driver.is_idle(stream).map(drop))
        } else {
            Ok(())
        }
    })
}

/// The number of the gate that is closed now, and how far the device has come.
fn close(driver: &Driver, stream: usize, gate: &mut Gate) -> Result<(u32, Reached)> {
    let slot = gate.slot.as_mut().ok_or_else(|| Fault::not_enabled(stream))?;
    if !gate.is_closed {
        if driver.is_capturing(stream) {
            return Err(capturing(stream));
        }
        slot.close(driver, stream)?;
        gate.is_closed = true;
    }
    Ok((slot.newest(), slot.reached()))
}

/// Opens the stream's gate. No call of the driver, which another thread may be waiting in.
pub(crate) fn restore(stream: usize) -> Result<()> {
    let enabled = find(stream)?;
    let mut gate = enabled.gate.lock();
    gate.slot.as_ref().ok_or_else(|| Fault::not_enabled(stream))?.open();
    gate.is_closed = false;
    Ok(())
}

/// Refuses a stream that isn't enabled.
pub(crate) fn check(stream: usize) -> Result<()> {
    find(stream).map(drop)
}

fn find(stream: usize) -> Result<Arc<Enabled>> {
    STREAMS.lock().enabled.get(&stream).cloned().ok_or_else(|| Fault::not_enabled(stream))
}

fn capturing(stream: usize) -> Fault {
    Fault::invalid(format!("stream {stream:#x} is being captured, and runs nothing"))
}

/// Waits until something is so, and asks from time to time whether it still can be.
fn until(is_so: impl Fn() -> bool, can_be: impl Fn() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() < SPIN {
            std::hint::spin_loop();
            continue;
        }
        can_be()?;
        thread::sleep(POLL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fake;

    const LONG: Duration = Duration::from_secs(30);
    /// Locked by tests that register memory, which may have to wait.
    static REGISTERS: Mutex<()> = Mutex::new(());

    #[test]
    fn thread_with_a_small_stack_enables_a_stream() {
        let _registers = REGISTERS.lock();
        // Without room for copies of a page, which has 64 KiB.
        let small = thread::Builder::new().stack_size(96 << 10);
        let enabled = small.spawn(|| {
            fake::set_context(3); // no slots yet
            (enable(0x30), disable(0x30))
        });
        assert_eq!(enabled.unwrap().join().unwrap(), (Ok(()), Ok(())));
    }

    /// Registering memory waits for the device, and the device for a stream that is to be restored.
    #[test]
    fn stream_is_restored_while_memory_is_registered_for_another() {
        let _registers = REGISTERS.lock();
        fake::set_context(1);
        enable(0x10).unwrap();
        preempt(0x10, false).unwrap();
        let _waits = fake::Registering::waits();
        let other = thread::spawn(|| {
            fake::set_context(2); // no slots yet
            enable(0x20)
        });
        let begin = Instant::now();
        while !fake::Registering::is_waiting() {
            assert!(begin.elapsed() < LONG, "nothing is registered");
            thread::sleep(POLL); // sleep: poll of a condition
        }
        let (done, is_done) = std::sync::mpsc::channel();
        thread::spawn(move || done.send((restore(0x10), check(0x20).is_err())));
        let restored = is_done.recv_timeout(LONG).expect("restored while another one registers");
        assert_eq!(restored, (Ok(()), true));
        fake::Registering::goes_on();
        assert_eq!(other.join().unwrap(), Ok(()));
        assert_eq!((disable(0x10), disable(0x20)), (Ok(()), Ok(())));
    }
}
