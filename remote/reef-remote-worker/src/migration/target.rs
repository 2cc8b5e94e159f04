//! Receives a session from another server, or from a file.

use super::make::make;
use super::memory::Copier;
use super::state::State;
use crate::bounded;
use crate::executor::Executor;
use crate::state::lock::lock;
use crate::state::queue::Queue;
use crate::state::shared::Shared;
use reef_remote::migration::MigrationTarget;
use reef_remote::server::Resource;
use reef_remote_calls::{
    Call, MigrateBytes, MigrateClear, MigrateCommit, MigrateMap, MigratePrepare, MigrateState,
};
use reef_wire::{Error, Hot, Message, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of the largest state: images, variables and messages that wait. And those of memory that
/// its lists take.
pub(super) const MAX_STATE_LEN: usize = 512 << 20;

/// Has a session run that was made of a state: its objects, its queue and its thread.
pub(crate) type Begin =
    Box<dyn FnMut(&State, Arc<Shared>, Arc<Queue>, Executor) -> Result<(), String> + Send>;

/// Receiver of a session.
pub(crate) struct Incoming {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Memory of each device is written in its primary context.
    copiers: HashMap<i32, Copier>,
    state: Vec<u8>,
    /// Bytes of it that are in the session's account.
    held: u64,
    begin: Begin,
}

impl Incoming {
    pub(crate) fn new(shared: Arc<Shared>, begin: Begin) -> Self {
        let (copiers, state) = (HashMap::new(), Vec::new());
        Self { shared, queue: Arc::default(), copiers, state, held: 0, begin }
    }

    fn map(&mut self, map: &MigrateMap) -> Result<(), String> {
        let (at, bytes, device) = (map.at.get(), map.bytes.get(), map.device.get() as i32);
        let failed = |code: u32| format!("memory at {at:#x}: code {code}");
        if !self.copiers.contains_key(&device) {
            let mut context = 0_usize;
            let retain = self.shared.driver.of(Call::cuDevicePrimaryCtxRetain);
            // SAFETY: a place for a handle, and a number.
            let code = unsafe { retain.call([&raw mut context as usize, device as usize]) };
            super::memory::check(code).map_err(failed)?;
            let copier = Copier::new(&self.shared, context).map_err(failed)?;
            self.copiers.insert(device, copier);
        }
        let mut window = lock(&self.shared.window);
        let window = window.as_mut().ok_or("there is no window")?;
        let driver = &self.shared.driver;
        let overlaps = |(from, slab): (&u64, &crate::state::window::Slab)| {
            (*from < at.saturating_add(bytes) && at < from + slab.bytes).then_some(*from)
        };
        let old: Vec<u64> = window.slabs().iter().filter_map(overlaps).collect();
        old.into_iter().for_each(|at| window.unmap(driver, at));
        window.map(driver, at, bytes, (0, device)).map_err(failed)
    }

    /// The copier of the memory at an address, of this length.
    fn copier(&mut self, at: u64, len: u64) -> Result<&mut Copier, String> {
        let window = lock(&self.shared.window);
        let slabs = window.as_ref().ok_or("there is no window")?.slabs();
        let slab = slabs.range(..=at).next_back();
        let slab = slab.filter(|(from, slab)| at.saturating_add(len) <= *from + slab.bytes);
        let device = slab.ok_or_else(|| format!("memory at {at:#x}: is not mapped"))?.1.device;
        drop(window);
        self.copiers.get_mut(&device).ok_or_else(|| "device: has no memory".into())
    }

    /// Records bytes of the state, or drops it.
    fn charge(&mut self, bytes: u64) -> Result<(), String> {
        let quota = self.shared.quota.as_ref();
        if quota.is_none_or(|quota| quota.take_of(Resource::State, bytes).is_ok()) {
            self.held += bytes;
            return Ok(());
        }
        self.state = Vec::new();
        self.release();
        Err("state: the sessions that come to this tenant have too much together".into())
    }

    /// Gives the bytes of the state back.
    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.held);
        self.shared.quota.iter().for_each(|quota| quota.give_back(Resource::State, bytes));
    }
}

impl MigrationTarget for Incoming {
    const CHECK: Option<u16> = None;
    const PREPARE: u16 = MigratePrepare::OP;
    const COMMIT: u16 = MigrateCommit::OP;

    type Session = (State, Executor);

    fn take(&mut self, message: &Message<'_>) -> Result<Result<(), String>> {
        let failed = |code: u32| format!("memory: code {code}");
        Ok(match message.op {
            MigrateMap::OP => self.map(MigrateMap::split(message.body)?.0),
            MigrateBytes::OP => {
                let (head, bytes) = MigrateBytes::split(message.body)?;
                let at = head.at.get();
                let copier = self.copier(at, bytes.len() as u64);
                copier.and_then(|copier| copier.write(at, bytes).map_err(failed))
            }
            MigrateClear::OP => {
                let head = MigrateClear::split(message.body)?.0;
                let (at, len) = (head.at.get(), head.bytes.get());
                let copier = self.copier(at, len);
                copier.and_then(|copier| copier.clear(at, len as usize).map_err(failed))
            }
            MigrateState::OP => {
                let piece = MigrateState::split(message.body)?.1;
                append(&mut self.state, piece, MAX_STATE_LEN)?;
                self.charge(piece.len() as u64)
            }
            op => return Err(Error::Protocol(format!("operation {op}: cannot come here"))),
        })
    }

    fn prepare(&mut self) -> Result<(State, Executor), String> {
        let state = bounded::read(&std::mem::take(&mut self.state), MAX_STATE_LEN);
        self.release();
        let state: State = state?;
        let executor = make(&self.shared, &self.queue, &state)?;
        for device in std::mem::take(&mut self.copiers).into_keys() {
            let release = self.shared.driver.of(Call::cuDevicePrimaryCtxRelease_v2);
            // SAFETY: a number.
            unsafe { release.call([device as usize]) };
        }
        Ok((state, executor))
    }

    fn commit(&mut self, made: (State, Executor), _: &[u8]) -> Result<Result<(), String>> {
        let (state, executor) = made;
        Ok((self.begin)(&state, self.shared.clone(), self.queue.clone(), executor))
    }
}

/// Adds a piece of a state.
///
/// # Errors
///
/// `Protocol`: the state would be too long.
fn append(state: &mut Vec<u8>, piece: &[u8], most: usize) -> Result<()> {
    let len = state.len() + piece.len();
    if len > most {
        return Err(Error::Protocol(format!("state: must have at most {most} bytes, got {len}")));
    }
    state.extend_from_slice(piece);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_that_is_too_long_ends_its_session() {
        let mut state = Vec::new();
        append(&mut state, &[1; 60], 100).unwrap();
        let said = append(&mut state, &[1; 41], 100).unwrap_err().to_string();
        assert!(said.contains("state: must have at most 100 bytes, got 101"), "{said}");
        assert_eq!(state.len(), 60);
        append(&mut state, &[1; 40], 100).unwrap();
    }
}
