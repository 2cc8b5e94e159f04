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
