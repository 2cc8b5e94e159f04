//! State of a session whose work has ended.

use super::globals::Global;
use crate::bounded::list;
use crate::state::log::{Entry, Logged};
use reef_remote_calls::{
    CALLS, CallHost, CopyNode, FindFunction, KernelNode, Kind, Launch, Load, SLAB_LEN, TableCall,
    WINDOW_LEN, Way,
};
use reef_wire::{Hot, Key};
use serde::{Deserialize, Serialize};

/// Version of the state's form.
const VERSION: u32 = 1;
/// Upper bound of calls that retain a primary context: each is made again.
const MAX_RETAINS: u64 = 1 << 20;
/// Upper bound of the numbers that a worker has chosen.
const MAX_NUMBERS: u64 = 1 << 40;

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
    #[serde(deserialize_with = "list")]
    pub(crate) devices: Vec<Model>,
    /// First address of the window.
    pub(crate) window: u64,
    #[serde(deserialize_with = "list")]
    pub(crate) primaries: Vec<Primary>,
    #[serde(deserialize_with = "list")]
    pub(crate) entries: Vec<Entry>,
    /// Objects that the entries make, and that have ended.
    #[serde(deserialize_with = "list")]
    pub(crate) ended: Vec<(Kind, u64)>,
    /// Count of the numbers that the worker has chosen.
    pub(crate) next: u64,
    /// Contexts of the program's threads.
    #[serde(deserialize_with = "list")]
    pub(crate) lanes: Vec<(u32, u64)>,
    /// Definitions of repeated calls.
    #[serde(deserialize_with = "list")]
    pub(crate) templates: Vec<Vec<u8>>,
    #[serde(deserialize_with = "list")]
    pub(crate) memory: Vec<Range>,
    #[serde(deserialize_with = "list")]
    pub(crate) globals: Vec<Global>,
    #[serde(deserialize_with = "list")]
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
        self.check_parts()
    }

    /// Checks the parts that calls of the driver are made of: another server is trusted as little
    /// as a client.
    fn check_parts(&self) -> Result<(), String> {
        let at_most = |what: &str, most: u64, got: u64| {
            let why = || format!("{what}: must be at most {most}, got {got}");
            if got <= most { Ok(()) } else { Err(why()) }
        };
        at_most("numbers of objects", MAX_NUMBERS, self.next)?;
        at_most("pieces of memory", WINDOW_LEN / SLAB_LEN, self.memory.len() as u64)?;
        at_most("primary contexts", self.devices.len() as u64, self.primaries.len() as u64)?;
        for (at, primary) in self.primaries.iter().enumerate() {
            at_most("retains of a primary context", MAX_RETAINS, primary.retains)?;
            let is_known = primary.device < self.devices.len() as u64;
            let is_first = self.primaries[..at].iter().all(|other| other.device != primary.device);
            if !is_known || !is_first {
                let count = self.devices.len();
                let device = primary.device;
                return Err(format!(
                    "primary context: must be one of {count} devices, each once, got device {device}"
                ));
            }
        }
        for Global { name, kind, bytes, value, .. } in &self.globals {
            if !matches!(kind, Kind::Module | Kind::Library) {
                return Err(format!("variable {name}: must be of a module or a library"));
            }
            if value.len() as u64 != *bytes {
                let got = value.len();
                return Err(format!("variable {name}: must have {bytes} bytes, got {got}"));
            }
        }
        self.entries.iter().flat_map(|entry| &entry.messages).try_for_each(check_message)
    }
}

/// Checks that a message is one that a log notes. One that waits for the device is none.
fn check_message(message: &Logged) -> Result<(), String> {
    let of_table = || {
        let head = TableCall::split(&message.body).ok()?.0;
        CALLS.get(usize::from(head.call.get()))
    };
    match message.op {
        TableCall::OP => match of_table() {
            Some(spec) if spec.way != Way::Blocking => Ok(()),
            Some(spec) => Err(format!("{}: cannot be in a state", spec.name.to_string_lossy())),
            None => Err("call of the table: cannot be read".into()),
        },
        Load::OP | FindFunction::OP | KernelNode::OP | CopyNode::OP | Launch::OP | CallHost::OP => {
            Ok(())
        }
        op => Err(format!("operation {op}: cannot be in a state")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded;
    use reef_remote_calls::{Barrier, Call};
    use reef_wire::little_endian::{U16, U32};
    use reef_wire::{codec, hot_bytes};

    fn state() -> State {
        let model = Model { name: "a GPU".into(), memory: 1 << 30, capability: [9, 0] };
        State::new(13_000, vec![model], 1 << 44)
    }

    fn why(change: impl FnOnce(&mut State)) -> String {
        let mut state = state();
        let devices = state.devices.clone();
        change(&mut state);
        state.check(13_000, &devices, 1 << 44).unwrap_err()
    }

    fn entry(op: u16, body: &[u8]) -> Entry {
        let message = Logged { lane: 1, context: 16, op, body: body.to_vec() };
        Entry { made: Vec::new(), uses: Vec::new(), messages: vec![message] }
    }

    fn call(call: Call) -> Vec<u8> {
        let (reserved, reserved2) = (U16::new(0), U32::new(0));
        hot_bytes(&TableCall { call: U16::new(call as u16), reserved, reserved2 }).to_vec()
    }

    #[test]
    fn parts_of_a_state_are_not_trusted() {
        let devices = state().devices;
        let primary = |device, retains| Primary { device, id: 1 << 46 | 1 << 4, retains };
        let mut honest = state();
        honest.primaries = vec![primary(0, 3)];
        honest.entries = vec![entry(TableCall::OP, &call(Call::cuStreamCreate))];
        honest.check(13_000, &devices, 1 << 44).unwrap();
        let said = why(|state| state.primaries = vec![primary(0, u64::MAX)]);
        assert!(said.starts_with("retains of a primary context: must be at most"), "{said}");
        let said = why(|state| state.primaries = vec![primary(1 << 32, 1)]);
        assert!(said.contains("got device 4294967296"), "{said}");
        let said = why(|state| state.primaries = vec![primary(0, 1); 2]);
        assert!(said.starts_with("primary contexts: must be at most 1, got 2"), "{said}");
        let said = why(|state| state.next = u64::MAX);
        assert!(said.starts_with("numbers of objects: must be at most"), "{said}");
    }

    #[test]
    fn variable_has_the_bytes_of_its_value_and_a_module() {
        let variable = |kind, bytes, len| Global {
            of: 32,
            kind,
            context: 16,
            name: "table".into(),
            at: 1 << 40,
            bytes,
            is_known: false,
            value: vec![7; len],
        };
        let said = why(|state| state.globals = vec![variable(Kind::Module, 8, 4096)]);
        assert_eq!(said, "variable table: must have 8 bytes, got 4096");
        let said = why(|state| state.globals = vec![variable(Kind::Stream, 8, 8)]);
        assert_eq!(said, "variable table: must be of a module or a library");
    }

    /// A byte of a list may be an element of 24.
    #[test]
    fn lists_of_a_state_take_bounded_memory() {
        let mut state = state();
        state.templates = vec![Vec::new(); 1000];
        let bytes = codec::write(&state).unwrap();
        assert!(bytes.len() < 2000);
        assert_eq!(bounded::read(&bytes, 1 << 20), Ok(state));
        let said = bounded::read::<State>(&bytes, 4096).unwrap_err();
        assert_eq!(said, "lists: must take at most 4096 bytes of memory");
        assert!(bounded::read::<State>(&bytes[..9], 1 << 20).is_err());
    }

    #[test]
    fn message_that_no_log_has_is_refused() {
        let said = why(|state| state.entries = vec![entry(Barrier::OP, &[0; 8])]);
        assert_eq!(said, "operation 28: cannot be in a state");
        let waits = entry(TableCall::OP, &call(Call::cuStreamSynchronize));
        let said = why(|state| state.entries = vec![waits]);
        assert_eq!(said, "cuStreamSynchronize: cannot be in a state");
        for body in [&[][..], &[1], &[0xff; 8]] {
            let said = why(|state| state.entries = vec![entry(TableCall::OP, body)]);
            assert_eq!(said, "call of the table: cannot be read");
        }
    }
}
