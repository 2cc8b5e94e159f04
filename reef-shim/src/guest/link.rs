//! The connection to the daemon: a thread for each device asks for a page, hears of others, and asks the next daemon when
//! this one has gone.
//!
//! All of it is off the program's path: the thread calls no driver and takes no lock that a launch on a joined device
//! takes, except that of a real-time guest's peers, when one of them comes or goes.

use super::device::Device;
use super::member::Member;
use crate::own::thread;
use crate::settings::settings;
use reef_guest::join::{Event, Joined, Link, Refusal, join_as, rejoin};
use reef_guest::page::{Class, PageFile};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// How long a daemon may take before it is asked anew.
const PATIENCE: Duration = Duration::from_secs(5);
/// From one question to the next: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Starts the thread.
pub(super) fn start(member: &'static Member) -> io::Result<()> {
    thread::spawn("reef-link", move || {
        thread::leave_files();
        run(member);
    })
    .map(drop)
}

fn run(member: &'static Member) {
    let (mut page, mut pause) = (None, FIRST_PAUSE);
    if member.limited.is_some() && !alone(member, &mut page) {
        return;
    }
    loop {
        match ask(member, page.as_ref()) {
            Ok(joined) => {
                pause = FIRST_PAUSE;
                if let Some((device, link)) = take(member, joined, &mut page) {
                    hear(device, &link);
                    member.lose(device);
                }
            }
            Err(Refusal::Refused(why)) => {
                member.refuse(&format!("the daemon refuses: {why}"));
                if member.device().is_none() && member.limited.is_some() {
                    keep_alone(member); // the limit counts all the same
                }
                return;
            }
            Err(why) => member.wait_for_more(why.to_string()),
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// A best-effort guest whose time is limited has a page of its own from the beginning, which daemons take as that of
/// one that went. False: there is no daemon to ask, or no page.
fn alone(member: &'static Member, page: &mut Option<PageFile>) -> bool {
    let is_asking = settings().socket.is_some() && settings().shown.is_ok();
    if !is_asking || member.wish.class == Class::BestEffort {
        *page = keep_alone(member);
    }
    is_asking && (page.is_some() || member.wish.class == Class::RealTime)
}

fn keep_alone(member: &'static Member) -> Option<PageFile> {
    let joined = member.join_alone();
    joined.map(|(_, file)| file).map_err(|error| member.refuse(&format!("no page: {error}"))).ok()
}

fn ask(member: &Member, page: Option<&PageFile>) -> Result<Joined, Refusal> {
    let settings = settings();
    let (Some(socket), Ok(shown)) = (&settings.socket, &settings.shown) else {
        return Err(Refusal::Refused("nothing to ask with".into())); // `attach` has looked
    };
    let part = member.limited.map_or(0, |limited| limited.account().part_of_time());
    let shown = shown.clone().with_part(part);
    match page {
        None => join_as(socket, &member.wish, &shown, PATIENCE),
        Some(page) => rejoin(socket, &member.wish, &shown, page, PATIENCE),
    }
}

/// What was joined, if it is the page that this guest has, or its first one.
fn take(
    member: &'static Member,
    joined: Joined,
    page: &mut Option<PageFile>,
) -> Option<(&'static Device, Link)> {
    let Joined { who, page: mapping, file, peers, link } = joined;
    let device = match (page.as_ref(), member.device()) {
        (Some(page), Some(device)) if page.is_same(&file) && device.class == who.class => {
            device.renew(&who, peers);
            member.rejoined();
            device
        }
        (Some(_), _) => {
            member.wait_for_more("the next daemon doesn't take the page, or the class".into());
            return None;
        }
        (None, _) => member.join(&who, mapping, peers),
    };
    *page = Some(file);
    Some((device, link))
}

/// Takes the daemon's news until it has gone.
fn hear(device: &Device, link: &Link) {
    loop {
        match link.next() {
            Some(Event::Peer(guest, page)) => device.add_peer(guest, page),
            Some(Event::PeerLeft(guest)) => device.drop_peer(guest),
            Some(Event::Gone) => return,
            None => sleep(link),
        }
    }
}

/// Sleeps until there is news.
fn sleep(link: &Link) {
    let mut fd = libc::pollfd { fd: link.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut fd, 1, -1) };
}
