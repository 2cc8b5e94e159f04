//! The threads that process packets and run waves.
//!
//! Nothing tells the device that the host has written a packet, so one thread at least looks. It
//! looks often while there is work and rarely when there has been none for long.

use super::group::{Group, Ran, Turn};
use super::machine::Device;
use crate::isa::wave::{Fault, Memory};
use parking_lot::MutexGuard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// Looks without a pause after something has happened.
const AWAKE: Duration = Duration::from_micros(100);
/// Looks often for as long.
const ALERT: Duration = Duration::from_millis(200);
const SHORT: Duration = Duration::from_micros(40);
const LONG: Duration = Duration::from_micros(500);

/// Starts the threads of a device.
pub(super) fn start(device: &'static Device) {
    let workers = device.state.lock().settings.workers.max(1);
    for number in 0..workers {
        let body = move || Worker { device, first: number == 0, busy: Instant::now() }.run();
        let name = format!("gfx906-{number}");
        thread::Builder::new().name(name).spawn(body).expect("the host has room for a thread");
    }
}

struct Worker {
    device: &'static Device,
    /// The one that looks for packets when there is nothing to run.
    first: bool,
    /// Last time at which there was something to do.
    busy: Instant,
}

impl Worker {
    fn run(mut self) {
        // Sleeps are to end when they should, not up to 50 µs later; without this they are longer.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        loop {
            self.step();
        }
    }

    fn step(&mut self) {
        let device = self.device;
        let mut state = device.state.lock();
        let news = state.advance(&device.memory, &device.events);
        let sleepy = state.sleepy > state.residents.len();
        // One thread is enough to look at words that don't change.
        let needed = self.first || !sleepy;
        let Some((group, turn)) = needed.then(|| state.pick()).flatten() else {
            drop(state);
            return self.rest(news);
        };
        self.busy = Instant::now();
        let clock = state.clock();
        if sleepy {
            state.sleepy = 0;
        }
        if state.residents.len() > 0 {
            device.work.notify_one();
        }
        drop(state);
        if sleepy {
            thread::sleep(SHORT);
        }
        let (group, ran) = run(group, turn, &device.memory.view(clock));
        device.state.lock().put_back(group, ran);
        device.returned.notify_all();
    }

    fn rest(&mut self, news: bool) {
        if news {
            self.busy = Instant::now();
        }
        let idle = self.busy.elapsed();
        if !self.first {
            let mut state: MutexGuard<'_, _> = self.device.state.lock();
            self.device.work.wait_for(&mut state, Duration::from_millis(100));
        } else if idle < AWAKE {
            thread::yield_now();
        } else {
            thread::sleep(if idle < ALERT { SHORT } else { LONG });
        }
    }
}

/// Lets a workgroup run. A panic in the interpreter is a fault of the device, not of the host's.
fn run(mut group: Group, turn: Turn, memory: &dyn Memory) -> (Group, Ran) {
    let ran = catch_unwind(AssertUnwindSafe(|| group.run(turn, memory)));
    let ran =
        ran.unwrap_or_else(|panic| Ran { fault: Some(fault(&group, &*panic)), ..Ran::default() });
    (group, ran)
}

fn fault(group: &Group, panic: &(dyn std::any::Any + Send)) -> Fault {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Fault { pc: group.pc(), instruction: String::new(), why: format!("panic: {text}") }
}
