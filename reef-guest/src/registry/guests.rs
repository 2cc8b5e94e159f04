//! All guests, and what joining and leaving changes.

use super::connection::{Caller, Guest};
use super::view::GuestView;
use crate::hold::holders::Holders;
use crate::join::wire::Message;
use crate::join::wire::{Uuid, Wish};
use crate::page::file::PageFile;
use crate::page::layout::{Class, Identity};
use std::os::fd::OwnedFd;

/// The guests of a daemon, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Guests {
    all: Vec<Guest>,
    last: u32,
    /// Devices that the daemon itself holds.
    held: Vec<Uuid>,
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
        let guest = Guest { who, uid, device, file, page, socket, process };
        self.welcome(guest);
        Ok(())
    }

    fn welcome(&mut self, guest: Guest) {
        if guest.who.class == Class::BestEffort {
            self.hold_newcomer(&guest);
        }
        match guest.who.class {
            Class::BestEffort => {
                let news = Message::Peer(guest.who.guest);
                self.real_time(guest.device).for_each(|rt| rt.tell(&news, Some(&guest.file)));
            }
            // Before its own page: it has to know them all when it first launches.
            Class::RealTime => self.best_effort(guest.device).for_each(|be| {
                guest.tell(&Message::Peer(be.who.guest), Some(&be.file));
            }),
        }
        guest.tell(&Message::Page(guest.who), Some(&guest.file));
        self.all.push(guest);
    }

    /// Whoever is busy has launched before it could know of this guest. It corrects the bit when it learns of it.
    fn hold_newcomer(&self, guest: &Guest) {
        let busy = self.real_time(guest.device).filter(|rt| rt.page.activity.is_busy());
        busy.for_each(|rt| guest.page.holders.hold(rt.who.holder));
        if self.held.contains(&guest.device) {
            guest.page.holders.hold(Holders::DAEMON);
        }
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
            Class::RealTime => {
                let bit = gone.who.holder;
                self.best_effort(gone.device).for_each(|be| be.page.holders.release(bit));
            }
        }
    }

    /// Holds or releases the best-effort guests of a device, and those that join later, for the daemon.
    pub(super) fn hold(&mut self, device: Uuid, is_held: bool) {
        self.held.retain(|held| *held != device);
        if is_held {
            self.held.push(device);
        }
        for be in self.best_effort(device) {
            match is_held {
                true => be.page.holders.hold(Holders::DAEMON),
                false => be.page.holders.release(Holders::DAEMON),
            }
        }
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
