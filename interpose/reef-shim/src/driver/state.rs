//! State of this library: calls are inspected, or passed on to the driver.

use crate::settings::{runs_again, settings};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Calls are passed on, or inspected. Zero: not decided.
const PASS: u32 = 1;
const ON: u32 = 2;
/// State of a profile that records nothing now. Look-ups return hooks as if it did.
const PAUSED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(0);
/// State for calls about memory, which are inspected for limits alone. A panic doesn't change it:
/// limits stay in force.
static LIMITS: AtomicU32 = AtomicU32::new(0);

/// State for copies on the device, which are inspected for limits of time alone.
static COPIES: AtomicU32 = AtomicU32::new(0);

/// State for calls that are timed.
static PROFILE: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Above zero while this thread is inside this library: its calls are passed on then. Has no
    /// destructor, so that its use costs no allocation.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Decides whether calls are inspected. Only the first decision counts.
pub(crate) fn decide(is_on: bool) {
    let state = if is_on { ON } else { PASS };
    let _ = STATE.compare_exchange(0, state, Ordering::Relaxed, Ordering::Relaxed);
}

/// Decides whether anything is limited.
pub(crate) fn decide_limits(is_on: bool) {
    LIMITS.store(if is_on { ON } else { PASS }, Ordering::Relaxed);
}

/// Decides whether copies count as work.
pub(crate) fn decide_copies(is_on: bool) {
    COPIES.store(if is_on { ON } else { PASS }, Ordering::Relaxed);
}

/// Limits nothing from now on: in a child process whose parent had the device, where the driver
/// refuses all calls.
pub(crate) fn end_limits() {
    LIMITS.store(PASS, Ordering::Relaxed);
}

/// Decides whether calls are timed.
pub(crate) fn decide_profile(is_on: bool) {
    PROFILE.store(if is_on { ON } else { PASS }, Ordering::Relaxed);
}

/// Times nothing until it is resumed, if anything is timed.
pub(crate) fn pause_profile() {
    let _ = PROFILE.compare_exchange(ON, PAUSED, Ordering::Relaxed, Ordering::Relaxed);
}

/// Times calls again.
pub(crate) fn resume_profile() {
    let _ = PROFILE.compare_exchange(PAUSED, ON, Ordering::Relaxed, Ordering::Relaxed);
}

/// Times nothing from now on: in a child process.
pub(crate) fn end_profile() {
    PROFILE.store(PASS, Ordering::Relaxed);
}

/// Returns whether calls are timed.
#[inline]
pub(crate) fn is_profiled() -> bool {
    PROFILE.load(Ordering::Relaxed) == ON
}

/// Passes all calls on from now on: in a child process, or after a panic.
pub(crate) extern "C" fn pass_all() {
    STATE.store(PASS, Ordering::Relaxed);
}

/// Returns whether calls are inspected, on whichever thread.
#[inline]
pub(crate) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) == ON
}

/// Guard of a thread inside this library. While it lives, the thread's calls are passed on.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// Enters for a call. `None`: pass the call on.
    #[inline]
    pub(crate) fn enter() -> Option<Self> {
        Self::if_on(&STATE)
    }

    /// Enters for a call about memory. `None`: nothing is limited, or the call is the driver's own.
    #[inline]
    pub(crate) fn limited() -> Option<Self> {
        Self::if_on(&LIMITS)
    }

    /// Enters for a copy. `None`: no time is limited, or all calls are passed on.
    #[inline]
    pub(crate) fn copying() -> Option<Self> {
        if COPIES.load(Ordering::Relaxed) == ON { Self::enter() } else { None }
    }

    #[inline]
    fn if_on(what: &AtomicU32) -> Option<Self> {
        if what.load(Ordering::Relaxed) != ON || DEPTH.get() > 0 {
            return None;
        }
        DEPTH.set(1);
        Some(Self(()))
    }

    /// Enters for a look-up, which has to find the hooks of all kinds: NVIDIA's runtime looks up
    /// every function.
    pub(crate) fn looking_up() -> Option<Self> {
        Self::enter().or_else(Self::limited).or_else(|| match PROFILE.load(Ordering::Relaxed) {
            ON | PAUSED if DEPTH.get() == 0 => Some(Self::always()),
            _ if (settings().is_swappable || runs_again()) && DEPTH.get() == 0 => {
                Some(Self::always())
            }
            _ => None,
        })
    }

    /// Returns whether this thread is inside.
    pub(crate) fn is_here() -> bool {
        DEPTH.get() > 0
    }

    /// Enters whatever is decided, for threads of this library.
    pub(crate) fn always() -> Self {
        DEPTH.set(DEPTH.get().saturating_add(1));
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}
