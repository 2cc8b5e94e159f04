//! All guests, and what joining and leaving changes.

use super::connection::{Caller, Guest};
use super::gates::Gates;
use super::view::GuestView;
use crate::hold::holders::Holders;
use crate::join::wire::Message;
use crate::join::wire::{Uuid, Wish};
use crate::page::file::PageFile;
use crate::page::layout::{Class, Identity};
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
    /// Takes a guest in with the class that was granted.
    ///
    /// # Errors
    ///
    /// In words for the guest: why not.
    pub(super) fn join(
        &mut self,
        socket: OwnedFd,
        caller: &Caller,
        wish: &Wish,
    ) -> Result<(), (OwnedFd, String)> {
        let holder = match wish.class {
            Class::BestEffort => 0,
            Class::RealTime => match self.free_holder(wish.device) {
                Some(holder) => holder,
                None => {
                    let most = Holders::DAEMON;
                    return Err((socket, format!("{most} real-time guests on this device")));
                }
            },
        };
        self.last = self.last.wrapping_add(1);
        let who = Identity { guest: self.last, class: wish.class, holder, pid: caller.pid };
        let (file, page) = match PageFile::create(&who) {
            Ok(made) => made,
            Err(error) => return Err((socket, format!("no page: {error}"))),
        };
        let process = caller.process();
        let (uid, device) = (caller.uid, wish.device);
        let page = Arc::new(page);
        let guest = Guest { who, uid, device, file, page, socket, process };
        self.welcome(guest);
        Ok(())
    }

    /// Holds it if that is due and makes it known, before it gets its page.
    fn welcome(&mut self, guest: Guest) {
        let (class, device) = (guest.who.class, guest.device);
        self.all.push(guest);
        let Some(guest) = self.all.last() else { return };
        match class {
            Class::BestEffort => {
                self.hold_newcomer(guest);
                let news = Message::Peer(guest.who.guest);
                self.real_time(device).for_each(|rt| rt.tell(&news, Some(&guest.file)));
            }
            // Before its own page: it has to know them all when it first launches.
            Class::RealTime => self.best_effort(device).for_each(|be| {
                guest.tell(&Message::Peer(be.who.guest), Some(&be.file));
            }),
        }
        self.note(device);
        if let Some(guest) = self.all.last() {
            guest.tell(&Message::Page(guest.who), Some(&guest.file));
        }
    }

    /// Whoever is busy has launched before it could know of this guest. It corrects the bit when it learns of it.
    fn hold_newcomer(&self, guest: &Guest) {
        let busy = self.real_time(guest.device).filter(|rt| rt.page.activity.is_busy());
        busy.for_each(|rt| guest.page.holders.hold(rt.who.holder));
    }

    /// Takes a guest out, and its bit with it.
    pub(super) fn leave(&mut self, guest: u32) {
        let Some(at) = self.all.iter().position(|one| one.who.guest == guest) else { return };
        let gone = self.all.remove(at);
        match gone.who.class {
            Class::BestEffort => {
                let news = Message::PeerLeft(guest);
                self.real_time(gone.device).for_each(|rt| rt.tell(&news, None));
            }
            // Its own bit, and what it may have written besides.
            Class::RealTime => {
                let living = self.real_time(gone.device).map(|rt| rt.who.holder);
                let living = Holders::set_of(living.chain([Holders::DAEMON]));
                self.best_effort(gone.device).for_each(|be| be.page.holders.keep(living));
            }
        }
        self.note(gone.device);
        self.gates.retain(|(_, gates)| Arc::strong_count(gates) > 1 || !gates.is_empty());
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

    /// Tells those who hold or wait for a device's guests who they are now.
    fn note(&mut self, device: Uuid) {
        let gates = self.gates(device);
        gates.set_pages(self.best_effort(device).map(|be| be.page.clone()).collect());
        gates.set_real_time(self.real_time(device).next().is_some());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Guest> {
        self.all.iter()
    }

    pub(super) fn views(&self) -> Vec<GuestView> {
        let view = |guest: &Guest| GuestView::new(guest.who, guest.uid, guest.device, &guest.page);
        self.all.iter().map(view).collect()
    }

    fn real_time(&self, device: Uuid) -> impl Iterator<Item = &Guest> {
        self.of(device, Class::RealTime)
    }

    fn best_effort(&self, device: Uuid) -> impl Iterator<Item = &Guest> {
        self.of(device, Class::BestEffort)
    }

    fn of(&self, device: Uuid, class: Class) -> impl Iterator<Item = &Guest> {
        self.all.iter().filter(move |guest| guest.device == device && guest.who.class == class)
    }

    fn free_holder(&self, device: Uuid) -> Option<u32> {
        (0..Holders::DAEMON).find(|&bit| self.real_time(device).all(|rt| rt.who.holder != bit))
    }
}
