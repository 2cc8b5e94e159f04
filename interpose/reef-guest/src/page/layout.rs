//! Layout of the page.

use super::iterations::Iterations;
use super::spans::{Spans, Time};
use super::times::Times;
use crate::hold::activity::Activity;
use crate::hold::holders::Holders;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Size of the page.
pub const BYTES: usize = 4096;

/// Version of the layout and of the words' meanings.
pub const VERSION: u32 = 2;

/// `REEFPAGE`, as the bytes stand in memory on a little-endian machine.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"REEFPAGE");

/// Class of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Its launches wait at gates.
    BestEffort,
    /// Its launches hold the best-effort guests of the same device.
    RealTime,
}

impl Class {
    /// Returns its number in pages and messages.
    pub fn to_number(self) -> u32 {
        match self {
            Self::BestEffort => 1,
            Self::RealTime => 2,
        }
    }

    /// Returns the class of a number. `None`: no class has it.
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

/// Identity of a page's guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number that the daemon gave the guest.
    pub guest: u32,
    /// Class that the daemon granted.
    pub class: Class,
    /// Bit that the daemon sets in its peers' holders words while a real-time guest is busy.
    pub holder: u32,
    /// Process of the guest, in the daemon's namespace.
    pub pid: u32,
}

/// Header of the page. Written by the daemon before it sends the page.
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
    /// 1 while the process is written to a folder; zero from an older build.
    pub(super) away: AtomicU32,
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

    /// Returns its identity. The error is the fault of the header.
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

/// Counters of a guest. Written by the guest alone, read by the daemon.
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
    /// Waits of threads because too many launches were in flight.
    pub waits: AtomicU64,
    /// Times at which the guest opened its own gate because it had been closed for too long.
    pub starvation_reliefs: AtomicU64,
    /// Gates and marks that the driver refused.
    pub refused: AtomicU64,
    /// Look-ups of functions that couldn't be intercepted.
    pub unhooked: AtomicU64,
    /// Nanoseconds for which a best-effort guest seemed to use its device: its gate was open, and
    /// launches were in flight. From periodic polls.
    pub busy_ns: AtomicU64,
    /// Launches of long kernels in slices, while real-time work is there; zero from a guest of an
    /// older build, as the next one.
    pub sliced: AtomicU64,
    /// Launches of long kernels as a whole, while slices are enabled and real-time work is there.
    pub whole: AtomicU64,
    /// Kernels of the graphs that a real-time guest launched; zero from a guest of an older build,
    /// as the next one.
    pub graph_kernels: AtomicU64,
    /// Nanoseconds of a real-time guest's iterations together.
    pub iteration_ns: AtomicU64,
}

/// Page that a guest and its daemon share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Page {
    pub(super) header: Header,
    /// Word that the device waits on, at byte 128.
    pub holders: CacheAligned<Holders>,
    /// Activity of a real-time guest.
    pub activity: CacheAligned<Activity>,
    /// Counters of the guest.
    pub counts: Counts,
    /// Times for which a best-effort guest was held, or a real-time guest held others.
    pub spans: Spans,
    /// Times of its calls, if it has a profile; zeroes from a guest of an older build.
    pub times: Times,
    /// Last iterations of a real-time guest; zeroes from a guest of an older build.
    pub iterations: Iterations,
}

/// Value in two cache lines of its own, so that writers of neighbours don't slow readers down.
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
    /// Offset of the word that the device waits on, in bytes from the page's start.
    pub const HOLDERS_AT: usize = std::mem::offset_of!(Page, holders);

    /// Returns the identity in the header, for the fuzz target.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn identity(&self) -> Result<Identity, String> {
        self.header.read()
    }

    /// Checks that the header still has the identity that the daemon wrote.
    ///
    /// # Errors
    ///
    /// The difference: a process that has the page has changed it.
    pub(crate) fn check(&self, identity: &Identity) -> Result<(), String> {
        match self.header.read()? {
            found if found == *identity => Ok(()),
            found => Err(format!("it says {found:?}, the daemon wrote {identity:?}")),
        }
    }

    /// Hands the page to a guest, which may have had it from another daemon. It has no holders
    /// then.
    pub(crate) fn hand_over(&self, who: &Identity) {
        self.header.write(who);
        self.clear(Time::now());
    }

    /// Adds a holder. A span begins with the first one.
    pub fn hold(&self, holder: u32, now: Time) {
        if self.holders.add(holder) {
            self.spans.begin(now);
        }
    }

    /// Removes a holder. The span ends with the last one.
    pub fn release(&self, holder: u32, now: Time) {
        if self.holders.take(holder) {
            self.spans.end(now);
        }
    }

    /// Returns whether the guest must leave its daemon, because its process is written to a folder.
    pub fn is_away(&self) -> bool {
        self.header.away.load(Relaxed) != 0
    }

    /// Has the guest leave its daemon, or join again. Written by the writer of its process.
    pub fn set_away(&self, is_away: bool) {
        self.header.away.store(is_away.into(), Relaxed);
    }

    /// Removes all holders, because the processes that should have done so are dead.
    pub fn clear(&self, now: Time) {
        self.holders.clear();
        self.spans.end(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_unchanged_within_a_version() {
        assert_eq!(VERSION, 2, "a new version has new numbers here");
        assert_eq!(std::mem::offset_of!(Header, away), 32);
        assert_eq!(Page::HOLDERS_AT, 128);
        assert_eq!(std::mem::offset_of!(Page, activity), 256);
        assert_eq!(std::mem::offset_of!(Page, counts), 384);
        assert_eq!(std::mem::offset_of!(Page, spans), 512);
        assert_eq!(std::mem::offset_of!(Page, times), 2688);
        assert_eq!(std::mem::offset_of!(Page, iterations), 3072);
        assert!(size_of::<Page>() <= BYTES);
    }

    #[test]
    fn span_lasts_from_the_first_holder_to_the_last() {
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
    fn tampered_header_is_refused_with_the_fault() {
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
