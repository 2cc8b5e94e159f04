//! The ways to ask for an inference that are compared.

/// Place of the network, and the work of a request before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) side: Side,
    /// The input lies where the device reads it before the request begins.
    pub(super) is_staged: bool,
}

/// Process that has the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// This process.
    Library,
    /// A daemon, with defaults on both sides.
    Daemon,
    /// A daemon. Both sides poll for longer than a request takes.
    Spinning,
}

impl Way {
    /// All ways in the order of the table: those that others are compared with come first.
    pub(super) const ALL: [Self; 6] = [
        Self { side: Side::Library, is_staged: false },
        Self { side: Side::Daemon, is_staged: false },
        Self { side: Side::Spinning, is_staged: false },
        Self { side: Side::Library, is_staged: true },
        Self { side: Side::Daemon, is_staged: true },
        Self { side: Side::Spinning, is_staged: true },
    ];

    /// Name for people and files.
    pub(super) fn name(self) -> String {
        let side = match self.side {
            Side::Library => "in process",
            Side::Daemon => "daemon, defaults",
            Side::Spinning => "daemon, both spin",
        };
        format!("{side}{}", if self.is_staged { ", input staged" } else { "" })
    }
}
