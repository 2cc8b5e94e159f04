//! Writes a parked queue with the contents of its memory.

use super::work::{Region, Work};
use crate::error::{Error, Result};
use crate::format::file::{FILE, Unfinished, Written};
use crate::format::layout::CHUNK;
use crate::format::manifest::{Manifest, PartialBlocks, QueueState};
use crate::format::writer::ChunkWriter;
use reef_core::{Command, Device, Parked};
use std::path::Path;

/// Writes `parked`, which runs `work`, to the snapshot in `folder`, in place of the one that is
/// there; `note` is the caller's own. Nothing may change the memory of `work` meanwhile.
///
/// If the process ends before, the old snapshot is whole.
///
/// # Errors
///
/// `Commands` if `parked` has others than those of the task; `Locked`, `Io`; an error of the
/// device. The old snapshot is whole then.
pub fn write<D: Device>(
    folder: impl AsRef<Path>,
    work: &Work<'_, D>,
    parked: &Parked<D>,
    note: serde_json::Value,
) -> Result<Written> {
    let queue = state(work, parked)?;
    let unfinished = Unfinished::begin(folder.as_ref(), FILE)?;
    let mut writer = unfinished.writer()?;
    for region in &work.memory {
        write_region(work.device, region, &mut writer, &unfinished)?;
    }
    let manifest = Manifest {
        written_by: format!("reef {}", env!("CARGO_PKG_VERSION")),
        name: work.name.clone(),
        model: work.model,
        weights: work.weights,
        plan: work.plan,
        device: work.facts(),
        queue,
        memory: Vec::new(),
        chunks: Vec::new(),
        note,
    };
    let (bytes, manifest) = unfinished.finish(writer, manifest)?;
    let memory = manifest.memory.iter().map(|region| region.bytes).sum();
    Ok(Written { bytes, memory, position: manifest.queue.position() })
}

/// State of a queue whose commands are those of the task.
fn state<D: Device>(work: &Work<'_, D>, parked: &Parked<D>) -> Result<QueueState> {
    let queue = QueueState {
        commands: work.task.len() as u64,
        completed: parked.completed().0,
        left: parked.commands().len() as u64,
        partial: parked.partial().map(PartialBlocks::of),
    };
    let begin = queue.position().at as usize;
    for (k, command) in parked.commands().iter().enumerate() {
        let at = (begin + k) % work.task.len();
        if !is_same(command, &work.task[at]) {
            return Err(Error::Commands { position: parked.completed().0 + k as u64, at });
        }
    }
    Ok(queue)
}

/// Returns whether two commands do the same, as far as can be told of them.
fn is_same<D: Device>(a: &Command<D>, b: &Command<D>) -> bool {
    match (a, b) {
        (Command::Launch(a), Command::Launch(b)) => {
            (a.grid(), a.block(), a.args().words()) == (b.grid(), b.block(), b.args().words())
        }
        (Command::Copy(a), Command::Copy(b)) => {
            (a.from_offset, a.to_offset, a.bytes, a.to_host)
                == (b.from_offset, b.to_offset, b.bytes, b.to_host)
        }
        (Command::Fill(a), Command::Fill(b)) => {
            (a.offset, a.bytes, a.word) == (b.offset, b.bytes, b.word)
        }
        (Command::Graph(_), Command::Graph(_)) => true,
        _ => false,
    }
}

fn write_region<D: Device>(
    device: &D,
    region: &Region<D>,
    writer: &mut ChunkWriter,
    unfinished: &Unfinished,
) -> Result<()> {
    writer.region(&region.name, region.bytes as u64, region.lasts);
    let mut buffer = vec![0; CHUNK.min(region.bytes)];
    for offset in (0..region.bytes).step_by(CHUNK) {
        let part = &mut buffer[..CHUNK.min(region.bytes - offset)];
        device.read(&region.buffer, offset, part)?;
        writer.chunk(part).map_err(|why| unfinished.failed(&why))?;
    }
    Ok(())
}
