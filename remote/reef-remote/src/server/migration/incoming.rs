//! Receives a session from another server, or from a file.

use super::make::{ByOrder, Maker, memory_of, reason};
use super::state::{State, calendar};
use crate::error::invalid;
use crate::messages::{
    Facts, MigrateBytes, MigrateCheck, MigrateClear, MigrateCommit, MigrateEvents, MigratePrepare,
    MigrateState,
};
use crate::migration::arrival::MigrationTarget;
use crate::server::objects::{Fault, Outcome};
use crate::server::session::Session;
use crate::server::tenants::accounts::Charge;
use reef_core::Error;
use reef_op::Operators;
use reef_wire::{Cold, Hot, Key, Message};
use std::collections::HashMap;
use std::time::Duration;

/// Bytes of the largest state.
const MAX_STATE_LEN: usize = 512 << 20;
/// Bytes that are cleared at once.
const CLEARED_LEN: usize = 1 << 20;

/// A session that can run here.
pub(in crate::server) struct Adoption<D: Operators> {
    pub(in crate::server) session: Session<D>,
    pub(in crate::server) name: [u8; 16],
    pub(in crate::server) end: Vec<u8>,
    pub(in crate::server) key: Key,
    pub(in crate::server) program: String,
}

/// Has a session run.
type Begin<D> = Box<dyn FnOnce(Adoption<D>) -> Result<(), String> + Send>;

/// Receiver of a session.
pub(in crate::server) struct Incoming<D: Operators> {
    /// Taken out when it runs.
    session: Option<Session<D>>,
    facts: Facts,
    made: ByOrder<D>,
    state: Vec<u8>,
    /// Its bytes in the session's account.
    held: Charge,
    begin: Option<Begin<D>>,
}

impl<D: Operators> Incoming<D> {
    pub(in crate::server) fn new(
        session: Session<D>,
        held: Charge,
        facts: Facts,
        begin: impl FnOnce(Adoption<D>) -> Result<(), String> + Send + 'static,
    ) -> Self {
        let (session, made, state) = (Some(session), HashMap::new(), Vec::new());
        let begin = Some(Box::new(begin) as Begin<D>);
        Self { session, facts, made, state, held, begin }
    }

    fn take_part(&mut self, message: &Message<'_>) -> Outcome<()> {
        let ended = || Fault::from(Error::invalid("session", "runs already"));
        let session = self.session.as_mut().ok_or_else(ended)?;
        let device = session.host.device.clone();
        match message.op {
            MigrateEvents::OP => {
                let mut maker = Maker { session, made: &mut self.made };
                let events = MigrateEvents::from_bytes(message.body)?.events;
                events.into_iter().try_for_each(|event| maker.event(event))
            }
            MigrateBytes::OP => {
                let (head, bytes) = MigrateBytes::split(message.body)?;
                let memory = memory_of(&self.made, head.order.get())?;
                Ok(device.write(&memory.buffer, head.offset.get() as usize, bytes)?)
            }
            MigrateClear::OP => {
                let (head, _) = MigrateClear::split(message.body)?;
                let memory = memory_of(&self.made, head.order.get())?;
                let (from, len) = (head.offset.get(), head.bytes.get());
                if from.checked_add(len).is_none_or(|end| end > memory.len) {
                    let has = memory.len;
                    return Err(Error::invalid(
                        "range",
                        format!("must be inside a buffer of {has} bytes, got {len} at {from}"),
                    )
                    .into());
                }
                let zeros = vec![0; CLEARED_LEN.min(len as usize)];
                for at in (0..len as usize).step_by(CLEARED_LEN) {
                    let piece = &zeros[..CLEARED_LEN.min(len as usize - at)];
                    device.write(&memory.buffer, from as usize + at, piece)?;
                }
                Ok(())
            }
            MigrateState::OP => {
                let piece = MigrateState::split(message.body)?.1;
                let len = self.state.len() + piece.len();
                let held = if len > MAX_STATE_LEN {
                    Err(format!("state: must have at most {MAX_STATE_LEN} bytes, got {len}"))
                } else {
                    self.held.add(piece.len() as u64)
                };
                if let Err(why) = held {
                    self.state = Vec::new();
                    self.held.clear();
                    return Err(invalid(why).into());
                }
                self.state.extend_from_slice(piece);
                Ok(())
            }
            op => {
                let text = format!("operation {op}: cannot come here");
                Err(reef_wire::Error::Protocol(text).into())
            }
        }
    }

    fn begin(&mut self, state: State, commit: &MigrateCommit) -> Result<(), String> {
        let session = self.session.take().ok_or("the session runs already")?;
        let begin = self.begin.take().ok_or("the session runs already")?;
        self.made = HashMap::new();
        let now = session.host.device.clock();
        // The calendars of two machines may differ.
        let passed = calendar().saturating_sub(commit.calendar).min(commit.within);
        session.outlet.set_time(now, Duration::from_nanos(commit.clock.saturating_add(passed)));
        let State { name, end, key, program, .. } = state;
        begin(Adoption { session, name, end, key, program })
    }
}

impl<D: Operators> MigrationTarget for Incoming<D> {
    const CHECK: Option<u16> = Some(MigrateCheck::OP);
    const PREPARE: u16 = MigratePrepare::OP;
    const COMMIT: u16 = MigrateCommit::OP;

    type Session = State;

    fn take(&mut self, message: &Message<'_>) -> reef_wire::Result<Result<(), String>> {
        Ok(self.take_part(message).map_err(|fault| reason(&fault)))
    }

    fn prepare(&mut self) -> Result<State, String> {
        let state = State::read(&std::mem::take(&mut self.state)).map_err(|e| e.to_string())?;
        self.held.clear();
        let session = self.session.as_mut().ok_or("the session runs already")?;
        let mut maker = Maker { session, made: &mut self.made };
        maker.finish(&state, &self.facts).map_err(|fault| reason(&fault))?;
        for (order, bytes) in &state.memory {
            let memory = memory_of(&self.made, *order).map_err(|fault| reason(&fault))?;
            if memory.len != *bytes {
                return Err(format!("memory {order}: must have {bytes} bytes, got {}", memory.len));
            }
        }
        Ok(state)
    }

    fn commit(&mut self, state: State, body: &[u8]) -> reef_wire::Result<Result<(), String>> {
        Ok(self.begin(state, &MigrateCommit::from_bytes(body)?))
    }
}
