//! What stands where in the page.

use super::spans::{Spans, Time};
use super::times::Times;
use crate::hold::activity::Activity;
use crate::hold::holders::Holders;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The page's size.
pub const BYTES: usize = 4096;

/// Changes with the layout, and with what the words mean.
pub const VERSION: u32 = 2;

/// `REEFPAGE`, as the bytes stand in memory on a little-endian machine.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"REEFPAGE");

/// What a guest may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Its launches stand behind gates.
    BestEffort,
    /// Its launches hold the best-effort guests of the same device.
    RealTime,
}

impl Class {
    /// As it stands in pages and messages.
    pub fn to_number(self) -> u32 {
        match self {
            Self::BestEffort => 1,
            Self::RealTime => 2,
        }
    }

    /// `None`: no class has this number.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::BestEffort, Self::RealTime].into_iter().find(|class| class.to_number() == number)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::BestEffort => "be",
            Self::RealTime => "rt",
        })
    }
}

/// Who a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The daemon's number of this guest.
    pub guest: u32,
    /// What the daemon granted.
    pub class: Class,
    /// The bit that the daemon sets in its peers' holders words while a real-time guest is busy.
    pub holder: u32,
    /// The guest's process, as the daemon sees it.
    pub pid: u32,
}

/// Written by the daemon before it gives the page away.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    pub(super) bytes: AtomicU32,
    pub(super) guest: AtomicU32,
    pub(super) class: AtomicU32,
    pub(super) holder: AtomicU32,
    pub(super) pid: AtomicU32,
}

impl Header {
    pub(super) fn write(&self, who: &Identity) {
        self.version.store(VERSION, Relaxed);
        self.bytes.store(BYTES as u32, Relaxed);
        self.guest.store(who.guest, Relaxed);
        self.class.store(who.class.to_number(), Relaxed);
        self.holder.store(who.holder, Relaxed);
        self.pid.store(who.pid, Relaxed);
        self.magic.store(MAGIC, Relaxed);
    }

    /// Who it says it is, or what is wrong with it.
    pub(super) fn read(&self) -> Result<Identity, String> {
        let (magic, version) = (self.magic.load(Relaxed), self.version.load(Relaxed));
        if magic != MAGIC {
            return Err(format!("it begins with {magic:#x}"));
        }
        if version != VERSION || self.bytes.load(Relaxed) != BYTES as u32 {
            return Err(format!("it has version {version}, this program {VERSION}"));
        }
        let class = self.class.load(Relaxed);
        let class = Class::from_number(class).ok_or_else(|| format!("its class is {class}"))?;
        let (guest, holder) = (self.guest.load(Relaxed), self.holder.load(Relaxed));
        Ok(Identity { guest, class, holder, pid: self.pid.load(Relaxed) })
    }
}

/// What a guest did so far. Written by the guest alone, read by the daemon.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Counts {
    /// Launches of kernels, captured ones left out.
    pub kernels: AtomicU64,
    /// Launches of graphs.
    pub graphs: AtomicU64,
    /// Launches that were captured into a graph.
    pub captured: AtomicU64,
    /// Gates put into streams.
    pub gates: AtomicU64,
    /// Gates put into graphs.
    pub graph_gates: AtomicU64,
    /// Launches that found the gate closed.
    pub delayed: AtomicU64,
    /// How often a thread waited because too much was in flight.
    pub waits: AtomicU64,
    /// How often the guest opened its own gate because it had been closed for too long.
    pub breathers: AtomicU64,
    /// Gates and marks that the driver refused.
    pub refused: AtomicU64,
    /// Look-ups of functions that should be intercepted and couldn't be.
    pub unhooked: AtomicU64,
    /// Nanoseconds for which a best-effort guest seemed to use its device: its gate was open, and
    /// it had launched what isn't known to have ended. From looks now and then.
    pub busy_ns: AtomicU64,
}

/// The page.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Page {
    pub(super) header: Header,
    /// The device waits here: at byte 128.
    pub holders: CacheAligned<Holders>,
    /// A real-time guest's launches.
    pub activity: CacheAligned<Activity>,
    /// What the guest did.
    pub counts: Counts,
    /// When a best-effort guest was held, and a real-time guest held others.
    pub spans: Spans,
    /// How long its calls took, if it has a profile; zeroes from a guest of an older build.
    pub times: Times,
}

/// Alone in its two cache lines, so that writers of neighbours don't slow readers down.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheAligned<T>(T);

impl<T> std::ops::Deref for CacheAligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Page {
    /// Where the word that the device waits on stands, in bytes from the page's start.
    pub const HOLDERS_AT: usize = std::mem::offset_of!(Page, holders);

    /// Whose it says it is, for a look at what bytes may do.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn identity(&self) -> Result<Identity, String> {
        self.header.read()
    }

    /// Whether it still says what the daemon wrote.
    ///
    /// # Errors
    ///
    /// What it says: whoever has the page has changed it.
    pub(crate) fn check(&self, who: &Identity) -> Result<(), String> {
        match self.header.read()? {
            found if found == *who => Ok(()),
            found => Err(format!("it says {found:?}, the daemon wrote {who:?}")),
        }
    }

    /// Gives it to a guest, which may have had it from another daemon: nobody holds it then.
    pub(crate) fn hand_over(&self, who: &Identity) {
        self.header.write(who);
        self.clear(Time::now());
    }

    /// Adds a holder; with the first one a span begins.
    pub fn hold(&self, holder: u32, now: Time) {
        if self.holders.add(holder) {
            self.spans.begin(now);
        }
    }

    /// Takes a holder away; with the last one the span ends.
    pub fn release(&self, holder: u32, now: Time) {
        if self.holders.take(holder) {
            self.spans.end(now);
        }
    }

    /// Takes all holders away: those who should have done it are dead.
    pub fn clear(&self, now: Time) {
        self.holders.clear();
        self.spans.end(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_stands_still_within_a_version() {
        assert_eq!(VERSION, 2, "a new version has new numbers here");
        assert_eq!(Page::HOLDERS_AT, 128);
        assert_eq!(std::mem::offset_of!(Page, activity), 256);
        assert_eq!(std::mem::offset_of!(Page, counts), 384);
        assert_eq!(std::mem::offset_of!(Page, spans), 512);
        assert_eq!(std::mem::offset_of!(Page, times), 2688);
        assert!(size_of::<Page>() <= BYTES);
    }

    #[test]
    fn a_span_lasts_from_the_first_holder_to_the_last() {
        let page = Page::default();
        page.hold(3, Time(10));
        page.hold(4, Time(20));
        page.hold(3, Time(30));
        page.release(9, Time(35));
        page.release(3, Time(40));
        page.holders.override_all();
        page.release(4, Time(50));
        page.hold(4, Time(60));
        page.clear(Time(70));
        page.clear(Time(80));
        assert_eq!(page.spans.behind(0), [(Time(10), Time(50)), (Time(60), Time(70))]);
    }

    #[test]
    fn a_header_that_was_tampered_with_says_what_is_wrong() {
        let who = Identity { guest: 7, class: Class::RealTime, holder: 3, pid: 99 };
        let page = Page::default();
        assert_eq!(page.header.read().unwrap_err(), "it begins with 0x0");
        page.header.write(&who);
        assert_eq!(page.header.read(), Ok(who));
        assert_eq!(page.check(&who), Ok(()));
        page.header.pid.store(100, Relaxed);
        assert!(page.check(&who).unwrap_err().contains("pid: 100"));
        page.header.class.store(9, Relaxed);
        assert_eq!(page.header.read().unwrap_err(), "its class is 9");
        page.header.version.store(1, Relaxed);
        assert_eq!(page.header.read().unwrap_err(), "it has version 1, this program 2");
    }
}
