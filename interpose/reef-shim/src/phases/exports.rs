//! C symbols: `include/reef_guest.h`.

use super::process::{self, Effect};
use crate::catch_panics::catch_panics;
use crate::guest::phase::member::Refusal;
use reef_guest::page::Class;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

thread_local! {
    /// Reason of this thread's last refusal.
    static WHY: RefCell<CString> = RefCell::default();
}

/// Begins a real-time phase. 0: it has begun. `ENODEV`: this program isn't scheduled, and there is
/// nothing to end. `EPERM`: the daemon refuses. `EAGAIN`: the daemon doesn't answer.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_begin_phase() -> c_int {
    catch_panics(|| {
        let (code, why) = match process::begin() {
            Ok(Effect::Begun) => return Some(0),
            Ok(Effect::None) => (libc::ENODEV, "this program is not scheduled".to_owned()),
            Err(Refusal::Denied(why)) => (libc::EPERM, why),
            Err(Refusal::Unreachable(why)) => (libc::EAGAIN, why),
        };
        let why = CString::new(why.replace('\0', " ")).unwrap_or_default();
        WHY.with(|text| *text.borrow_mut() = why);
        Some(code)
    })
    .unwrap_or(libc::ENODEV)
}

/// Ends a phase. 0, or `EINVAL`: none has begun.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_end_phase() -> c_int {
    let has_ended = catch_panics(|| Some(process::end())).unwrap_or(true);
    if has_ended { 0 } else { libc::EINVAL }
}

/// Releases programs that this one holds, until its next launch, or waits while it is held itself.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_yield() {
    catch_panics(process::yield_now);
}

/// Class: 1 best-effort, 2 real-time, 0 not scheduled.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_class() -> c_int {
    catch_panics(process::class).map_or(0, |class| match class {
        Class::BestEffort => 1,
        Class::RealTime => 2,
    })
}

/// 1 if this program is held now.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_is_held() -> c_int {
    catch_panics(process::is_held).into()
}

/// Number of phases that last, of all threads.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_phases() -> c_int {
    c_int::try_from(catch_panics(process::count)).unwrap_or(c_int::MAX)
}

/// Reason for which this thread's last phase has not begun. It stays until the thread's next one.
#[unsafe(no_mangle)]
extern "C" fn reef_guest_why() -> *const c_char {
    WHY.with(|text| text.borrow().as_ptr())
}
