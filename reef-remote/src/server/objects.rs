//! Objects of one session, by the names that its client gave them.

use super::tenants::{Account, Charge};
use crate::error::NAME;
use crate::messages::{
    BUFFER, CHECKPOINT, GRAPH, LAUNCHES, MAX_OUTPUTS_LEN, PREEMPTOR, Place, RemoteCommand, Section,
};
use parking_lot::Mutex;
use reef_core::op::{Operators, Storage};
use reef_core::{Args, Backend, Command, Copy, Dim3, Error, Fill, Launch, Task};
use reef_wire::{Id, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of objects of a sort in a session.
const MAX_OBJECTS: usize = 1 << 20;

/// Error of a message: the client broke the protocol, or the device refused.
#[derive(Debug)]
pub(super) enum Fault {
    Protocol(reef_wire::Error),
    Device(Error),
}

impl From<reef_wire::Error> for Fault {
    fn from(error: reef_wire::Error) -> Self {
        Self::Protocol(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

pub(super) type Outcome<T> = Result<T, Fault>;

#[derive(Debug)]
struct Memory<D: Operators> {
    buffer: D::Buffer,
    /// Its address as the client sees it, and its bytes.
    address: u64,
    bytes: u64,
    /// Its bytes in the session's account.
    _charge: Charge,
}

#[derive(Debug)]
pub(super) enum Launches<D: Operators> {
    Prepared(Vec<Launch<D>>),
    /// A kernel with any arguments.
    Named(D::Kernel),
    /// The kernel `append`, whose arguments are checked.
    Append(D::Kernel),
}

/// Parts of buffers: the first byte, and the number of bytes.
pub(super) type Outputs<D> = Vec<(<D as Backend>::Buffer, usize, usize)>;

/// Reads parts of buffers, one after the other.
///
/// # Errors
///
/// The device's.
pub(super) fn read_outputs<D: Operators>(device: &D, parts: &Outputs<D>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for (buffer, offset, len) in parts {
        let from = bytes.len();
        bytes.resize(from + len, 0);
        device.read(buffer, *offset, &mut bytes[from..])?;
    }
    Ok(bytes)
}

/// Records of launches, which lanes make as well.
pub(super) type Checkpoints<D> = Arc<Mutex<Table<<D as Backend>::Checkpoint>>>;

#[derive(Debug)]
pub(super) struct Objects<D: Operators> {
    buffers: Table<Memory<D>>,
    /// Buffers by the client's address.
    addresses: BTreeMap<u64, Id>,
    pub(super) launches: Table<Launches<D>>,
    pub(super) graphs: Table<Task<D>>,
    pub(super) checkpoints: Checkpoints<D>,
    pub(super) preemptors: Table<Arc<D::Preemptor>>,
    account: Arc<Account>,
}

impl<D: Operators> Objects<D> {
    /// No objects yet; their memory goes to this account.
    pub(super) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            buffers: Table::new(BUFFER, "buffer", MAX_OBJECTS),
            addresses: BTreeMap::new(),
            launches: Table::new(LAUNCHES, "launches", MAX_OBJECTS),
            graphs: Table::new(GRAPH, "graph", MAX_OBJECTS),
            checkpoints: Arc::new(Mutex::new(Table::new(CHECKPOINT, "checkpoint", MAX_OBJECTS))),
            preemptors: Table::new(PREEMPTOR, "preemptor", MAX_OBJECTS),
        }
    }

    /// Reserves bytes for a buffer.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the tenant's bound.
    pub(super) fn charge(&self, bytes: u64) -> Outcome<Charge> {
        self.account.charge(bytes).map_err(|text| Error::Invalid(text).into())
    }

    /// Adds a buffer, whose bytes are charged.
    pub(super) fn add_buffer(
        &mut self,
        id: u64,
        address: u64,
        bytes: u64,
        buffer: D::Buffer,
        charge: Charge,
    ) -> Outcome<()> {
        let id = Id::from_bits(id);
        self.buffers.insert(id, Memory { buffer, address, bytes, _charge: charge })?;
        self.addresses.insert(address, id);
        Ok(())
    }

    pub(super) fn buffer(&self, id: u64) -> Outcome<&D::Buffer> {
        Ok(&self.buffers.get(Id::from_bits(id))?.buffer)
    }

    /// Releases an object of any sort.
    pub(super) fn free(&mut self, id: u64) -> Outcome<()> {
        let id = Id::from_bits(id);
        match id.tag() {
            BUFFER => {
                let memory = self.buffers.remove(id)?;
                self.addresses.remove(&memory.address);
            }
            LAUNCHES => drop(self.launches.remove(id)?),
            CHECKPOINT => drop(self.checkpoints.lock().remove(id)?),
            PREEMPTOR => drop(self.preemptors.remove(id)?),
            _ => drop(self.graphs.remove(id)?),
        }
        Ok(())
    }

    /// Parts of buffers that come back when a command has ended.
    ///
    /// # Errors
    ///
    /// `Protocol` if they are too long.
    pub(super) fn outputs(&self, sections: &[Section]) -> Outcome<Outputs<D>> {
        let len = sections.iter().fold(0_u64, |sum, (_, _, len)| sum.saturating_add(*len));
        if len > MAX_OUTPUTS_LEN as u64 {
            let text = format!("outputs: must have at most {MAX_OUTPUTS_LEN} bytes, got {len}");
            return Err(reef_wire::Error::Protocol(text).into());
        }
        let part = |&(id, offset, len): &Section| {
            Ok((self.buffer(id)?.clone(), offset as usize, len as usize))
        };
        sections.iter().map(part).collect()
    }

    pub(super) fn storage(&self, place: Place) -> Outcome<Storage<'_, D>> {
        let (id, offset) = place;
        Ok(Storage { buffer: self.buffer(id)?, offset: offset as usize })
    }

    /// Returns the commands that a client's command means: those of a graph, or one.
    pub(super) fn task(&self, device: &D, command: &RemoteCommand) -> Outcome<Task<D>> {
        match command {
            RemoteCommand::Graph { graph } => Ok(self.graphs.get(Id::from_bits(*graph))?.clone()),
            other => Ok(Task::new([self.command(device, other)?])?),
        }
    }

    /// Returns the command for the device.
    pub(super) fn command(&self, device: &D, command: &RemoteCommand) -> Outcome<Command<D>> {
        Ok(match command {
            RemoteCommand::Prepared { launches, index } => {
                match self.launches.get(Id::from_bits(*launches))? {
                    Launches::Prepared(list) => {
                        let launch = list.get(*index as usize).ok_or_else(|| {
                            let text = format!("launch {index}: there are {}", list.len());
                            reef_wire::Error::Protocol(text)
                        })?;
                        Command::Launch(launch.clone())
                    }
                    Launches::Named(_) | Launches::Append(_) => return Err(not_prepared()),
                }
            }
            RemoteCommand::Raw { kernel, grid, block, args } => {
                match self.launches.get(Id::from_bits(*kernel))? {
                    Launches::Named(kernel) => {
                        Command::Launch(self.raw(device, kernel.clone(), [*grid, *block], args)?)
                    }
                    Launches::Append(kernel) => {
                        self.check_append(*grid, args)?;
                        Command::Launch(self.raw(device, kernel.clone(), [*grid, *block], args)?)
                    }
                    Launches::Prepared(_) => return Err(not_prepared()),
                }
            }
            RemoteCommand::Copy { from, from_offset, to, to_offset, bytes, to_host } => {
                Command::Copy(Copy {
                    from: self.buffer(*from)?.clone(),
                    from_offset: *from_offset as usize,
                    to: self.buffer(*to)?.clone(),
                    to_offset: *to_offset as usize,
                    bytes: *bytes as usize,
                    to_host: *to_host,
                })
            }
            RemoteCommand::Fill { buffer, offset, bytes, word } => Command::Fill(Fill {
                buffer: self.buffer(*buffer)?.clone(),
                offset: *offset as usize,
                bytes: *bytes as usize,
                word: *word,
            }),
            RemoteCommand::Graph { .. } | RemoteCommand::Record => {
                let text = "a graph or a record: cannot be in a graph";
                return Err(Error::invalid(text).into());
            }
        })
    }

    /// A kernel with the client's arguments. Words that are addresses of the client become those
    /// of the device, and the launch keeps the buffers.
    fn raw(
        &self,
        device: &D,
        kernel: D::Kernel,
        sizes: [Dim3; 2],
        args: &[u64],
    ) -> Outcome<Launch<D>> {
        let [grid, block] = sizes;
        let blocks: u128 = grid.iter().map(|&n| u128::from(n)).product();
        if args.len() > Args::MAX || blocks > u128::from(u32::MAX) {
            let (words, most) = (args.len(), Args::MAX);
            let text = format!("a launch of {blocks} blocks with {words} words, at most {most}");
            return Err(Error::Invalid(text).into());
        }
        let mut kept = Vec::new();
        let words: Vec<u64> = args
            .iter()
            .map(|&word| match self.at_address(word) {
                Some((memory, offset)) => {
                    kept.push(memory.buffer.clone());
                    device.address(&memory.buffer) + offset
                }
                None => word,
            })
            .collect();
        // SAFETY: a kernel by name exists only in a host whose maker has promised that its clients
        // keep to the obligations of a launch, or it is `append` with a cell for each block. The
        // buffers that it names are kept.
        #[allow(unsafe_code)]
        let launch = unsafe { Launch::new(kernel, grid, block, Args::new(&words)) };
        Ok(launch.keep(kept))
    }

    /// Checks that there is a cell for each block of `append`, as `Device::kernel` wants.
    fn check_append(&self, grid: Dim3, args: &[u64]) -> Outcome<()> {
        let cells = grid.iter().try_fold(1_u64, |cells, &n| cells.checked_mul(n.into()));
        let room = match args {
            &[address, _, _] if address % 8 == 0 => self.at_address(address),
            _ => None,
        };
        let room = room.map_or(0, |(memory, offset)| (memory.bytes - offset) / 8);
        if cells.is_some_and(|cells| cells <= room) {
            return Ok(());
        }
        let text = format!("append: must have a cell for each of {grid:?} blocks, got {room}");
        Err(Error::Invalid(text).into())
    }

    /// Returns the buffer that the client's address lies in, and the distance from its beginning.
    fn at_address(&self, address: u64) -> Option<(&Memory<D>, u64)> {
        let (&begin, &id) = self.addresses.range(..=address).next_back()?;
        let memory = self.buffers.get(id).ok()?;
        (address - begin < memory.bytes).then_some((memory, address - begin))
    }
}

fn not_prepared() -> Fault {
    let what = "a launch of another sort of kernel".into();
    Error::Unsupported { backend: NAME, what }.into()
}
