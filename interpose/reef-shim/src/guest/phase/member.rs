//! Guest that stands for the phases of this process on a device.

use crate::settings::settings;
use crate::thread;
use reef_guest::join::{JoinRequest, Joined, Uuid, join_as};
use reef_guest::page::{Class, Mapping, Time};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Time within which the daemon must answer, and this process's thread with it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const THREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a phase after which the daemon need not know it: it counts as a real-time program.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between polls whether that time has passed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// No phase uses it.
const IDLE: u32 = 0;
/// A phase uses it, or is about to.
const USED: u32 = 1;
/// Its connection has ended, or is about to.
const OVER: u32 = 2;

/// Reason for which a phase can't begin.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The daemon refuses, with its reason.
    Denied(String),
    /// The daemon doesn't answer, or this system has no thread.
    Unreachable(String),
}

/// Guest of the real-time class, known to one daemon. It stays for the life of the process.
#[derive(Debug)]
pub(super) struct PhaseMember {
    page: Mapping,
    /// [`IDLE`], [`USED`] or, for good, [`OVER`]. Phases use it, its thread ends it.
    state: AtomicU32,
    since: Instant,
    /// Time of the last use's end, in nanoseconds since `since`. Written before `state`.
    used: AtomicU64,
}

type Answer = Result<&'static PhaseMember, Refusal>;

impl PhaseMember {
    /// Asks the daemon for one, which is used from the beginning. A thread without the program's
    /// files keeps the connection.
    pub(super) fn ask(device: Uuid) -> Answer {
        let (say, said) = channel();
        let started = thread::spawn("reef-phase", move || {
            thread::leave_files();
            keep(device, &say);
        });
        started.map_err(|error| Refusal::Unreachable(format!("no thread: {error}")))?;
        said.recv_timeout(THREAD_TIMEOUT).unwrap_or_else(|_| {
            Err(Refusal::Unreachable(format!("no answer within {THREAD_TIMEOUT:?}")))
        })
    }

    /// Uses it for a phase. Returns false if it is over: its daemon has ended or has revoked it, or
    /// it was idle for long.
    pub(super) fn use_again(&self) -> bool {
        self.state.compare_exchange(IDLE, USED, SeqCst, SeqCst) != Err(OVER)
    }

    pub(super) fn end_use(&self) {
        let nanos = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.used.store(nanos, SeqCst);
        let _ = self.state.compare_exchange(USED, IDLE, SeqCst, SeqCst); // or it is over
    }

    /// Ends it if it has been idle for long. Returns whether it did.
    fn leave(&self) -> bool {
        let idle =
            self.since.elapsed().saturating_sub(Duration::from_nanos(self.used.load(SeqCst)));
        idle >= IDLE_TIMEOUT && self.state.compare_exchange(IDLE, OVER, SeqCst, SeqCst).is_ok()
    }

    /// Has the peers held.
    pub(super) fn hold(&self) {
        if self.page.activity.hold() {
            self.page.spans.begin(Time::now());
        }
    }

    /// Counts a launch. Returns true if the peers aren't held.
    #[inline]
    pub(super) fn launch(&self) -> bool {
        self.page.activity.launch()
    }

    /// Has the peers released. The caller has the lock without which none are held; a launch that
    /// is in progress is not waited for.
    pub(super) fn release(&self) {
        let activity = &self.page.activity;
        while activity.is_busy() && !activity.release(activity.pulse()) {
            std::hint::spin_loop(); // a launch was counted in between
        }
        self.page.spans.end(Time::now());
    }

    /// Publishes the progress of this process's work.
    pub(super) fn show_progress(&self, progress: u64) {
        self.page.activity.show_progress(progress);
    }
}

fn keep(device: Uuid, say: &Sender<Answer>) {
    let (member, link) = match join(device) {
        Ok(Joined { page, link, .. }) => {
            let (state, used) = (AtomicU32::new(USED), AtomicU64::new(0));
            let member = PhaseMember { page, state, since: Instant::now(), used };
            let member: &'static PhaseMember = Box::leak(Box::new(member));
            (member, link)
        }
        Err(why) => return drop(say.send(Err(why))),
    };
    if say.send(Ok(member)).is_ok() {
        link.wait_for_end(POLL_INTERVAL, || member.leave());
    }
    member.state.store(OVER, SeqCst);
}

fn join(device: Uuid) -> Result<Joined, Refusal> {
    use reef_guest::join::Refusal as R;
    let settings = settings();
    let (Some(socket), Ok(info)) = (&settings.socket, &settings.guest_info) else {
        return Err(Refusal::Unreachable("no daemon to ask".into()));
    };
    let request = JoinRequest { class: Class::RealTime, device };
    let joined = join_as(socket, &request, &info.clone().for_phases(), ANSWER_TIMEOUT);
    match joined {
        Ok(joined) if joined.who.class == Class::RealTime => Ok(joined),
        Ok(_) => Err(Refusal::Denied("the daemon grants the class be alone".into())),
        Err(R::Refused(why)) => Err(Refusal::Denied(why)),
        Err(why) => Err(Refusal::Unreachable(why.to_string())),
    }
}
