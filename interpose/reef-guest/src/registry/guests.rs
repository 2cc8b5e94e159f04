//! Table of guests, with the effects of joining and leaving.

use super::connection::{Caller, EndWatch, Guest};
use super::gates::Gates;
use super::pass::Pass;
use super::relay::Relay;
use super::rules::Rules;
use super::view::{GuestView, History};
use crate::colocation::allowance::{Allowance, Caps};
use crate::colocation::memory::{Memory, ProgramKey};
use crate::hold::holders::Holders;
use crate::join::wire::{JoinRequest, Message, Uuid, send};
use crate::limit::quantity::{WHOLE, percent};
use crate::page::file::PageFile;
use crate::page::layout::{Class, Identity};
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use crate::slots::{SlotShare, SlotShares, Standing, Used};
use rustix::net::Shutdown;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Guests of a daemon, in the order in which they joined.
#[derive(Debug)]
pub(super) struct Guests {
    rules: Rules,
    all: Vec<Guest>,
    last: u32,
    /// Gates of devices that have best-effort guests, or that a thread of the daemon may hold.
    gates: Vec<(Uuid, Arc<Gates>)>,
    /// Windows of real-time programs that have ended.
    memory: Arc<Memory>,
}

impl Guests {
    /// Creates an empty table.
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, all: Vec::new(), last: 0, gates: Vec::new(), memory: Arc::default() }
    }

    /// Adds a guest with the class that was granted, and with the page that it has from another
    /// daemon, if any.
    ///
    /// # Errors
    ///
    /// The reason, as a text for the guest.
    pub(super) fn join(
        &mut self,
        socket: OwnedFd,
        caller: &Caller,
        request: &JoinRequest,
        caps: &Caps,
        former: Option<OwnedFd>,
    ) -> Result<(), (OwnedFd, String)> {
        let allowance = Allowance::of(&caller.info.shares(), caps);
        let made = self.page(caller, request, former);
        let relayed = made.and_then(|(who, file, page)| {
            let pass = Arc::new(Pass::new(allowance, name(caller, who.guest)));
            let (page, place) = (Arc::new(page), file.file_id().map_err(unusable)?);
            let key = ProgramKey { device: request.device, uid: caller.uid, name: pass.name };
            let key = has_lasting_name(caller).then_some(key);
            Ok((who, file, place, self.relay(&who, &page, &pass, key)?, page, pass))
        });
        let (who, file, place, relay, page, pass) = match relayed {
            Ok(made) => made,
            Err(why) => return Err((socket, why)),
        };
        let ends = EndWatch::of(socket, caller)?;
        let (uid, device, joined) = (caller.uid, request.device, Time::now());
        let (job, part) = (caller.info.job().to_owned(), caller.info.part());
        let (is_for_phases, is_exempt) = (caller.info.is_for_phases(), false);
        let guest = Guest {
            who,
            uid,
            joined,
            job,
            device,
            part,
            place,
            page,
            ends,
            relay,
            is_for_phases,
            is_exempt,
            pass,
        };
        self.welcome(guest, &file);
        Ok(())
    }

    /// Starts the relay of a real-time guest.
    fn relay(
        &self,
        who: &Identity,
        page: &Arc<Mapping>,
        pass: &Arc<Pass>,
        key: Option<ProgramKey>,
    ) -> Result<Option<Relay>, String> {
        if who.class == Class::BestEffort {
            return Ok(None);
        }
        let memory = key.map(|key| (self.memory.clone(), key));
        let relay = Relay::start(page.clone(), pass.clone(), who.holder, self.rules, memory);
        relay.map(Some).map_err(|error| format!("no thread: {error}"))
    }

    /// Returns a page for a new guest: the one that it has, or a new one. The identity in its old
    /// page isn't trusted.
    fn page(
        &mut self,
        caller: &Caller,
        request: &JoinRequest,
        former: Option<OwnedFd>,
    ) -> Result<(Identity, PageFile, Mapping), String> {
        let former = former.map(PageFile::open).transpose().map_err(unusable)?;
        self.check_room(caller.uid, self.rules.max_guests())?;
        self.admit(caller.info.part(), request)?;
        let holder = match request.class {
            Class::BestEffort => 0,
            Class::RealTime => {
                self.check_real_time(caller.uid, request.device)?;
                self.free_holder(request.device)
                    .ok_or_else(|| format!("{} real-time guests on this device", Holders::DAEMON))?
            }
        };
        self.last = self.last.wrapping_add(1);
        let who = Identity { guest: self.last, class: request.class, holder, pid: caller.pid };
        let Some((_, file, page)) = former else {
            let (file, page) = PageFile::create(&who).map_err(unusable)?;
            return Ok((who, file, page));
        };
        let place = file.file_id().map_err(unusable)?;
        if self.all.iter().any(|other| other.place == place) {
            return Err("the page that it offers is another guest's".into());
        }
        page.hand_over(&who);
        Ok((who, file, page))
    }

    /// Checks the limits of guests, of which there may be `most`. They use descriptors, pages and
    /// threads, and one user may not take them all.
    fn check_room(&self, uid: u32, most: usize) -> Result<(), String> {
        let (shares, used) =
            (SlotShares::with_owner(most, (most / 2).max(1)), self.used(uid, |_| true));
        let (all, its) = (used.all, used.own);
        match shares.full(Standing::of_user(uid), used).map(|full| full.share) {
            None | Some(SlotShare::Anonymous) => {}
            Some(SlotShare::All) => {
                return Err(format!(
                    "{all} guests, which is what this daemon has file descriptors for: raise its limit of open files"
                ));
            }
            Some(SlotShare::Others) => {
                let others = used.others;
                return Err(format!("{others} guests of others than the owner, of {most} in all"));
            }
            Some(SlotShare::Holder) => {
                return Err(format!(
                    "{its} guests of user {uid}, of {most} in all: raise the daemon's limit of open files"
                ));
            }
        }
        let most = self.rules.per_user;
        if its >= most {
            return Err(format!("{its} guests of user {uid}: guests.per_user is {most}"));
        }
        Ok(())
    }

    /// Checks that real-time guests of other users find a bit on the device: one user may have half
    /// of them, and an eighth is the owner's.
    fn check_real_time(&self, uid: u32, device: Uuid) -> Result<(), String> {
        let most = Holders::DAEMON as usize;
        let is_one = |guest: &Guest| guest.device == device && guest.who.class == Class::RealTime;
        let used = self.used(uid, is_one);
        let full = SlotShares::with_owner(most, most / 2).full(Standing::of_user(uid), used);
        let Some(full) = full.filter(|full| full.share != SlotShare::All) else { return Ok(()) };
        let user = format!("user {uid}");
        let text = full.text("real-time guests on this device", &user);
        Err(text)
    }

    /// Counts the guests that are meant, by their users, of which `uid` is one.
    fn used(&self, uid: u32, is_meant: impl Fn(&Guest) -> bool) -> Used {
        let mut used = Used::default();
        for guest in self.all.iter().filter(|guest| is_meant(guest)) {
            used.all += 1;
            used.own += usize::from(guest.uid == uid);
            used.others += usize::from(Standing::of_user(guest.uid) < Standing::Owner);
        }
        used
    }

    /// Checks that the parts of all real-time programs with limits fit together in the device's
    /// time.
    fn admit(&self, part: u32, request: &JoinRequest) -> Result<(), String> {
        let its = self.of(request.device, Class::RealTime).map(|guest| u64::from(guest.part));
        let left = u64::from(WHOLE).saturating_sub(its.sum());
        if request.class == Class::BestEffort || u64::from(part) <= left {
            return Ok(());
        }
        let (part, left) = (percent(part.into()), percent(left));
        Err(format!(
            "class rt: {part} % of the device's time asked, {left} % are left by other real-time limits"
        ))
    }

    /// Adds a guest and holds it if necessary, before it gets its page.
    fn welcome(&mut self, guest: Guest, file: &PageFile) {
        let (page, ends) = (Message::Page(guest.who), guest.ends.clone());
        self.all.push(guest);
        self.note();
        // A guest that has ended is noticed at its socket.
        let _ = send(&ends.socket, &page, Some(file.as_fd()));
    }

    /// Removes a guest, and its hold with it.
    pub(super) fn leave(&mut self, guest: u32) {
        let Some(at) = self.all.iter().position(|one| one.who.guest == guest) else { return };
        drop(self.all.remove(at));
        self.note();
        self.gates.retain(|(_, gates)| Arc::strong_count(gates) > 1 || !gates.is_empty());
    }

    /// Removes a guest that would have stayed. The server's thread may still have its socket.
    pub(super) fn revoke(&mut self, guest: u32) {
        let found = self.all.iter().find(|one| one.who.guest == guest);
        let _ = found.map(|one| rustix::net::shutdown(&one.ends.socket, Shutdown::Both));
        self.leave(guest);
    }

    /// Takes these guests out of all holds, or puts them back.
    pub(super) fn exempt(&mut self, guests: &[u32], is_exempt: bool) {
        let meant = self.all.iter_mut().filter(|guest| guests.contains(&guest.who.guest));
        meant.for_each(|guest| guest.is_exempt = is_exempt);
        self.note();
    }

    /// Returns the gates of a device's best-effort guests.
    pub(super) fn gates(&mut self, device: Uuid) -> Arc<Gates> {
        if let Some((_, gates)) = self.gates.iter().find(|(of, _)| *of == device) {
            return gates.clone();
        }
        let gates = Arc::new(Gates::of(Holders::DAEMON));
        self.gates.push((device, gates.clone()));
        gates
    }

    /// Updates the lists of all gates and relays. A job may have guests on several devices.
    fn note(&mut self) {
        let devices: Vec<Uuid> = self.all.iter().map(|guest| guest.device).collect();
        devices.into_iter().for_each(|device| drop(self.gates(device)));
        for (device, gates) in &self.gates {
            gates.set_peers(self.held_with(*device).map(Guest::peer).collect());
            gates.set_real_time(self.of(*device, Class::RealTime).next().is_some());
        }
        for rt in &self.all {
            let peers = || {
                let held = self.held_with(rt.device).filter(|be| !rt.is_phase_of(be));
                held.map(Guest::peer).collect()
            };
            rt.relay.iter().for_each(|relay| relay.gates().set_peers(peers()));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Guest> {
        self.all.iter()
    }

    pub(super) fn views(&self) -> Vec<GuestView> {
        self.all.iter().map(GuestView::new).collect()
    }

    pub(super) fn histories(&self) -> Vec<History> {
        self.all.iter().map(History::new).collect()
    }

    /// Returns the best-effort guests that are held with a device: its own, and those that share a
    /// job with one.
    fn held_with(&self, device: Uuid) -> impl Iterator<Item = &Guest> {
        let is_held = move |be: &&Guest| {
            be.device == device
                || self.of(device, Class::BestEffort).any(|one| one.shares_job_with(be))
        };
        let may_be = |guest: &&Guest| guest.who.class == Class::BestEffort && !guest.is_exempt;
        self.all.iter().filter(may_be).filter(is_held)
    }

    fn of(&self, device: Uuid, class: Class) -> impl Iterator<Item = &Guest> {
        self.all.iter().filter(move |guest| guest.device == device && guest.who.class == class)
    }

    /// Returns a bit that no other real-time guest has. If all devices together have more of them
    /// than bits, returns one that no guest of this device has.
    fn free_holder(&self, device: Uuid) -> Option<u32> {
        let real_time = || self.all.iter().filter(|guest| guest.who.class == Class::RealTime);
        let free = |bit: &u32| real_time().all(|rt| rt.who.holder != *bit);
        let free_here = |bit: &u32| {
            real_time().filter(|rt| rt.device == device).all(|rt| rt.who.holder != *bit)
        };
        let mut bits = 0..Holders::DAEMON;
        bits.clone().find(free).or_else(|| bits.find(free_here))
    }
}

fn unusable(error: std::io::Error) -> String {
    format!("no page: {error}")
}

/// Name by which a guest's windows are kept: a user's job has the same one when it starts again,
/// and without a job the same program with the same arguments. A guest of which neither is known
/// has that of its number.
fn name(caller: &Caller, guest: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    match (caller.info.job(), caller.info.program()) {
        ("", 0) => guest.hash(&mut hasher),
        ("", program) => (caller.uid, program).hash(&mut hasher),
        (job, _) => (caller.uid, job).hash(&mut hasher),
    }
    hasher.finish()
}

/// Returns whether a guest has its name again when it starts again.
fn has_lasting_name(caller: &Caller) -> bool {
    !caller.info.job().is_empty() || caller.info.program() != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colocation::share::{ShareRequest, Slo};
    use crate::join::guest_info::GuestInfo;
    use std::ffi::OsString;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const DEVICE: Uuid = [1; 16];

    fn join(guests: &mut Guests, uid: u32, class: Class) -> Result<(), String> {
        let (socket, _other) = UnixStream::pair().unwrap();
        let info = GuestInfo::default();
        let caller = Caller { uid, pid: std::process::id(), exe: None, info };
        let request = JoinRequest { class, device: DEVICE };
        let joined = guests.join(socket.into(), &caller, &request, &Caps::default(), None);
        joined.map_err(|(_, why)| why)
    }

    /// Returns the daemon's user and two others.
    fn users() -> [u32; 3] {
        let own = rustix::process::getuid().as_raw();
        [own, own + 1, own + 2]
    }

    #[test]
    fn real_time_guests_of_a_user_leave_bits_to_others() {
        let (mut guests, [own, one, other]) = (Guests::new(Rules::default()), users());
        let mut fill = |uid| {
            let joined = (0..40).filter(|_| join(&mut guests, uid, Class::RealTime).is_ok());
            joined.count()
        };
        assert_eq!([fill(one), fill(other), fill(own)], [14, 12, 3]);
        let said = join(&mut guests, one, Class::RealTime).unwrap_err();
        let want = format!("real-time guests on this device of user {one} must be at most 14");
        assert!(said.starts_with(&want), "{said}");
        let said = join(&mut guests, own, Class::RealTime).unwrap_err();
        assert_eq!(said, "29 real-time guests on this device");
        join(&mut guests, one, Class::BestEffort).unwrap();
    }

    #[test]
    fn job_of_a_user_has_its_name_when_it_starts_again() {
        let name = |uid: u32, job: &str, guest: u32| {
            let info = GuestInfo::new(job, "").unwrap();
            super::name(&Caller { uid, pid: guest, exe: None, info }, guest)
        };
        assert_eq!(name(1, "train", 5), name(1, "train", 6));
        assert_ne!(name(1, "train", 5), name(2, "train", 5), "the job of another user");
        assert_ne!(name(1, "train", 5), name(1, "tune", 5));
        assert_ne!(name(1, "", 5), name(1, "", 6), "guests without a job");
    }

    /// A caller whose program is this file.
    fn caller_of(uid: u32, file: &str) -> Caller {
        let shares = ShareRequest { slo: Slo::of(1.1), ..ShareRequest::default() };
        let arguments = [OsString::from("--fast")];
        let info = GuestInfo::default().with_program(Path::new(file), arguments);
        Caller { uid, pid: std::process::id(), exe: None, info: info.with_shares(shares) }
    }

    #[test]
    fn program_of_a_user_has_its_name_when_it_starts_again() {
        let name = |uid, file, guest| super::name(&caller_of(uid, file), guest);
        assert_eq!(name(1, "serve", 5), name(1, "serve", 6));
        assert_ne!(name(1, "serve", 5), name(2, "serve", 5), "the program of another user");
        assert_ne!(name(1, "serve", 5), name(1, "train", 5));
        assert!(has_lasting_name(&caller_of(1, "serve")));
        let info = GuestInfo::default();
        assert!(!has_lasting_name(&Caller { info, ..caller_of(1, "serve") }));
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within 60 s");
            std::thread::sleep(Duration::from_micros(200)); // sleep: poll of a condition
        }
    }

    #[test]
    fn windows_of_a_program_are_kept_until_it_starts_again() {
        let (mut guests, [own, ..]) = (Guests::new(Rules::default()), users());
        let start = |guests: &mut Guests, class, file: &str| {
            let (socket, _other) = UnixStream::pair().unwrap();
            let (caller, request) = (caller_of(own, file), JoinRequest { class, device: DEVICE });
            let joined = guests.join(socket.into(), &caller, &request, &Caps::default(), None);
            assert!(joined.is_ok());
            guests.last
        };
        start(&mut guests, Class::BestEffort, "train");
        for (file, kept) in [("serve", 1), ("serve", 1), ("answer", 2)] {
            let rt = start(&mut guests, Class::RealTime, file);
            let is_there = |view: &GuestView| view.who.guest == rt && view.growth.is_some();
            until("a controller", || guests.views().iter().any(is_there));
            assert_eq!(guests.memory.len(), kept - 1, "{file} has what was kept of it");
            guests.leave(rt);
            until("kept", || guests.memory.len() == kept);
        }
    }

    #[test]
    fn guests_of_a_user_leave_descriptors_to_others() {
        let (mut guests, [own, one, other]) = (Guests::new(Rules::default()), users());
        (0..4).for_each(|_| join(&mut guests, one, Class::BestEffort).unwrap());
        let said = guests.check_room(one, 8).unwrap_err();
        assert!(said.starts_with(&format!("4 guests of user {one}, of 8 in all")), "{said}");
        guests.check_room(other, 8).unwrap();
        (0..3).for_each(|_| join(&mut guests, other, Class::BestEffort).unwrap());
        let said = guests.check_room(other, 8).unwrap_err();
        assert_eq!(said, "7 guests of others than the owner, of 8 in all");
        guests.check_room(own, 8).unwrap();
        join(&mut guests, own, Class::BestEffort).unwrap();
        assert!(guests.check_room(own, 8).unwrap_err().starts_with("8 guests, which is"));
    }
}
