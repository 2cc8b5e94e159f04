//! Coordination of the daemon's own work with guests on the same device: the real-time work of each
//! side stops the other's best-effort work.
//!
//! The daemon is a best-effort guest of itself, so real-time guests pause it through its page like
//! all others. A thread polls the page, because they wake no thread. In the other direction, the
//! daemon's dispatcher closes the guests' gates before it launches.

use crate::engine::api::Engine;
use crate::error::{Error, Result};
use reef::Neighbours;
use reef_guest::hold::Holders;
use reef_guest::join::{JoinRequest, Joined, Uuid, join};
use reef_guest::page::{Class, Mapping};
use reef_guest::registry::{Gates, Registry};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that the registry has to answer.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the page is polled while there are real-time guests and best-effort requests
/// of the daemon.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Interval without best-effort requests.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Interval at which the thread checks whether it must end.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time for which best-effort requests are paused: a guest may wait for one of them.
const MAX_PAUSE: Duration = Duration::from_millis(900);
/// Time for which they run after that.
const BREAK_TIME: Duration = Duration::from_millis(4);

/// Guests of the daemon's device, as neighbours of its dispatcher.
#[derive(Debug)]
struct DeviceGuests {
    gates: Arc<Gates>,
    page: Mapping,
    is_on_break: AtomicBool,
    /// Last answer to the dispatcher.
    told: AtomicBool,
}

impl DeviceGuests {
    fn is_held(&self) -> bool {
        self.page.holders.is_held_by_another(Holders::DAEMON)
    }

    fn must_pause(&self) -> bool {
        self.is_held() && !self.is_on_break.load(Ordering::SeqCst)
    }
}

impl Neighbours for DeviceGuests {
    fn hold(&self, is_held: bool) {
        self.gates.hold(is_held);
    }

    fn have_real_time(&self) -> bool {
        let must_pause = self.must_pause();
        self.told.store(must_pause, Ordering::SeqCst);
        must_pause
    }
}

/// Shares the daemon's device with its guests until it is dropped.
#[derive(Debug)]
pub(super) struct SharedDevice {
    engine: Arc<dyn Engine>,
    is_over: Arc<AtomicBool>,
    /// Guest number of the daemon.
    pub(super) guest: u32,
    thread: Option<JoinHandle<()>>,
}

impl SharedDevice {
    /// Joins the registry at `socket` and starts the thread.
    ///
    /// # Errors
    ///
    /// `Failed` if the registry does not answer, or the thread cannot be started.
    pub(super) fn start(
        engine: &Arc<dyn Engine>,
        registry: &Registry,
        socket: &Path,
        device: Uuid,
    ) -> Result<Self> {
        let wish = JoinRequest { class: Class::BestEffort, device };
        let failed = |why: &dyn std::fmt::Display| Error::Failed(format!("guests: {why}"));
        let Joined { who, page, link, .. } =
            join(socket, &wish, JOIN_TIMEOUT).map_err(|e| failed(&e))?;
        let (is_on_break, told) = (AtomicBool::new(false), AtomicBool::new(false));
        let gates = registry.gates(device);
        let guests = Arc::new(DeviceGuests { gates, page, is_on_break, told });
        engine.set_neighbours(Some(guests.clone()));
        let is_over = Arc::<AtomicBool>::default();
        let poller =
            PagePoller { guests, engine: engine.clone(), is_over: is_over.clone(), held: None };
        let thread = std::thread::Builder::new().name("reef-guests".into());
        let thread = thread.spawn(move || {
            let _link = link; // its end is the end of the guest
            poller.run();
        });
        let thread =
            Some(thread.map_err(|e| Error::system("cannot start the thread for guests", e))?);
        Ok(Self { engine: engine.clone(), is_over, guest: who.guest, thread })
    }
}

impl Drop for SharedDevice {
    fn drop(&mut self) {
        self.engine.set_neighbours(None);
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join); // a panic has already been printed
    }
}

/// Thread that polls the page.
struct PagePoller {
    guests: Arc<DeviceGuests>,
    engine: Arc<dyn Engine>,
    is_over: Arc<AtomicBool>,
    /// Time since which real-time guests have paused the daemon without a break.
    held: Option<Instant>,
}

impl PagePoller {
    fn run(mut self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let is_there = self.guests.gates.wait_for_real_time(STOP_INTERVAL);
            self.notify();
            if is_there {
                self.take_break();
                let has_work = self.engine.has_best_effort();
                std::thread::sleep(if has_work { POLL_INTERVAL } else { IDLE_POLL_INTERVAL });
            }
        }
    }

    /// Notifies the dispatcher if the last answer is out of date.
    fn notify(&self) {
        if self.guests.must_pause() != self.guests.told.load(Ordering::SeqCst) {
            self.engine.run_pass();
        }
    }

    /// Lets best-effort requests run for a moment after [`MAX_PAUSE`].
    fn take_break(&mut self) {
        if !self.guests.is_held() {
            self.held = None;
        } else if self.held.get_or_insert_with(Instant::now).elapsed() >= MAX_PAUSE {
            self.guests.is_on_break.store(true, Ordering::SeqCst);
            self.engine.run_pass();
            std::thread::sleep(BREAK_TIME);
            self.guests.is_on_break.store(false, Ordering::SeqCst);
            self.engine.run_pass();
            self.held = None;
        }
    }
}
