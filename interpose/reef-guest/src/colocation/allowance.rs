//! Allowance: shares that the daemon grants a guest.

use super::share::{Percent, ShareRequest, Slo};

/// Defaults and upper bounds of the daemon for one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Part of the time of a best-effort program without a wish.
    pub colocate: Percent,
    /// Its floor.
    pub floor: Percent,
    /// Upper bound of a wish for `colocate`.
    pub max_colocate: Percent,
    /// Upper bound of a wish for a floor.
    pub max_floor: Percent,
    /// Upper bound next to a real-time program with a target.
    pub room: Percent,
    /// Target of a real-time program without a wish.
    pub slo: Option<Slo>,
}

impl Default for Caps {
    /// All wishes are granted; without a wish nothing passes.
    fn default() -> Self {
        Self {
            colocate: Percent::NONE,
            floor: Percent::NONE,
            max_colocate: Percent::ALL,
            max_floor: Percent::ALL,
            room: Percent::ALL,
            slo: None,
        }
    }
}

/// Shares of a guest. Written by the daemon alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Part of the time in which it runs while a real-time program without a target is busy.
    pub colocate: Percent,
    /// The most that it gets next to a real-time program with a target, which gives the room
    /// itself.
    pub room: Percent,
    /// Part of the time that it has whatever real-time programs do.
    pub floor: Percent,
    /// Target of a real-time program.
    pub slo: Option<Slo>,
}

impl Allowance {
    /// Returns what a program gets: its wishes within the daemon's bounds. A default of the daemon
    /// is granted whatever the bound.
    pub fn of(wish: &ShareRequest, caps: &Caps) -> Self {
        let floor = wish.floor.map_or(caps.floor, |wish| wish.min(caps.max_floor.max(caps.floor)));
        let most = caps.max_colocate.max(caps.colocate);
        let colocate = wish.colocate.map_or(caps.colocate, |wish| wish.min(most)).max(floor);
        let room = wish.colocate.unwrap_or(Percent::ALL).min(caps.room).max(floor);
        Self { colocate, room, floor, slo: wish.slo.or(caps.slo) }
    }

    /// Returns its part of the time, in parts per million, next to a busy real-time program whose
    /// controller has found `found`. `None`: that program has no target.
    pub fn duty(&self, found: Option<u32>) -> u32 {
        match found {
            Some(found) => found.min(self.room.parts()).max(self.floor.parts()),
            None => self.colocate.parts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(number: u8) -> Percent {
        Percent::new(number).unwrap()
    }

    #[test]
    fn wish_beyond_the_bound_is_cut() {
        let caps = Caps { max_colocate: percent(20), max_floor: percent(5), ..Caps::default() };
        let wish =
            ShareRequest { colocate: Some(percent(80)), floor: Some(percent(50)), slo: None };
        let got = Allowance::of(&wish, &caps);
        assert_eq!((got.colocate, got.floor), (percent(20), percent(5)));
        let none =
            Allowance::of(&ShareRequest::default(), &Caps { max_colocate: Percent::NONE, ..caps });
        assert_eq!(
            (none.colocate, none.floor, none.room),
            (Percent::NONE, Percent::NONE, Percent::ALL)
        );
        let caps = Caps { colocate: percent(30), max_colocate: Percent::NONE, ..caps };
        assert_eq!(
            Allowance::of(&ShareRequest::default(), &caps).colocate,
            percent(30),
            "the default"
        );
        assert_eq!(Allowance::of(&wish, &caps).colocate, percent(30), "as much as the default");
    }

    #[test]
    fn duty_is_between_the_floor_and_the_room() {
        let wish = ShareRequest { colocate: Some(percent(40)), floor: Some(percent(5)), slo: None };
        let got = Allowance::of(&wish, &Caps::default());
        assert_eq!(got.duty(None), 400_000);
        assert_eq!(
            [0, 100_000, 1_000_000].map(|found| got.duty(Some(found))),
            [50_000, 100_000, 400_000]
        );
        let floor = ShareRequest { floor: Some(percent(5)), ..ShareRequest::default() };
        assert_eq!(Allowance::of(&floor, &Caps::default()).duty(None), 50_000, "the floor alone");
    }
}
