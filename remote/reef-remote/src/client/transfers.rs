//! Host memory that a command reads and writes, and the parts of its message that carry it.

use super::lane::Output;
use super::mirror::{Mirror, State};
use super::objects::Buffer;
use crate::messages::{MAX_OUTPUTS, MAX_OUTPUTS_LEN, MAX_PIECE_LEN, Section};
use parking_lot::MutexGuard;
use reef_core::Result;
use std::ops::Range;

/// Parts of host memory that copies of one command touch.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// In the order of their names, each buffer once.
    reads: Vec<(Buffer, Range<usize>)>,
    writes: Vec<(Buffer, Range<usize>)>,
}

/// Length and direction of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyKind {
    pub(super) bytes: usize,
    pub(super) to_host: bool,
}

/// Host memory that goes along with a command, whose other users wait until it is sent.
pub(super) struct Inputs<'a> {
    pub(super) sections: Vec<Section>,
    pub(super) bytes: Vec<u8>,
    pub(super) held: Vec<MutexGuard<'a, State>>,
}

impl Transfers {
    /// Adds a copy. Host memory that others than copies may touch is exposed.
    pub(super) fn add(&mut self, from: (&Buffer, usize), to: (&Buffer, usize), copy: CopyKind) {
        let CopyKind { bytes, to_host } = copy;
        if from.0.mirror.is_some() {
            let (from, range) = (from.0, from.1..from.1 + bytes);
            match self.reads.binary_search_by_key(&from.id(), |(buffer, _)| buffer.id()) {
                Ok(at) => {
                    let known = &mut self.reads[at].1;
                    *known = known.start.min(range.start)..known.end.max(range.end);
                }
                Err(at) => self.reads.insert(at, (from.clone(), range)),
            }
        }
        if to.0.mirror.is_some() {
            if to_host {
                self.writes.push((to.0.clone(), to.1..to.1 + bytes));
            } else {
                to.0.expose();
            }
        }
    }

    /// Exposes the memory of outputs that are too long, or too many, to come back by themselves.
    pub(super) fn bounded(mut self) -> Self {
        let returned: usize = self.writes.iter().map(|(_, range)| range.len()).sum();
        if returned > MAX_OUTPUTS_LEN || self.writes.len() > MAX_OUTPUTS {
            self.writes.drain(..).for_each(|(buffer, _)| buffer.expose());
        }
        self
    }

    /// Takes what the server does not have of the memory that is read.
    ///
    /// # Errors
    ///
    /// Without a session.
    pub(super) fn inputs(&self) -> Result<Inputs<'_>> {
        let mut inputs = Inputs { sections: Vec::new(), bytes: Vec::new(), held: Vec::new() };
        for (buffer, range) in &self.reads {
            let Some(mirror) = &buffer.mirror else { continue };
            let mut state = mirror.lock();
            if let Some(fresh) = Mirror::take_fresh(&mut state, range) {
                if inputs.bytes.len() + fresh.len() > MAX_PIECE_LEN {
                    buffer.send(mirror, fresh)?;
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
