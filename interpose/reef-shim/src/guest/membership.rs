//! Membership of a device of this process at the daemon: requested, joined, refused, or orphaned by
//! a daemon that has ended.

use super::absence::Absence;
use super::device::{Device, note_joined};
use super::meter::Meter;
use crate::explain;
use crate::limit::device::Limited;
use crate::settings::settings;
use reef_guest::hold::Holders;
use reef_guest::join::JoinRequest;
use reef_guest::page::{Class, Identity, Mapping, MpsCost, PageFile, Time};
use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Time for which the first launch on a device waits for the daemon. Without an answer launches are
/// passed on.
const JOIN_TIMEOUT: Duration = Duration::from_millis(200);
/// Longer time for a guest whose time is limited, which has a page soon: a launch without one is
/// refused, because it would not be charged.
const LIMITED_TIMEOUT: Duration = Duration::from_secs(60);

/// Predicts what MPS costs a real-time program.
fn mps_cost(device: &Device) -> Option<MpsCost> {
    let (counts, iterations) = (&device.page.counts, device.page.iterations.count());
    let (kernels, nanos) = (counts.graph_kernels.load(Relaxed), counts.iteration_ns.load(Relaxed));
    let cost = MpsCost::of(kernels, iterations, nanos, settings().is_under_mps);
    cost.filter(|_| device.is_real_time())
}

/// Device that this process uses. It stays for the life of the process.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(super) request: JoinRequest,
    asked: Instant,
    state: Mutex<State>,
    changed: Condvar,
    device: OnceLock<&'static Device>,
    watchdog: OnceLock<Thread>,
    pub(super) absence: Absence,
    /// Limit of the device, if its time is limited.
    pub(super) limited: Option<&'static Limited>,
}

#[derive(Clone, Debug)]
enum State {
    /// Requested; with the fault of the last try, if there was one.
    Asked(Option<String>),
    /// Joined after this time; with the number of daemons that have ended since.
    Joined(Duration, u32),
    /// Without a daemon, because its time is limited.
    Alone,
    /// The last request was refused.
    Refused(String),
    /// The daemon has ended; with the number of daemons that have.
    Gone(u32),
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(None) => write!(out, "asked, no answer yet; launches are passed on"),
            Self::Asked(Some(why)) => write!(out, "not joined yet, launches are passed on: {why}"),
            Self::Joined(after, 0) if *after > JOIN_TIMEOUT => {
                write!(out, "joined late, after {after:.1?}; launches before were passed on")
            }
            Self::Joined(after, 0) => write!(out, "joined after {after:.1?}"),
            Self::Joined(_, gone) => write!(out, "joined again after {gone} had gone"),
            Self::Alone => write!(out, "none; its part of the time is limited without one"),
            Self::Refused(why) => write!(out, "refused, and asked again at times: {why}"),
            Self::Gone(gone) => write!(out, "{gone} gone, none since; gates are open"),
        }
    }
}

impl Membership {
    /// Creates the membership of a device before the first request.
    pub(super) fn new(request: JoinRequest, limited: Option<&'static Limited>) -> &'static Self {
        let member: &Self = Box::leak(Box::new(Self {
            request,
            asked: Instant::now(),
            state: Mutex::new(State::Asked(None)),
            changed: Condvar::new(),
            device: OnceLock::new(),
            watchdog: OnceLock::new(),
            absence: Absence::default(),
            limited,
        }));
        explain::add(move || member.report());
        member
    }

    pub(super) fn set_watchdog(&self, watchdog: Thread) {
        let _ = self.watchdog.set(watchdog); // once
    }

    /// Returns the device, once it is joined.
    pub(crate) fn device(&self) -> Option<&'static Device> {
        self.device.get().copied()
    }

    /// Waits for the first answer, and returns the device. A daemon that needs longer is joined
    /// when it answers.
    pub(super) fn wait(&self) -> Option<&'static Device> {
        let is_open = |state: &mut State| matches!(state, State::Asked(None));
        let timeout = if self.limited.is_some() { LIMITED_TIMEOUT } else { JOIN_TIMEOUT };
        drop(self.changed.wait_timeout_while(self.state(), timeout, is_open));
        self.device()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn set(&self, change: impl FnOnce(&State) -> State) {
        let mut state = self.state();
        *state = change(&state);
        self.changed.notify_all();
    }

    /// Joins with the page that the daemon has given.
    pub(super) fn join(&'static self, who: &Identity, page: Mapping) -> &'static Device {
        let meter = self.limited.and_then(|limited| Meter::of(limited, who.class));
        let device = Device::new(who, page, self.watchdog.get().cloned(), meter);
        let device = *self.device.get_or_init(|| Box::leak(Box::new(device)));
        self.set(|_| State::Joined(self.asked.elapsed(), 0));
        device.wake_watchdog();
        note_joined();
        device
    }

    /// Joins as a guest of this class with a page of its own, because this process's part of the
    /// time applies without a daemon too.
    pub(super) fn join_alone(
        &'static self,
        class: Class,
    ) -> io::Result<(&'static Device, PageFile)> {
        let pid = std::process::id();
        let who = Identity { guest: 0, class, holder: 0, pid };
        let (file, page) = PageFile::create(&who)?;
        let device = self.join(&who, page);
        self.set(|_| State::Alone);
        Ok((device, file))
    }

    /// Notes that the daemon has ended, and ends its own hold. A hold for real-time guests stays
    /// for the watchdog's time, in which the next daemon may start.
    pub(super) fn lose(&self, device: &Device) {
        device.is_orphaned.store(true, Relaxed);
        device.page.release(Holders::DAEMON, Time::now());
        self.set(|state| match state {
            State::Joined(_, gone) => State::Gone(gone + 1),
            other => other.clone(),
        });
    }

    /// Returns whether this guest must leave its daemon. A real-time guest isn't written.
    pub(super) fn is_away(&self) -> bool {
        self.device().is_some_and(|device| !device.is_real_time() && device.page.is_away())
    }

    /// Notes that another daemon has accepted this guest.
    pub(super) fn note_rejoined(&self) {
        self.set(|state| match state {
            State::Gone(gone) => State::Joined(self.asked.elapsed(), *gone),
            State::Alone | State::Refused(_) => State::Joined(self.asked.elapsed(), 0),
            other => other.clone(),
        });
    }

    /// Notes a refusal of the daemon. Threads without a device stop waiting.
    pub(super) fn set_refused(&self, why: String) {
        self.set(|_| State::Refused(why));
    }

    /// Notes that no request is possible.
    pub(super) fn refuse(&self, why: &str) {
        explain::refuse::<()>(why);
        self.set(|_| State::Refused(why.into()));
    }

    /// Notes a request without an answer. Threads without a device stop waiting.
    pub(super) fn wait_for_more(&self, why: String) {
        self.set(|state| match state {
            State::Asked(_) => State::Asked(Some(why)),
            other => other.clone(),
        });
    }

    fn report(&self) -> String {
        let state = format!("  daemon: {}\n", self.state());
        let Some(device) = self.device() else { return state };
        let counts = explain::counts(&device.page.counts);
        let waits = device.meter.as_ref().map(|meter| format!(", {}", meter.report()));
        let counts = counts + &waits.unwrap_or_default();
        let cost = mps_cost(device).map(|cost| format!("  {cost}\n")).unwrap_or_default();
        let guest = device.guest.load(Relaxed);
        format!("  guest {guest}, class {}: {counts}\n{cost}{state}", device.class)
    }
}
