//! Addresses of the device that mean the same at both ends: the *window* of a session.

use serde::{Deserialize, Serialize};

/// Bytes of a window.
pub const WINDOW_LEN: u64 = 1 << 40;
/// Memory of a window is mapped in multiples of this many bytes.
pub const SLAB_LEN: u64 = 2 << 20;

/// Places for a window. Both ends reserve the same one.
pub const WINDOW_SLOTS: [u64; 8] = [
    0x1000_0000_0000,
    0x2000_0000_0000,
    0x3000_0000_0000,
    0x4000_0000_0000,
    0x1800_0000_0000,
    0x2800_0000_0000,
    0x3800_0000_0000,
    0x4800_0000_0000,
];

/// Returns whether a window has all of a range. Numbers may be of any size.
pub fn has_range(window: u64, at: u64, bytes: u64) -> bool {
    at >= window && bytes <= WINDOW_LEN && at - window <= WINDOW_LEN - bytes
}

/// Request of a program at the beginning of its session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// First addresses of the windows that the program has kept free, best first.
    pub windows: Vec<u64>,
    /// The client is another server, which sends a session.
    pub is_migrated: bool,
    /// Class that the program wants as a guest of the server's daemon; `None`: the server's.
    pub class: Option<Class>,
}

/// Class of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// Its work is held while real-time work of others runs.
    BestEffort,
    /// Its work holds that of others.
    RealTime,
}

impl Class {
    /// Reads a name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::BestEffort, Self::RealTime].into_iter().find(|class| class.name() == name)
    }

    /// Name in `REEF_CLASS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BestEffort => "be",
            Self::RealTime => "rt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_has_what_begins_and_ends_in_it() {
        let window = WINDOW_SLOTS[0];
        for (at, bytes, has) in [
            (window, WINDOW_LEN, true),
            (window + WINDOW_LEN - 1, 1, true),
            (window + WINDOW_LEN, 1, false),
            (window + SLAB_LEN, WINDOW_LEN, false),
            (window - 1, 1, false),
            (window, u64::MAX, false),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(has_range(window, at, bytes), has, "{at:#x} {bytes:#x}");
        }
    }
}
