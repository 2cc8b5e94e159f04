//! State of a session whose work has ended or was taken back.

use crate::messages::{BlocksLeft, Event, Facts, MigrateCommit, RemoteCommand};
use crate::server::lanes::MAX_POSITION;
use reef_wire::{Error, Key, Result, codec};
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the state's form.
const VERSION: u32 = 1;

/// A command with the places of the objects that it names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CommandState {
    pub(super) command: RemoteCommand,
    pub(super) origins: Vec<u64>,
}

/// A record of the blocks that are left of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordState {
    pub(super) command: CommandState,
    pub(super) blocks: BlocksLeft,
}

/// Progress of a lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Progress {
    Shared {
        /// Nanoseconds of the client's clock.
        ended: u64,
        has_failed: bool,
    },
    Own {
        told: u64,
        wanted: u64,
        blocks: Option<u32>,
        has_failed: bool,
        /// Position at which the client resumes, and what is left there.
        taken: Option<(u64, Option<RecordState>)>,
    },
}

impl Progress {
    fn is_possible(&self) -> bool {
        match self {
            Self::Shared { .. } => true,
            Self::Own { told, wanted, taken, .. } => {
                let resume_at = taken.as_ref().map_or(0, |taken| taken.0);
                [told, wanted, &resume_at].iter().all(|at| **at < MAX_POSITION)
            }
        }
    }
}

/// State of a session, but for the bytes of its memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::server) struct State {
    version: u32,
    /// Device, as servers name it, and the client's facts about it.
    pub(super) device: String,
    pub(super) facts: Facts,
    /// Answers that the client has got, by question.
    pub(super) answers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Objects that were not sent before.
    pub(super) events: Vec<Event>,
    /// Buffers by their places in the order, and their bytes.
    pub(super) memory: Vec<(u64, u64)>,
    /// Preemptors by their places, with the last step of each.
    pub(super) preemptors: Vec<(u64, u64)>,
    pub(super) records: Vec<(u64, RecordState)>,
    pub(super) lanes: Vec<(u32, Progress)>,
    /// Bits of constants that have come, and no message yet that packs them.
    pub(super) staged: Vec<u32>,
    pub(super) has_trace: bool,
    /// Time of the client's clock, and of the calendar.
    pub(super) clock: u64,
    calendar: u64,
    /// The session's name, and its end as the transport keeps it.
    pub(super) name: [u8; 16],
    pub(super) end: Vec<u8>,
    /// Secret by which its client is known to the next server.
    pub(super) key: Key,
    /// Program, as it names itself.
    pub(super) program: String,
}

/// Parts that a session's transport and its list have.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) name: [u8; 16],
    pub(super) end: Vec<u8>,
    pub(super) key: Key,
    pub(super) program: String,
    pub(super) device: String,
}

/// Nanoseconds of the calendar.
pub(super) fn calendar() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl State {
    /// A state without objects.
    pub(super) fn new(facts: Facts, identity: Identity) -> Self {
        let Identity { name, end, key, program, device } = identity;
        Self {
            version: VERSION,
            device,
            facts,
            answers: Vec::new(),
            events: Vec::new(),
            memory: Vec::new(),
            preemptors: Vec::new(),
            records: Vec::new(),
            lanes: Vec::new(),
            staged: Vec::new(),
            has_trace: false,
            clock: 0,
            calendar: calendar(),
            name,
            end,
            key,
            program,
        }
    }

    /// Reads a state.
    ///
    /// # Errors
    ///
    /// `Protocol` for other bytes, another version, or numbers that cannot be.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let wrong = |text: String| Error::Protocol(format!("state of the session: {text}"));
        let (version, _): (u32, &[u8]) = match bytes.first() {
            Some(&first) => (first.into(), &bytes[1..]),
            None => return Err(wrong("is empty".into())),
        };
        if version != VERSION {
            return Err(wrong(format!("version: must be {VERSION}, got {version}")));
        }
        let state: Self = codec::read(bytes).map_err(|e| wrong(e.to_string()))?;
        if !state.lanes.iter().all(|(_, progress)| progress.is_possible()) {
            return Err(wrong(format!("position of a lane: must be below {MAX_POSITION}")));
        }
        Ok(state)
    }

    /// Returns when the session stood still.
    pub(super) fn commit(&self) -> MigrateCommit {
        MigrateCommit { clock: self.clock, calendar: self.calendar, within: u64::MAX }
    }
}

/// Compares what clients know of two devices.
///
/// # Errors
///
/// The part that differs, with both values.
pub(super) fn check_facts(must: &Facts, got: &Facts) -> std::result::Result<(), String> {
    let differs = |what: &str, must: &dyn std::fmt::Display, got: &dyn std::fmt::Display| {
        Err(format!("device at the other server: {what}: must be {must}, got {got}"))
    };
    let sort = |facts: &Facts| if facts.is_own { "own" } else { "shared" };
    if must.is_own != got.is_own {
        return differs("sort of its sessions", &sort(must), &sort(got));
    }
    if must.name != got.name {
        return differs("name", &must.name, &got.name);
    }
    let numbers = |facts: &Facts| {
        [
            ("units", u64::from(facts.units)),
            ("blocks of a unit", facts.blocks_per_unit.into()),
            ("threads of a unit", facts.threads_per_unit.into()),
            ("registers of a unit", facts.registers_per_unit.into()),
            ("shared memory of a unit", facts.shared_per_unit.into()),
            ("memory", facts.memory.unwrap_or(0)),
            ("level", facts.level.into()),
        ]
    };
    for ((what, must), (_, got)) in numbers(must).into_iter().zip(numbers(got)) {
        if must != got {
            return differs(what, &must, &got);
        }
    }
    if must.features != got.features {
        return differs("features", &must.features.join(" "), &got.features.join(" "));
    }
    if (must.has_trace, must.colocation) != (got.has_trace, got.colocation) {
        return Err("device at the other server: runs best-effort work in another way".into());
    }
    Ok(())
}
