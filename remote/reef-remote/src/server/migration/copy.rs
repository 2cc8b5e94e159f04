//! A session at another server, which is made of what this end sends.

use super::state::{State, check_facts};
use crate::messages::{
    Event, Facts, MigrateBytes, MigrateCheck, MigrateClear, MigrateCommit, MigrateEvents,
    MigratePrepare, MigrateState, Request,
};
use crate::migration::outgoing::Outgoing;
use crate::migration::session::Each;
use crate::migration::steps::NotBegun;
use crate::migration::target::Target;
use crate::schema::schema;
use reef_wire::little_endian::U64;
use reef_wire::{Cold, Error, Hot, codec, hot_bytes};

/// Events in one message.
const MAX_EVENTS: usize = 1024;

/// Session at another server that is made of a state.
pub(super) struct Copy {
    pub(super) outgoing: Outgoing,
}

fn text(error: Error) -> String {
    match error {
        Error::Remote { text, .. } => text,
        other => other.to_string(),
    }
}

impl Copy {
    /// Begins one for a program, on an equal device.
    ///
    /// # Errors
    ///
    /// There is no such server, it refuses, or its device is another one.
    pub(super) fn begin(
        target: &Target,
        device: &str,
        program: &str,
        facts: &Facts,
    ) -> Result<Self, String> {
        let request = Request { device: device.into(), is_migrated: true };
        let request = codec::write(&request).map_err(text)?;
        let outgoing = Outgoing::open(target.options(schema(), program, request)).map_err(text)?;
        let got: Facts = codec::read(outgoing.facts()).map_err(text)?;
        check_facts(facts, &got)?;
        Ok(Self { outgoing })
    }

    fn post(&mut self, op: u16, parts: &[&[u8]]) -> Result<(), String> {
        self.outgoing.post(op, parts).map_err(text)
    }

    fn call<M: Cold>(&self, message: &M) -> Result<(), String> {
        let body = message.to_bytes().map_err(text)?;
        self.outgoing.call(M::OP, &body).map_err(text)
    }

    /// Sends objects, in their order.
    ///
    /// # Errors
    ///
    /// The other server's.
    pub(super) fn events(&mut self, events: &[Event]) -> Result<(), String> {
        for some in events.chunks(MAX_EVENTS) {
            let message = MigrateEvents { events: some.to_vec() };
            self.post(MigrateEvents::OP, &[&message.to_bytes().map_err(text)?])?;
        }
        Ok(())
    }

    /// Sends a piece of a buffer.
    ///
    /// # Errors
    ///
    /// The other server's.
    pub(super) fn piece(&mut self, order: u64, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let (order, offset) = (U64::new(order), U64::new(offset));
        if bytes.iter().all(|byte| *byte == 0) {
            let clear = MigrateClear { order, offset, bytes: U64::new(bytes.len() as u64) };
            return self.post(MigrateClear::OP, &[hot_bytes(&clear)]);
        }
        self.post(MigrateBytes::OP, &[hot_bytes(&MigrateBytes { order, offset }), bytes])
    }

    /// Waits until the other server has made all that was sent.
    ///
    /// # Errors
    ///
    /// The other server's.
    pub(super) fn check(&self) -> Result<(), String> {
        self.call(&MigrateCheck {})
    }

    /// Has the other server make the session of its state. It doesn't run there yet.
    ///
    /// # Errors
    ///
    /// The other server's.
    pub(super) fn prepare(&mut self, state: &[u8]) -> Result<(), String> {
        let head = MigrateState { reserved: U64::new(0) };
        self.outgoing.post_state(MigrateState::OP, hot_bytes(&head), state).map_err(text)?;
        self.call(&MigratePrepare {})
    }

    /// Has the session run there.
    ///
    /// # Errors
    ///
    /// The other server refuses, or it is not known whether it runs there.
    pub(super) fn commit(&self, message: &MigrateCommit) -> Result<(), NotBegun> {
        let body = message.to_bytes();
        let body = body.map_err(|error| NotBegun::Refused(text(error)))?;
        let called = self.outgoing.call(MigrateCommit::OP, &body);
        called.map_err(|error| NotBegun::new(&error, text(error.clone())))
    }
}

/// Has a server begin the session of a state that was
/// [written](crate::migration::Migrate::snapshot). `read` reads the region at this place of the
/// written list. Returns the bytes of its memory.
///
/// # Errors
///
/// Returns an error if the state is damaged; an error of the server; the errors of `read`.
pub fn restore(
    target: &Target,
    state: &[u8],
    read: &mut dyn FnMut(usize, u64, &mut Each<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let State { device, facts, program, events, memory, .. } = State::read(state).map_err(text)?;
    let mut copy = Copy::begin(target, &device, &program, &facts)?;
    copy.events(&events)?;
    copy.check()?;
    for (at, &(order, bytes)) in memory.iter().enumerate() {
        let mut offset = 0;
        read(at, order, &mut |piece| {
            copy.piece(order, offset, piece)?;
            offset += piece.len() as u64;
            Ok(())
        })?;
        if offset != bytes {
            return Err(format!("memory {order}: must have {bytes} bytes, got {offset}"));
        }
    }
    // The events are there.
    let mut rest = State::read(state).map_err(text)?;
    rest.events = Vec::new();
    copy.prepare(&codec::write(&rest).map_err(text)?)?;
    copy.commit(&rest.commit())?;
    Ok(memory.iter().map(|(_, bytes)| bytes).sum())
}
