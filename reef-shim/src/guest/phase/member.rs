//! Guest that stands for the phases of this process on a device.

use crate::settings::settings;
use crate::thread;
use reef_guest::join::{JoinRequest, Joined, Link, Uuid, join_as};
use reef_guest::page::{Class, Mapping, Time};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Time within which the daemon must answer, and this process's thread with it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const THREAD_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval between polls of the connection, which says by itself that it has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

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
    is_over: AtomicBool,
}

type Answer = Result<&'static PhaseMember, Refusal>;

impl PhaseMember {
    /// Asks the daemon for one. A thread without the program's files keeps the connection.
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

    /// Returns whether its daemon has ended, or has revoked it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
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
            let member = PhaseMember { page, is_over: AtomicBool::new(false) };
            let member: &'static PhaseMember = Box::leak(Box::new(member));
            (member, link)
        }
        Err(why) => return drop(say.send(Err(why))),
    };
    if say.send(Ok(member)).is_ok() {
        wait(&link);
    }
    member.is_over.store(true, Relaxed);
}

fn wait(link: &Link) {
    link.wait_for_end(POLL_INTERVAL, || false);
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
