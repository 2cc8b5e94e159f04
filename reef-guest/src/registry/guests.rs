//! All guests, and what joining and leaving changes.

use super::connection::{Caller, Guest};
use super::gates::Gates;
use super::view::{GuestView, History};
use crate::hold::holders::Holders;
use crate::join::wire::Message;
use crate::join::wire::{Uuid, Wish};
use crate::limit::quantity::{WHOLE, percent};
use crate::page::file::PageFile;
use crate::page::layout::{Class, Identity};
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use rustix::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The guests of a daemon, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Guests {
    all: Vec<Guest>,
    last: u32,
    /// Of devices that have best-effort guests, or that somebody in the daemon may hold.
    gates: Vec<(Uuid, Arc<Gates>)>,
}

impl Guests {
    /// Takes a guest in with the class that was granted, and with the page that it has from another daemon, if any.
    ///
    /// # Errors
    ///
    /// In words for the guest: why not.
    pub(super) fn join(
        &mut self,
        socket: OwnedFd,
        caller: &Caller,
        wish: &Wish,
        former: Option<OwnedFd>,
    ) -> Result<(), (OwnedFd, String)> {
        let (who, file, page) = match self.page(caller, wish, former) {
            Ok(made) => made,
            Err(why) => return Err((socket, why)),
        };
        let process = caller.process();
        let (uid, device, joined) = (caller.uid, wish.device, Time::now());
        let (page, job, peers) = (Arc::new(page), caller.shown.job().to_owned(), Vec::new());
        let part = caller.shown.part();
        let guest =
            Guest { who, uid, joined, job, device, part, peers, file, page, socket, process };
        self.welcome(guest);
        Ok(())
    }

    /// A page for a newcomer: the one that it has, or a new one. What it says of itself there is a wish at most.
    fn page(
        &mut self,
        caller: &Caller,
        wish: &Wish,
        former: Option<OwnedFd>,
    ) -> Result<(Identity, PageFile, Mapping), String> {
        let unusable = |error: std::io::Error| format!("no page: {error}");
        let former = former.map(PageFile::open).transpose().map_err(unusable)?;
        self.admit(caller.shown.part(), wish)?;
        let holder = match wish.class {
            Class::BestEffort => 0,
            Class::RealTime => self
                .free_holder(wish.device, former.as_ref().map(|(before, ..)| before.holder))
                .ok_or_else(|| format!("{} real-time guests on this device", Holders::DAEMON))?,
        };
        self.last = self.last.wrapping_add(1);
        let who = Identity { guest: self.last, class: wish.class, holder, pid: caller.pid };
        let (file, page) = match former {
            None => PageFile::create(&who).map_err(unusable)?,
            Some((_, file, _)) if self.all.iter().any(|other| other.file.is_same(&file)) => {
                return Err("the page that it offers is another guest's".into());
            }
            Some((_, file, page)) => {
                page.give(&who);
                (file, page)
            }
        };
        Ok((who, file, page))
    }

    /// Real-time programs with limits have to have their parts of the time at any moment, all of them together.
    fn admit(&self, part: u32, wish: &Wish) -> Result<(), String> {
        let its = self.of(wish.device, Class::RealTime).map(|guest| u64::from(guest.part));
        let left = u64::from(WHOLE).saturating_sub(its.sum());
        if wish.class == Class::BestEffort || u64::from(part) <= left {
            return Ok(());
        }
        let (part, left) = (percent(part.into()), percent(left));
        Err(format!(
            "class rt: {part} % of the device's time asked, {left} % are left beside other real-time limits"
        ))
    }

    /// Makes it known and holds it if that is due, before it gets its page: a real-time guest has to know all of its
    /// peers when it first launches.
    fn welcome(&mut self, guest: Guest) {
        self.all.push(guest);
        self.introduce();
        self.note();
        if let Some(guest) = self.all.last() {
            guest.tell(&Message::Page(guest.who), Some(&guest.file));
        }
    }

    /// Gives each real-time guest the pages of peers that it doesn't have yet. Whoever is busy has launched before it
    /// could know of them: it corrects the bit when it learns of them.
    fn introduce(&mut self) {
        for at in 0..self.all.len() {
            let rt = &self.all[at];
            if rt.who.class != Class::RealTime {
                continue;
            }
            let is_new = |be: &&Guest| !rt.peers.contains(&be.who.guest);
            let news: Vec<u32> = self
                .held_with(rt.device)
                .filter(is_new)
                .map(|be| {
                    if rt.page.activity.is_busy() {
                        be.page.hold(rt.who.holder, Time::now());
                    }
                    rt.tell(&Message::Peer(be.who.guest), Some(&be.file));
                    be.who.guest
                })
                .collect();
            self.all[at].peers.extend(news);
        }
    }

    /// Takes a guest out, and its bit with it.
    pub(super) fn leave(&mut self, guest: u32) {
        let Some(at) = self.all.iter().position(|one| one.who.guest == guest) else { return };
        let gone = self.all.remove(at);
        match gone.who.class {
            Class::BestEffort => self.forget_peer(guest),
            Class::RealTime => self.clear_after(&gone),
        }
        self.note();
        self.gates.retain(|(_, gates)| Arc::strong_count(gates) > 1 || !gates.is_empty());
    }

    /// Takes a guest out that would have stayed. The server's thread may have a copy of its socket still.
    pub(super) fn revoke(&mut self, guest: u32) {
        let found = self.all.iter().find(|one| one.who.guest == guest);
        let _ = found.map(|one| rustix::net::shutdown(&one.socket, Shutdown::Both));
        self.leave(guest);
    }

    fn forget_peer(&mut self, guest: u32) {
        for rt in self.all.iter_mut().filter(|rt| rt.peers.contains(&guest)) {
            rt.peers.retain(|peer| *peer != guest);
            rt.tell(&Message::PeerLeft(guest), None);
        }
    }

    /// Takes away the bit of a real-time guest that has ended, and what it may have written besides.
    fn clear_after(&self, gone: &Guest) {
        let is_held = self.gates.iter().any(|(_, gates)| gates.is_held());
        for be in self.all.iter().filter(|be| gone.peers.contains(&be.who.guest)) {
            let holds = |rt: &&Guest| rt.peers.contains(&be.who.guest);
            let living = self.all.iter().filter(holds).map(|rt| rt.who.holder);
            let daemon = is_held.then_some(Holders::DAEMON);
            be.page.keep(Holders::set_of(living.chain(daemon)), Time::now());
        }
    }

    /// The gates of a device's best-effort guests.
    pub(super) fn gates(&mut self, device: Uuid) -> Arc<Gates> {
        if let Some((_, gates)) = self.gates.iter().find(|(of, _)| *of == device) {
            return gates.clone();
        }
        let gates = Arc::<Gates>::default();
        self.gates.push((device, gates.clone()));
        gates
    }

    /// Tells those who hold or wait for a device's guests who they are now. A job may have guests on other devices.
    fn note(&mut self) {
        let devices: Vec<Uuid> = self.all.iter().map(|guest| guest.device).collect();
        devices.into_iter().for_each(|device| drop(self.gates(device)));
        for (device, gates) in &self.gates {
            gates.set_pages(self.held_with(*device).map(|be| be.page.clone()).collect());
            gates.set_real_time(self.of(*device, Class::RealTime).next().is_some());
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

    /// The best-effort guests that are held when the device's are: its own, and those that share a job with one.
    fn held_with(&self, device: Uuid) -> impl Iterator<Item = &Guest> {
        let is_held = move |be: &&Guest| {
            be.device == device
                || self.of(device, Class::BestEffort).any(|one| one.shares_job_with(be))
        };
        self.all.iter().filter(|guest| guest.who.class == Class::BestEffort).filter(is_held)
    }

    fn of(&self, device: Uuid, class: Class) -> impl Iterator<Item = &Guest> {
        self.all.iter().filter(move |guest| guest.device == device && guest.who.class == class)
    }

    /// A bit that no other real-time guest has, the one that it `had` if it may be; if there are more of them on all
    /// devices together than bits, one that none on this device has.
    fn free_holder(&self, device: Uuid, had: Option<u32>) -> Option<u32> {
        let real_time = || self.all.iter().filter(|guest| guest.who.class == Class::RealTime);
        let free = |bit: &u32| real_time().all(|rt| rt.who.holder != *bit);
        let free_here = |bit: &u32| {
            real_time().filter(|rt| rt.device == device).all(|rt| rt.who.holder != *bit)
        };
        let had = had.filter(|bit| *bit < Holders::DAEMON);
        let bits = || had.into_iter().chain(0..Holders::DAEMON);
        bits().find(free).or_else(|| bits().find(free_here))
    }
}
