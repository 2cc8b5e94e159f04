//! The daemon's own work beside guests of the same device: each side's real-time work stops the
//! other's best-effort work.
//!
//! The daemon is a best-effort guest of itself, so real-time guests hold it by its page as they
//! hold all others; a thread looks at the page, because they wake nobody. The other way its
//! dispatcher closes the guests' gates before it launches.

use crate::engine::api::Engine;
use crate::error::{Error, Result};
use reef::Neighbours;
use reef_guest::hold::Holders;
use reef_guest::join::{Joined, Uuid, Wish, join};
use reef_guest::page::{Class, Mapping};
use reef_guest::registry::{Gates, Registry};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the registry may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the page is looked at while there are real-time guests and best-effort requests of
/// ours.
const LOOK: Duration = Duration::from_micros(50);
/// The same without requests.
const IDLE_LOOK: Duration = Duration::from_millis(1);
/// How often the thread looks whether it should end.
const TICK: Duration = Duration::from_millis(100);
/// How long best-effort requests may be held: what holds them may wait for one.
const MOST_HELD: Duration = Duration::from_millis(900);
/// How long they run then, all the same.
const BREATHER: Duration = Duration::from_millis(4);

/// The guests of the daemon's device, as its dispatcher sees them.
#[derive(Debug)]
struct Beside {
    gates: Arc<Gates>,
    page: Mapping,
    is_breathing: AtomicBool,
    /// What the dispatcher was told last.
    told: AtomicBool,
}

impl Beside {
    fn is_held(&self) -> bool {
        self.page.holders.is_held_beside(Holders::DAEMON)
    }

    fn is_wanted(&self) -> bool {
        self.is_held() && !self.is_breathing.load(Ordering::SeqCst)
    }
}

impl Neighbours for Beside {
    fn hold(&self, is_held: bool) {
        self.gates.hold(is_held);
    }

    fn have_real_time(&self) -> bool {
        let is_wanted = self.is_wanted();
        self.told.store(is_wanted, Ordering::SeqCst);
        is_wanted
    }
}

/// While it lives, the daemon's device is shared with its guests.
#[derive(Debug)]
pub(super) struct Shared {
    engine: Arc<dyn Engine>,
    is_over: Arc<AtomicBool>,
    /// The daemon's number as its own guest.
    pub(super) guest: u32,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    /// Joins the registry at `socket` and starts the thread.
    ///
    /// # Errors
    ///
    /// `Failed`: the registry doesn't answer; no thread.
    pub(super) fn start(
        engine: &Arc<dyn Engine>,
        registry: &Registry,
        socket: &Path,
        device: Uuid,
    ) -> Result<Self> {
        let wish = Wish { class: Class::BestEffort, device };
        let refused = |why: &dyn std::fmt::Display| Error::Failed(format!("guests: {why}"));
        let Joined { who, page, link, .. } =
            join(socket, &wish, PATIENCE).map_err(|e| refused(&e))?;
        let (is_breathing, told) = (AtomicBool::new(false), AtomicBool::new(false));
        let gates = registry.gates(device);
        let beside = Arc::new(Beside { gates, page, is_breathing, told });
        engine.set_neighbours(Some(beside.clone()));
        let is_over = Arc::<AtomicBool>::default();
        let watch = Watch { beside, engine: engine.clone(), is_over: is_over.clone(), held: None };
        let thread = std::thread::Builder::new().name("reef-beside".into());
        let thread = thread.spawn(move || {
            let _link = link; // its end is the end of the guest
            watch.run();
        });
        let thread = Some(thread.map_err(|e| Error::system("a thread for guests", e))?);
        Ok(Self { engine: engine.clone(), is_over, guest: who.guest, thread })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.engine.set_neighbours(None);
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join); // a panic has already been printed
    }
}

/// The thread that looks at the page.
struct Watch {
    beside: Arc<Beside>,
    engine: Arc<dyn Engine>,
    is_over: Arc<AtomicBool>,
    /// Since when real-time guests have held without a break.
    held: Option<Instant>,
}

impl Watch {
    fn run(mut self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let is_there = self.beside.gates.wait_for_real_time(TICK);
            self.tell();
            if is_there {
                self.breathe();
                let has_work = self.engine.has_best_effort();
                std::thread::sleep(if has_work { LOOK } else { IDLE_LOOK });
            }
        }
    }

    /// Has the dispatcher look if it was told something else.
    fn tell(&self) {
        if self.beside.is_wanted() != self.beside.told.load(Ordering::SeqCst) {
            self.engine.look();
        }
    }

    /// Lets best-effort requests run for a moment if they have been held for too long.
    fn breathe(&mut self) {
        if !self.beside.is_held() {
            self.held = None;
        } else if self.held.get_or_insert_with(Instant::now).elapsed() >= MOST_HELD {
            self.beside.is_breathing.store(true, Ordering::SeqCst);
            self.engine.look();
            std::thread::sleep(BREATHER);
            self.beside.is_breathing.store(false, Ordering::SeqCst);
            self.engine.look();
            self.held = None;
        }
    }
}
