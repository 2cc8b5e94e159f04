//! Description of a file by itself, as JSON.

use super::layout::CHUNK;
use super::note;
use crate::digest::Digest;
use reef_core::Blocks;
use serde::{Deserialize, Serialize};

/// Upper bound of the commands that a queue has left: as many as a queue takes.
pub const MAX_LEFT: u64 = reef_core::Config::MAX_CAPACITY as u64;

/// Contents of a snapshot, and the work that it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of REEF that wrote it, for people.
    pub written_by: String,
    /// Name of the network, for people.
    pub name: String,
    /// Digest of the network without its constants.
    pub model: Digest,
    /// Digest of its constants.
    pub weights: Digest,
    /// Digest of the launches and of their memory's layout.
    pub plan: Digest,
    /// Device that it was written on.
    pub device: DeviceFacts,
    /// State of its queue.
    pub queue: QueueState,
    /// Contents of memory.
    pub memory: Vec<RegionState>,
    /// All chunks, in the order of the file.
    pub chunks: Vec<Chunk>,
    /// The writer's own.
    #[serde(deserialize_with = "note::read")]
    pub note: serde_json::Value,
}

/// A device as a snapshot knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// Name of the backend: a snapshot is restored by the same one.
    pub backend: String,
    /// Name for people.
    pub name: String,
}

/// State of a parked queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueState {
    /// Commands of a task.
    pub commands: u64,
    /// Commands that have finished.
    pub completed: u64,
    /// Commands that are left: the end of a task, and whole tasks.
    pub left: u64,
    /// Blocks that are left of the first of them, if some of it has run.
    pub partial: Option<PartialBlocks>,
}

/// Blocks that are left of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialBlocks {
    /// Blocks of the whole command.
    pub total: u32,
    /// Launch of a graph that they are of.
    pub node: u32,
    /// First block, and the block after the last, of each range.
    pub left: Vec<[u32; 2]>,
}

/// Contents of a piece of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionState {
    /// Name for people.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Its contents count between tasks too.
    pub lasts: bool,
    /// Its chunks: an index of [`Manifest::chunks`] for each, or null for zeros.
    pub chunks: Vec<Option<u32>>,
}

/// A chunk of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// Digest of its contents.
    pub digest: Digest,
    /// Their length.
    pub bytes: u32,
}

/// Place of a stopped queue in its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Index of the next command in its task.
    pub at: u64,
    /// Commands of a task.
    pub commands: u64,
    /// Blocks that are left of the next command, and all of its blocks, if some have run.
    pub blocks: Option<(u32, u32)>,
    /// Whole tasks that are left after this one.
    pub tasks: u64,
}

impl Position {
    /// Returns whether no task has begun that has not ended.
    pub fn is_between(&self) -> bool {
        self.at == 0 && self.blocks.is_none()
    }
}

impl QueueState {
    /// Returns the place in the task.
    pub fn position(&self) -> Position {
        let commands = self.commands.max(1);
        let rest = self.left % commands;
        let at = (commands - rest) % commands;
        let blocks = self.partial.as_ref().map(|partial| {
            let count = partial.left.iter().map(|[from, to]| to.saturating_sub(*from));
            (count.fold(0, u32::saturating_add), partial.total)
        });
        let is_begun = at > 0 || blocks.is_some();
        let tasks = self.left / commands;
        // A task of which only the first command has begun is counted as a whole one.
        let tasks = if is_begun && rest == 0 { tasks.saturating_sub(1) } else { tasks };
        Position { at, commands, blocks, tasks }
    }
}

impl PartialBlocks {
    pub(crate) fn of(blocks: &Blocks) -> Self {
        let left = blocks.ranges().iter().map(|range| [range.start, range.end]).collect();
        Self { total: blocks.total(), node: blocks.node() as u32, left }
    }

    /// The blocks.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Blocks::new`].
    pub fn blocks(&self) -> reef_core::Result<Blocks> {
        let left = self.left.iter().map(|&[from, to]| from..to).collect();
        Blocks::new(self.total, self.node as usize, left)
    }
}

impl Manifest {
    /// Checks all numbers against each other and against `data` bytes of chunks. Returns the fault.
    pub(crate) fn check(&self, data: u64) -> Result<(), String> {
        let is_sized = |chunk: &Chunk| (1..=CHUNK as u32).contains(&chunk.bytes);
        if let Some(at) = self.chunks.iter().position(|chunk| !is_sized(chunk)) {
            return Err(format!("chunk {at}: length must be from 1 to {CHUNK}"));
        }
        let sum: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        if sum != data {
            return Err(format!("chunks: must be {sum} bytes, got {data}"));
        }
        self.memory.iter().try_for_each(|region| self.check_region(region))?;
        let QueueState { commands, completed, left, partial } = &self.queue;
        if *commands == 0 || *left > MAX_LEFT || completed.checked_add(*left).is_none() {
            return Err(format!("queue: {commands} commands, {completed} completed, {left} left"));
        }
        match partial {
            Some(_) if *left == 0 => Err("queue: blocks of no command".into()),
            Some(partial) => partial.blocks().map(drop).map_err(|error| format!("queue: {error}")),
            None => Ok(()),
        }
    }

    fn check_region(&self, region: &RegionState) -> Result<(), String> {
        let RegionState { name, bytes, chunks, .. } = region;
        let want = bytes.div_ceil(CHUNK as u64);
        if want != chunks.len() as u64 {
            return Err(format!("memory {name:?}: must have {want} chunks, got {}", chunks.len()));
        }
        let mut left = *bytes;
        for index in chunks {
            let length = left.min(CHUNK as u64);
            left -= length;
            let Some(index) = index else { continue };
            let have = self.chunks.get(*index as usize).map(|chunk| u64::from(chunk.bytes));
            if have != Some(length) {
                return Err(format!("memory {name:?}: chunk {index} must have {length} bytes"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of two bytes each take thirty-two and more in memory.
    #[test]
    fn note_that_takes_too_much_memory_is_refused() {
        let nothing = Digest::of(&[]);
        let manifest = Manifest {
            written_by: String::new(),
            name: String::new(),
            model: nothing,
            weights: nothing,
            plan: nothing,
            device: DeviceFacts { backend: "cpu".into(), name: String::new() },
            queue: QueueState { commands: 1, completed: 0, left: 0, partial: None },
            memory: Vec::new(),
            chunks: Vec::new(),
            note: vec![0; 20_000].into(),
        };
        let text = serde_json::to_string(&manifest).unwrap();
        let error = serde_json::from_str::<Manifest>(&text).unwrap_err().to_string();
        assert!(error.starts_with("note: must take less memory"), "{error}");
        let text = text.replace("0,0,", "");
        assert!(text.len() < 1_000, "{}", text.len());
        serde_json::from_str::<Manifest>(&text).unwrap();
    }

    #[test]
    fn positions_tell_tasks_apart() {
        let partial = || Some(PartialBlocks { total: 9, node: 0, left: vec![[2, 4], [8, 9]] });
        let of = |left, partial| {
            let queue = QueueState { commands: 4, completed: 5, left, partial };
            let Position { at, blocks, tasks, .. } = queue.position();
            (at, blocks, tasks, queue.position().is_between())
        };
        assert_eq!(of(3, None), (1, None, 0, false));
        assert_eq!(of(8, None), (0, None, 2, true));
        assert_eq!(of(8, partial()), (0, Some((3, 9)), 1, false));
        assert_eq!(of(5, partial()), (3, Some((3, 9)), 1, false));
        assert_eq!(of(0, None), (0, None, 0, true));
    }
}
