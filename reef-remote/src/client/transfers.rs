//! Host memory that a command reads and writes, and the parts of its message that carry it.

use super::connection::Connection;
use super::lane::Output;
use super::mirror::{Mirror, State};
use super::objects::Buffer;
use super::remote::Remote;
use crate::messages::{MAX_OUTPUTS_LEN, MAX_PIECE_LEN, Section};
use parking_lot::MutexGuard;
use reef_core::{Command, Copy, Result};
use std::ops::Range;

/// Parts of host memory that copies of one command touch.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// In the order of their names, each buffer once.
    reads: Vec<(Buffer, Range<usize>)>,
    writes: Vec<(Buffer, Range<usize>)>,
}

/// Host memory that goes along with a command, whose other users wait until it is sent.
pub(super) struct Inputs<'a> {
    pub(super) sections: Vec<Section>,
    pub(super) bytes: Vec<u8>,
    pub(super) held: Vec<MutexGuard<'a, State>>,
}

impl Transfers {
    /// Finds the copies among these commands. Host memory that another command may touch is
    /// exposed, and so is that of long outputs.
    pub(super) fn of<'a>(commands: impl IntoIterator<Item = &'a Command<Remote>>) -> Self {
        let mut found = Self::default();
        for command in commands {
            match command {
                Command::Copy(copy) => found.add(copy),
                Command::Fill(fill) => fill.buffer.expose(),
                _ => {}
            }
        }
        let returned: usize = found.writes.iter().map(|(_, range)| range.len()).sum();
        if returned > MAX_OUTPUTS_LEN {
            found.writes.drain(..).for_each(|(buffer, _)| buffer.expose());
        }
        found
    }

    pub(super) fn of_copy(copy: &Copy<Remote>) -> Self {
        let mut found = Self::default();
        found.add(copy);
        if copy.bytes > MAX_OUTPUTS_LEN {
            found.writes.drain(..).for_each(|(buffer, _)| buffer.expose());
        }
        found
    }

    fn add(&mut self, copy: &Copy<Remote>) {
        if copy.from.mirror.is_some() {
            let range = copy.from_offset..copy.from_offset + copy.bytes;
            match self.reads.binary_search_by_key(&copy.from.id(), |(buffer, _)| buffer.id()) {
                Ok(at) => {
                    let known = &mut self.reads[at].1;
                    *known = known.start.min(range.start)..known.end.max(range.end);
                }
                Err(at) => self.reads.insert(at, (copy.from.clone(), range)),
            }
        }
        if copy.to.mirror.is_some() {
            if copy.to_host {
                let range = copy.to_offset..copy.to_offset + copy.bytes;
                self.writes.push((copy.to.clone(), range));
            } else {
                copy.to.expose();
            }
        }
    }

    /// Takes what the server does not have of the memory that is read.
    ///
    /// # Errors
    ///
    /// Without a session.
    pub(super) fn inputs(&self, connection: &Connection) -> Result<Inputs<'_>> {
        let mut inputs = Inputs { sections: Vec::new(), bytes: Vec::new(), held: Vec::new() };
        for (buffer, range) in &self.reads {
            let Some(mirror) = &buffer.mirror else { continue };
            let mut state = mirror.lock();
            if let Some(fresh) = Mirror::take_fresh(&mut state, range) {
                if inputs.bytes.len() + fresh.len() > MAX_PIECE_LEN {
                    mirror.send(connection, buffer.id(), fresh)?;
                } else {
                    let (from, len) = (fresh.start as u64, fresh.len() as u64);
                    inputs.sections.push((buffer.id(), from, len));
                    inputs.bytes.extend(mirror.bytes(fresh));
                }
                inputs.held.push(state);
            }
        }
        Ok(inputs)
    }

    /// Returns what comes back when the command has ended, in order.
    pub(super) fn outputs(&self) -> (Vec<Section>, Vec<Output>) {
        let mut outputs = (Vec::new(), Vec::new());
        for (buffer, range) in &self.writes {
            if let Some(mirror) = buffer.mirror.as_ref().filter(|mirror| !mirror.is_exposed()) {
                outputs.0.push((buffer.id(), range.start as u64, range.len() as u64));
                outputs.1.push(Output { mirror: mirror.clone(), range: range.clone() });
            }
        }
        outputs
    }
}
