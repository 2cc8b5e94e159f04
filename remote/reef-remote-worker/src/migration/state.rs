//! State of a session whose work has ended.

use super::globals::Global;
use crate::state::log::Entry;
use reef_remote_calls::Kind;
use reef_wire::Key;
use serde::{Deserialize, Serialize};

/// Version of the state's form.
const VERSION: u32 = 1;

/// Device as a state knows it: it is made on an equal one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) memory: u64,
    pub(crate) capability: [i32; 2],
}

/// Memory of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) context: u64,
    pub(crate) device: i32,
}

/// Message that has come and was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) op: u16,
    pub(crate) lane: u32,
    pub(crate) number: u64,
    pub(crate) wants_reply: bool,
    pub(crate) body: Vec<u8>,
}

/// Primary context of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Primary {
    pub(crate) device: u64,
    pub(crate) id: u64,
    /// Number of calls that retain it.
    pub(crate) retains: u64,
}

/// State of a session, but for the bytes of its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    /// Version of the driver.
    pub(crate) driver: i32,
    pub(crate) devices: Vec<Model>,
    /// First address of the window.
    pub(crate) window: u64,
    pub(crate) primaries: Vec<Primary>,
    pub(crate) entries: Vec<Entry>,
    /// Objects that the entries make, and that have ended.
    pub(crate) ended: Vec<(Kind, u64)>,
    /// Count of the numbers that the worker has chosen.
    pub(crate) next: u64,
    /// Contexts of the program's threads.
    pub(crate) lanes: Vec<(u32, u64)>,
    /// Definitions of repeated calls.
    pub(crate) templates: Vec<Vec<u8>>,
    pub(crate) memory: Vec<Range>,
    pub(crate) globals: Vec<Global>,
    pub(crate) pending: Vec<Pending>,
    /// The session's name, and its end as the transport keeps it.
    pub(crate) name: [u8; 16],
    pub(crate) end: Vec<u8>,
    /// Secret by which its client is known to the next server.
    pub(crate) key: Option<Key>,
    /// Program, as it names itself.
    pub(crate) program: String,
}

impl State {
    /// A state without anything.
    pub(crate) fn new(driver: i32, devices: Vec<Model>, window: u64) -> Self {
        Self {
            version: VERSION,
            driver,
            devices,
            window,
            primaries: Vec::new(),
            entries: Vec::new(),
            ended: Vec::new(),
            next: 0,
            lanes: Vec::new(),
            templates: Vec::new(),
            memory: Vec::new(),
            globals: Vec::new(),
            pending: Vec::new(),
            name: [0; 16],
            end: Vec::new(),
            key: None,
            program: String::new(),
        }
    }

    /// Compares the state with the server that it is to be made on.
    ///
    /// # Errors
    ///
    /// The part that differs, with both values.
    pub(crate) fn check(&self, driver: i32, devices: &[Model], window: u64) -> Result<(), String> {
        let differs = |what: &str, must: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
            Err(format!("{what}: must be {must:?}, got {got:?}"))
        };
        if self.version != VERSION {
            return differs("version of the state", &VERSION, &self.version);
        }
        if self.driver != driver {
            return differs("version of the driver", &self.driver, &driver);
        }
        if self.devices != devices {
            return differs("devices", &self.devices, &devices);
        }
        if self.window != window {
            return differs("window", &self.window, &window);
        }
        Ok(())
    }
}
