//! Facts that a vendor tells of its devices and functions.

/// Features and sizes of a device; fixed while it is open.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Name for people.
    pub name: String,
    /// Identifier that is the same in every process, from the driver.
    pub uuid: Option<[u8; 16]>,
    /// Bytes of device memory; `None`: the driver doesn't say.
    pub memory: Option<u64>,
    /// Streaming multiprocessors, or compute units.
    pub units: u32,
    /// Units that best-effort streams run on.
    pub be_units: u32,
    /// Maximum of best-effort blocks for each unit that a padded kernel leaves free. With more, the
    /// device may put some next to real-time blocks.
    pub padding_per_unit: u32,
    /// Maximum of blocks resident on one unit.
    pub blocks_per_unit: u32,
    /// Maximum of threads resident on one unit.
    pub threads_per_unit: u32,
    /// Registers of one unit, in 32-bit words.
    pub registers_per_unit: u32,
    /// Shared memory of one unit, in bytes.
    pub shared_per_unit: u32,
    /// Maximum of dynamic shared memory that one block can ask for, in bytes.
    pub shared_per_block: u32,
    /// Threads that execute one instruction together: 32 or 64.
    pub wave: u32,
    /// kernels/network.cu has products of tiles in tensor cores for it.
    pub tensor_cores: bool,
    /// Streams can set words by themselves ([`Reset::write_value`](crate::Reset::write_value)).
    pub writes_values: bool,
    /// And by no kernel, so that the word is set whatever fills the device.
    pub writes_without_kernels: bool,
    /// Streams can wait for words by themselves
    /// ([`Streams::wait_value`](crate::Streams::wait_value)).
    pub waits_values: bool,
    /// Rate of the clock that `stamp` of kernels/builtin.cu notes.
    pub tick_rate: TickRate,
    /// Several launches can be taken at once
    /// ([`Graphs::begin_capture`](crate::Graphs::begin_capture)).
    pub graphs: bool,
    /// A launch can start while the one before it runs ([`Start::Early`](crate::Start::Early)).
    pub starts_early: bool,
    /// Graphs can run on a part of the units
    /// ([`Streams::open_part_stream`](crate::Streams::open_part_stream)).
    pub parts: bool,
    /// Other features that it has or lacks, for people to read.
    pub features: Vec<String>,
}

/// Rate of a device's clock, in ticks a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickRate {
    /// The driver says so.
    Known(u64),
    /// One of these rates, found by measuring when the device is opened.
    OneOf(&'static [u64]),
}

/// Facts that the driver tells of a loaded function.
#[derive(Debug, Clone)]
pub struct FunctionFacts {
    /// 32-bit registers of one thread.
    pub registers: u32,
    /// Bytes of shared memory that a block has without asking.
    pub shared: u32,
    /// Bytes of each parameter; `None`: this driver can't tell.
    pub parameters: Option<Vec<usize>>,
}

/// A word of the host's memory that streams wait for.
#[derive(Debug, Clone, Copy)]
pub struct GateSignal {
    /// Address for the host.
    pub host: *mut u32,
    /// Address for the device.
    pub device: u64,
}
