//! Link to the daemon: a thread for each device asks for a page, and asks the next daemon when this
//! one has ended.
//!
//! The thread isn't on the program's path: it calls no driver and takes no lock that a launch on a
//! joined device takes. No refusal is final: a daemon may grant the request when other guests have
//! left, or with another configuration.

use super::device::Device;
use super::membership::Membership;
use crate::settings::settings;
use crate::thread;
use reef_guest::join::{Joined, Link, Refusal, join_as, rejoin};
use reef_guest::page::{Class, PageFile, Time};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Time after which a daemon without an answer is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a real-time guest whose time is limited begins without an answer: before its
/// first launch is passed on.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_millis(100);
/// Interval between requests while no daemon answers. After a restart of the daemon, best-effort
/// and real-time guests must know each other within 100 ms. A request without a daemon takes some
/// microseconds.
const ASK_INTERVAL: Duration = Duration::from_millis(40);
const _: () = assert!(2 * ASK_INTERVAL.as_millis() <= 100);
/// Interval between polls of the page, which may say that the guest must leave.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum and maximum time from a refusal to the next request.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Starts the thread.
pub(super) fn start(member: &'static Membership) -> io::Result<()> {
    thread::spawn("reef-link", move || {
        thread::leave_files();
        let mut page = None;
        if member.limited.is_none() || start_alone(member, &mut page) {
            run(member, page);
        }
    })
    .map(drop)
}

/// Starts the thread of a guest that joins again with its page. The thread has the file in a table
/// of its own, and it is closed in this one.
pub(super) fn start_again(member: &'static Membership, page: PageFile) -> io::Result<()> {
    let number = page.as_fd().as_raw_fd();
    let (say, said) = channel();
    thread::spawn("reef-link", move || {
        let is_own = thread::leave_files_but(Some(page.as_fd()));
        let _ = say.send(is_own); // it waits
        run(member, Some(page));
    })?;
    if said.recv().unwrap_or(false) {
        // SAFETY: the number of this table, of which the thread has its own copy.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(())
}

fn run(member: &'static Membership, mut page: Option<PageFile>) {
    let mut pause = MIN_PAUSE;
    loop {
        if let Some(file) = &page
            && member.is_away()
            && member.absence.leave(file)
        {
            // Its holders don't know it any more.
            member.device().inspect(|device| device.page.clear(Time::now()));
            return;
        }
        let answer = ask(member, page.as_ref());
        let is_refused = matches!(answer, Err(Refusal::Refused(_)));
        match answer {
            Ok(joined) => {
                if let Some((device, link)) = take(member, joined, &mut page) {
                    link.wait_for_end(POLL_INTERVAL, || member.is_away());
                    member.lose(device);
                }
            }
            Err(Refusal::Refused(why)) => {
                page = page.or_else(|| limit_alone(member, Class::BestEffort));
                member.set_refused(format!("the daemon refuses: {why}"));
            }
            Err(why) => {
                page = page.or_else(|| limit_alone(member, member.request.class));
                member.wait_for_more(why.to_string());
            }
        }
        std::thread::sleep(if is_refused { pause } else { ASK_INTERVAL });
        pause = if is_refused { (2 * pause).min(MAX_PAUSE) } else { MIN_PAUSE };
    }
}

/// Gives a best-effort guest whose time is limited a page of its own from the beginning. Daemons
/// accept it like the page of an earlier daemon. Returns false if there is no daemon to ask, or no
/// page.
fn start_alone(member: &'static Membership, page: &mut Option<PageFile>) -> bool {
    let is_asking = settings().socket.is_some() && settings().guest_info.is_ok();
    if !is_asking || member.request.class == Class::BestEffort {
        *page = keep_alone(member, Class::BestEffort);
    }
    is_asking && (page.is_some() || member.request.class == Class::RealTime)
}

/// Gives a guest without a device a page of its own if its time is limited: the limit applies
/// whatever the daemon says, and if there is none. Threads that wait for the answer must find it.
fn limit_alone(member: &'static Membership, class: Class) -> Option<PageFile> {
    (member.device().is_none() && member.limited.is_some()).then(|| keep_alone(member, class))?
}

fn keep_alone(member: &'static Membership, class: Class) -> Option<PageFile> {
    let joined = member.join_alone(class);
    joined.map(|(_, file)| file).map_err(|error| member.refuse(&format!("no page: {error}"))).ok()
}

fn ask(member: &Membership, page: Option<&PageFile>) -> Result<Joined, Refusal> {
    let settings = settings();
    let (Some(socket), Ok(guest_info)) = (&settings.socket, &settings.guest_info) else {
        return Err(Refusal::Refused("nothing to ask with".into())); // `attach` has looked
    };
    let part = member.limited.map_or(0, |limited| limited.account().part_of_time());
    let guest_info = guest_info.clone().with_part(part);
    match page {
        None if member.limited.is_some() => {
            join_as(socket, &member.request, &guest_info, FIRST_ANSWER_TIMEOUT)
        }
        None => join_as(socket, &member.request, &guest_info, ANSWER_TIMEOUT),
        Some(page) => rejoin(socket, &member.request, &guest_info, page, ANSWER_TIMEOUT),
    }
}

/// Takes the joined guest, if it has this guest's page, or its first one.
fn take(
    member: &'static Membership,
    joined: Joined,
    page: &mut Option<PageFile>,
) -> Option<(&'static Device, Link)> {
    let Joined { who, page: mapping, file, link } = joined;
    let device = match (page.as_ref(), member.device()) {
        (Some(page), Some(device)) if page.is_same(&file) && device.class == who.class => {
            device.renew(&who);
            member.note_rejoined();
            device
        }
        (Some(_), _) => {
            member.wait_for_more("the next daemon doesn't take the page, or the class".into());
            return None;
        }
        (None, _) => member.join(&who, mapping),
    };
    *page = Some(file);
    Some((device, link))
}
