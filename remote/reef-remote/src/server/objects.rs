//! Objects of one session, by the names that its client gave them.

use super::origin::{Memory, Needs, Object, Origin, Record, Source};
use super::tenants::accounts::{Account, Charge};
use super::tenants::resource::Resource;
use crate::error::{NAME, invalid};
use crate::messages::{
    BUFFER, CHECKPOINT, GRAPH, LAUNCHES, MAX_OUTPUTS, MAX_OUTPUTS_LEN, Operation, PREEMPTOR,
    RemoteCommand, Section, StorageStart,
};
use parking_lot::Mutex;
use reef_core::{Args, Backend, Command, Copy, Dim3, Error, Fill, Launch, Task};
use reef_op::{Operators, Storage};
use reef_wire::{Id, Table, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of objects of a sort in a session.
const MAX_OBJECTS: usize = 1 << 20;

/// Bytes of the server's machine that each object takes, about.
pub(super) const OBJECT_LEN: u64 = 1024;

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

/// Parts of buffers: the first byte, and the number of bytes.
pub(super) type Outputs<D> = Vec<(<D as Backend>::Buffer, usize, usize)>;

/// Reads parts of buffers, one after the other.
///
/// # Errors
///
/// Returns an error of the device.
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
pub(super) type Checkpoints<D> = Arc<Mutex<Table<Record<D>>>>;

/// A buffer that an address lies in, its memory, and the distance from its beginning.
type Addressed<'a, D> = (&'a Arc<Origin<D>>, &'a Memory<D>, u64);

/// Releases of names since something asked for them: place in the order, and name.
type Releases = Vec<(u64, u64)>;

#[derive(Debug)]
pub(super) struct Objects<D: Operators> {
    buffers: Table<Arc<Origin<D>>>,
    /// Buffers by the client's address.
    addresses: BTreeMap<u64, Id>,
    launches: Table<Arc<Origin<D>>>,
    graphs: Table<Arc<Origin<D>>>,
    pub(super) checkpoints: Checkpoints<D>,
    preemptors: Table<Arc<Origin<D>>>,
    /// Last place in the order of what was made and released.
    last: u64,
    /// Releases are noted while the session is copied.
    releases: Option<Releases>,
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
            last: 0,
            releases: None,
        }
    }

    /// Has the next object or release get this place in the order.
    ///
    /// # Errors
    ///
    /// `Protocol` if the place is not free any more.
    pub(super) fn skip_to(&mut self, order: u64) -> Outcome<()> {
        if order <= self.last || order > u64::MAX / 2 {
            let text = format!("order of objects: must be above {}, got {order}", self.last);
            return Err(reef_wire::Error::Protocol(text).into());
        }
        self.last = order - 1;
        Ok(())
    }

    /// Takes the next place in the order.
    pub(super) fn next_order(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Notes releases from now on, or no more.
    pub(super) fn watch_releases(&mut self, is_on: bool) {
        self.releases = is_on.then(Vec::new);
    }

    /// Returns whether releases are noted.
    pub(super) fn has_watch(&self) -> bool {
        self.releases.is_some()
    }

    /// Returns the last place in the order.
    pub(super) fn last_order(&self) -> u64 {
        self.last
    }

    /// Takes the releases that were noted.
    pub(super) fn take_releases(&mut self) -> Releases {
        self.releases.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes that a name is released.
    pub(super) fn note_release(&mut self, id: u64) -> u64 {
        let order = self.next_order();
        if let Some(releases) = &mut self.releases {
            releases.push((order, id));
        }
        order
    }

    /// Returns all objects that have names.
    pub(super) fn named(&self) -> Vec<Arc<Origin<D>>> {
        let all = [&self.buffers, &self.launches, &self.graphs, &self.preemptors];
        all.into_iter().flat_map(Table::values).cloned().collect()
    }

    /// Reserves an amount of a resource.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the tenant's bound.
    pub(super) fn charge(&self, what: Resource, amount: u64) -> Outcome<Charge> {
        self.account.charge(what, amount).map_err(|text| invalid(text).into())
    }

    /// Adds a buffer.
    pub(super) fn add_buffer(&mut self, id: u64, memory: Memory<D>) -> Outcome<()> {
        let held = self.charge(Resource::Objects, OBJECT_LEN)?;
        let (address, order) = (memory.address, self.next_order());
        let object = Object::Buffer(memory);
        let origin = Origin::new(order, id, object, Needs::default(), Some(held));
        let id = Id::from_bits(id);
        self.buffers.insert(id, origin)?;
        self.addresses.insert(address, id);
        Ok(())
    }

    /// Adds launches, a kernel, a graph or a preemptor.
    pub(super) fn add(&mut self, id: u64, object: Object<D>, needs: Needs<D>) -> Outcome<()> {
        let held = self.charge(Resource::Objects, held_len(&object, &needs)?)?;
        let origin = Origin::new(self.next_order(), id, object, needs, Some(held));
        let table = match &origin.object {
            Object::Preemptor { .. } => &mut self.preemptors,
            Object::Graph { .. } => &mut self.graphs,
            _ => &mut self.launches,
        };
        Ok(table.insert(Id::from_bits(id), origin)?)
    }

    /// Returns the object of a name of any sort but a checkpoint's.
    pub(super) fn origin(&self, id: u64) -> Outcome<&Arc<Origin<D>>> {
        let id = Id::from_bits(id);
        Ok(match id.tag() {
            BUFFER => self.buffers.get(id)?,
            LAUNCHES => self.launches.get(id)?,
            PREEMPTOR => self.preemptors.get(id)?,
            _ => self.graphs.get(id)?,
        })
    }

    pub(super) fn preemptor(&self, id: u64) -> Outcome<&Arc<Origin<D>>> {
        Ok(self.preemptors.get(Id::from_bits(id))?)
    }

    pub(super) fn preemptors(&self) -> impl Iterator<Item = &D::Preemptor> {
        self.preemptors.values().filter_map(|origin| match &origin.object {
            Object::Preemptor { preemptor, .. } => Some(&**preemptor),
            _ => None,
        })
    }

    pub(super) fn buffer(&self, id: u64) -> Outcome<&D::Buffer> {
        Ok(&self.memory(id)?.buffer)
    }

    pub(super) fn memory(&self, id: u64) -> Outcome<&Memory<D>> {
        let origin = self.buffers.get(Id::from_bits(id))?;
        origin.memory().ok_or_else(|| Error::invalid("buffer", "must have memory").into())
    }

    /// Releases an object of any sort.
    pub(super) fn free(&mut self, bits: u64) -> Outcome<()> {
        let id = Id::from_bits(bits);
        let origin = match id.tag() {
            BUFFER => {
                let origin = self.buffers.remove(id)?;
                if let Some(memory) = origin.memory() {
                    self.addresses.remove(&memory.address);
                }
                origin
            }
            CHECKPOINT => {
                self.checkpoints.lock().remove(id)?;
                return Ok(());
            }
            LAUNCHES => self.launches.remove(id)?,
            PREEMPTOR => self.preemptors.remove(id)?,
            _ => self.graphs.remove(id)?,
        };
        origin.free(self.note_release(bits));
        Ok(())
    }

    /// Returns what the launches of an operation need.
    pub(super) fn needs_of(&self, operation: &Operation) -> Outcome<Needs<D>> {
        let mut needs = Needs::default();
        let mut add = |id: u64, is_written: bool| -> Outcome<()> {
            let origin = self.origin(id)?;
            needs.uses.push(origin.clone());
            needs.writes.extend(is_written.then(|| origin.clone()));
            Ok(())
        };
        match operation {
            Operation::Image { input, residual, output, constants, scratch, .. } => {
                let read = residual.iter().chain([input]).map(|place| place.0).chain(*constants);
                read.into_iter().try_for_each(|id| add(id, false))?;
                scratch.iter().chain([output]).try_for_each(|place| add(place.0, true))?;
            }
            Operation::Tensors { ops, .. } => {
                for call in ops {
                    call.inputs.iter().try_for_each(|place| add(place.0, false))?;
                    call.scratch.iter().chain([&call.output]).try_for_each(|at| add(at.0, true))?;
                }
            }
        }
        Ok(needs)
    }

    /// Returns what commands need and write.
    pub(super) fn needs_of_commands(&self, commands: &[RemoteCommand]) -> Outcome<Needs<D>> {
        let mut needs = Needs::default();
        for command in commands {
            let (used, written) = match command {
                RemoteCommand::Prepared { launches: id, .. }
                | RemoteCommand::Graph { graph: id } => {
                    (vec![self.origin(*id)?], vec![self.origin(*id)?])
                }
                RemoteCommand::Raw { kernel, args, .. } => {
                    let named = args.iter().filter_map(|&word| self.at_address(word));
                    let named: Vec<_> = named.map(|(origin, ..)| origin).collect();
                    let mut used = named.clone();
                    used.push(self.origin(*kernel)?);
                    (used, named)
                }
                RemoteCommand::Copy { from, to, .. } => {
                    (vec![self.origin(*from)?, self.origin(*to)?], vec![self.origin(*to)?])
                }
                RemoteCommand::Fill { buffer, .. } => {
                    (vec![self.origin(*buffer)?], vec![self.origin(*buffer)?])
                }
                RemoteCommand::Record => (Vec::new(), Vec::new()),
            };
            needs.uses.extend(used.into_iter().cloned());
            needs.writes.extend(written.into_iter().cloned());
        }
        Ok(needs)
    }

    /// Notes that a command runs.
    pub(super) fn note_run(&self, command: &RemoteCommand) -> Outcome<()> {
        match command {
            RemoteCommand::Prepared { launches: id, .. } | RemoteCommand::Graph { graph: id } => {
                self.origin(*id)?.note_run();
            }
            other => {
                let needs = self.needs_of_commands(std::slice::from_ref(other))?;
                needs.writes.iter().for_each(|origin| origin.note_run());
            }
        }
        Ok(())
    }

    /// Returns a command with the objects that it names.
    pub(super) fn source(&self, command: &RemoteCommand) -> Outcome<Source<D>> {
        let mut origins = Vec::new();
        match command {
            RemoteCommand::Prepared { launches: id, .. } | RemoteCommand::Graph { graph: id } => {
                origins.push(self.origin(*id)?.clone());
            }
            RemoteCommand::Raw { kernel, args, .. } => {
                origins.push(self.origin(*kernel)?.clone());
                let memory = args.iter().filter_map(|&word| self.at_address(word));
                origins.extend(memory.map(|(origin, ..)| origin.clone()));
            }
            _ => {} // nothing is left of a part of these
        }
        Ok(Source { command: command.clone(), origins })
    }

    /// Returns the command of the device, also if its names mean other objects now.
    pub(super) fn command_of(device: &D, source: &Source<D>) -> Outcome<Command<D>> {
        let Some((first, memory)) = source.origins.split_first() else {
            return Err(Error::invalid("command", "cannot be left in part").into());
        };
        match (&source.command, &first.object) {
            (RemoteCommand::Prepared { index, .. }, Object::Launches { list, .. }) => {
                let launch = list.get(*index as usize).ok_or_else(not_prepared)?;
                Ok(Command::Launch(launch.clone()))
            }
            (RemoteCommand::Graph { .. }, Object::Graph { task, .. }) => match task.commands() {
                [command] => Ok(command.clone()),
                _ => Err(Error::invalid("graph", "must be one command").into()),
            },
            (
                RemoteCommand::Raw { grid, block, args, .. },
                Object::Kernel { kernel, is_checked, .. },
            ) => {
                let find = |address: u64| {
                    let mut memory = memory.iter().filter_map(|origin| origin.memory());
                    memory.find_map(|memory| {
                        let offset = address.checked_sub(memory.address)?;
                        (offset < memory.bytes).then_some((memory, offset))
                    })
                };
                if *is_checked {
                    check_append(*grid, args, find)?;
                }
                Ok(Command::Launch(raw(device, kernel.clone(), [*grid, *block], args, find)?))
            }
            _ => Err(not_prepared()),
        }
    }

    /// Parts of buffers that come back when a command has ended.
    ///
    /// # Errors
    ///
    /// `Protocol` if they are too long, or too many.
    pub(super) fn outputs(&self, sections: &[Section]) -> Outcome<Outputs<D>> {
        if sections.len() > MAX_OUTPUTS {
            let got = sections.len();
            let text = format!("outputs: must be at most {MAX_OUTPUTS}, got {got}");
            return Err(reef_wire::Error::Protocol(text).into());
        }
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

    pub(super) fn storage(&self, place: StorageStart) -> Outcome<Storage<'_, D>> {
        let (id, offset) = place;
        Ok(Storage { buffer: self.buffer(id)?, offset: offset as usize })
    }

    /// Returns the commands that a client's command means: those of a graph, or one.
    pub(super) fn task(&self, device: &D, command: &RemoteCommand) -> Outcome<Task<D>> {
        match command {
            RemoteCommand::Graph { graph } => match &self.graphs.get(Id::from_bits(*graph))?.object
            {
                Object::Graph { task, .. } => Ok(task.clone()),
                _ => Err(Error::invalid("graph", "must have commands").into()),
            },
            other => Ok(Task::new([self.command(device, other)?])?),
        }
    }

    /// Returns the command for the device.
    pub(super) fn command(&self, device: &D, command: &RemoteCommand) -> Outcome<Command<D>> {
        Ok(match command {
            RemoteCommand::Prepared { launches, index } => {
                match &self.launches.get(Id::from_bits(*launches))?.object {
                    Object::Launches { list, .. } => {
                        let launch = list.get(*index as usize).ok_or_else(|| {
                            let text = format!("launch {index}: there are {}", list.len());
                            reef_wire::Error::Protocol(text)
                        })?;
                        Command::Launch(launch.clone())
                    }
                    _ => return Err(not_prepared()),
                }
            }
            RemoteCommand::Raw { kernel, grid, block, args } => {
                match &self.launches.get(Id::from_bits(*kernel))?.object {
                    Object::Kernel { kernel, is_checked, .. } => {
                        let find = |address| {
                            self.at_address(address).map(|(_, memory, offset)| (memory, offset))
                        };
                        if *is_checked {
                            check_append(*grid, args, find)?;
                        }
                        Command::Launch(raw(device, kernel.clone(), [*grid, *block], args, find)?)
                    }
                    _ => return Err(not_prepared()),
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
                return Err(Error::invalid("a graph or a record", "cannot be in a graph").into());
            }
        })
    }

    /// Returns the buffer that the client's address lies in, and the distance from its beginning.
    fn at_address(&self, address: u64) -> Option<Addressed<'_, D>> {
        let (&begin, &id) = self.addresses.range(..=address).next_back()?;
        let origin = self.buffers.get(id).ok()?;
        let memory = origin.memory()?;
        (address - begin < memory.bytes).then_some((origin, memory, address - begin))
    }
}

/// Returns the bytes of the server's machine that an object takes, about.
fn held_len<D: Operators>(object: &Object<D>, needs: &Needs<D>) -> Outcome<u64> {
    let own = match object {
        Object::Launches { list, operation, shapes } => {
            let operation = 4 * codec::write(operation)?.len(); // its fields are words here
            size_of_val(list.as_slice()) + size_of_val(shapes.as_slice()) + operation
        }
        Object::Graph { commands, .. } => {
            let each = size_of::<RemoteCommand>() + size_of::<Command<D>>() + 8 * Args::MAX;
            commands.len() * each
        }
        Object::Kernel { name, .. } => name.len(),
        Object::Buffer(_) | Object::Preemptor { .. } | Object::Lane { .. } => 0,
    };
    let needed = (needs.uses.len() + needs.writes.len()) * size_of::<Arc<Origin<D>>>();
    Ok(OBJECT_LEN + (own + needed) as u64)
}

/// A kernel with the client's arguments. Words that are addresses of the client become those of the
/// device, and the launch keeps the buffers.
fn raw<'a, D: Operators>(
    device: &D,
    kernel: D::Kernel,
    sizes: [Dim3; 2],
    args: &[u64],
    find: impl Fn(u64) -> Option<(&'a Memory<D>, u64)>,
) -> Outcome<Launch<D>> {
    let [grid, block] = sizes;
    let blocks: u128 = grid.iter().map(|&n| u128::from(n)).product();
    if args.len() > Args::MAX || blocks > u128::from(u32::MAX) {
        let (words, most) = (args.len(), Args::MAX);
        return Err(Error::invalid(
            "launch",
            format!(
                "must have at most {} blocks and {most} words, got {blocks} and {words}",
                u32::MAX
            ),
        )
        .into());
    }
    let mut kept = Vec::new();
    let words: Vec<u64> = args
        .iter()
        .map(|&word| match find(word) {
            Some((memory, offset)) => {
                kept.push(memory.buffer.clone());
                device.address(&memory.buffer) + offset
            }
            None => word,
        })
        .collect();
    // SAFETY: `Host::start_raw` alone makes hosts that find kernels by name, and its `# Safety`
    // demands that all clients keep to the obligations of a launch. Else it is `append` with a cell
    // for each block. The buffers that it names are kept.
    #[allow(unsafe_code)]
    let launch = unsafe { Launch::new(kernel, grid, block, Args::new(&words)) };
    Ok(launch.keep(kept))
}

/// Checks that there is a cell for each block of `append`, as `Device::kernel` wants.
fn check_append<'a, D: Operators>(
    grid: Dim3,
    args: &[u64],
    find: impl Fn(u64) -> Option<(&'a Memory<D>, u64)>,
) -> Outcome<()> {
    let cells = grid.iter().try_fold(1_u64, |cells, &n| cells.checked_mul(n.into()));
    let room = match args {
        &[address, _, _] if address % 8 == 0 => find(address),
        _ => None,
    };
    let room = room.map_or(0, |(memory, offset)| (memory.bytes - offset) / 8);
    if cells.is_some_and(|cells| cells <= room) {
        return Ok(());
    }
    Err(Error::invalid(
        "append",
        format!("must have a cell for each of {grid:?} blocks, got {room}"),
    )
    .into())
}

fn not_prepared() -> Fault {
    let what = "a launch of another sort of kernel".into();
    Error::Unsupported { backend: NAME, what }.into()
}
