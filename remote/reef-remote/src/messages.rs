//! Messages between a client and its server.
//!
//! Ids are made up by the client; their tags are constants below. Lanes are its hardware queues. A
//! message without reply that fails is answered by `Failed`, for its lane or, with lane 0, for
//! the session.

use crate::error::RemoteError;
use reef_op::tensor::TensorOp;
use reef_op::{Format, Op};
use reef_wire::little_endian::U64;
use reef_wire::messages;
use serde::{Deserialize, Serialize};

/// Tag of buffers.
pub const BUFFER: u8 = 1;
/// Tag of lists of launches, and of kernels by name.
pub const LAUNCHES: u8 = 2;
/// Tag of graphs.
pub const GRAPH: u8 = 3;
/// Tag of records of the blocks that a launch has left.
pub const CHECKPOINT: u8 = 4;
/// Tag of preemptors.
pub const PREEMPTOR: u8 = 5;

/// Step of `Stop`.
pub const EVICT: u64 = 1;
/// Step of `Stop`.
pub const RESET: u64 = 2;
/// Step of `Stop`.
pub const REACTIVATE: u64 = 3;

/// Maximum number of bytes of outputs that come back with the end of a command. Longer ones are
/// read when the client asks.
pub const MAX_OUTPUTS_LEN: usize = 256 << 10;

/// Maximum number of these outputs. Those of a command with more are read when the client asks.
pub const MAX_OUTPUTS: usize = 256;

/// Maximum number of bytes that one message carries of a longer copy.
pub const MAX_PIECE_LEN: usize = 16 << 20;

messages! {
    /// Hash of the declarations.
    pub(crate) DECLARED;
    /// Allocates memory. Waits for a reply.
    cold 16 Alloc { id: u64, address: u64, bytes: u64, is_host: bool }
    /// Releases an object of any sort. What runs keeps it.
    hot 17 Free { id: U64 }
    /// Writes the bytes that follow into a buffer.
    hot 18 Write { buffer: U64, offset: U64 }
    /// Reads bytes of a buffer. The reply is the bytes.
    hot 19 Read { buffer: U64, offset: U64, bytes: U64 }
    /// Loads a kernel by name. Waits for a reply.
    cold 20 NamedKernel { id: u64, name: String }
    /// Makes a graph. Waits for a reply.
    cold 21 MakeGraph { id: u64, commands: Vec<RemoteCommand> }
    /// Opens a lane, which the preemptor stops if there is one. Waits for a reply.
    cold 22 OpenLane { is_real_time: bool, preemptor: Option<u64> }
    /// Closes a lane. The reply comes when all of its commands have ended.
    cold 23 CloseLane { lane: u32 }
    /// Runs a command on a lane, or the blocks that a checkpoint has left of it. Marks: the client
    /// wants the times of its beginning and of its end. The bytes of `inputs` follow, which are
    /// written to host memory first. Those of `outputs` come back when it has ended.
    cold 24 Run {
        seq: u64,
        command: RemoteCommand,
        resume: Option<u64>,
        marks: [bool; 2],
        inputs: Vec<Section>,
        outputs: Vec<Section>,
    }
    /// Asks the device. The reply is the answer.
    cold 25 Ask { question: Question }
    /// Bytes of constants, for the message that packs them.
    hot 26 Stage { total: U64 }
    /// Packs the staged weights and bias. The reply has the size of the buffer.
    cold 27 Pack { id: u64, address: u64, op: Op, weights: u64 }
    /// Packs the staged values of an input. Waits for a reply.
    cold 28 PackInput { id: u64, address: u64, packed: PackedSpec }
    /// Prepares the launches of an operation. The reply is their [`Shape`]s.
    cold 29 Prepare { id: u64, operation: Operation }
    /// Asks for the device's time. The reply is nanoseconds.
    cold 30 AskClock {}
    /// Of the server: all commands of a lane before `done` have ended. If the last of them has
    /// marks, it began and ended at these times of the device, in nanoseconds. If it has a
    /// checkpoint, of itself or of what padded it, `left` blocks are left there. The bytes of its
    /// outputs follow.
    hot 31 Advance { done: U64, began: U64, ended: U64, left: U64 }
    /// Of the server: the lane, or with lane 0 the session, has failed.
    cold 32 Failed { error: RemoteError }
    /// Gives a lane up with all that runs. No reply.
    cold 33 AbandonLane {}
    /// Runs a launch of a lane with blocks of another next to it, as `Padding` says.
    cold 34 RunPadded {
        seq: u64,
        command: RemoteCommand,
        padding: [u32; 3],
        other: RemoteCommand,
        checkpoint: u64,
    }
    /// Makes a record of a launch, of which all blocks are left.
    cold 35 MakeCheckpoint { id: u64, command: RemoteCommand }
    /// Asks which blocks are left. The reply is [`BlocksLeft`].
    cold 36 ReadCheckpoint { id: u64 }
    /// Makes a record of a command, of which these blocks are left. Waits for a reply.
    cold 37 WriteCheckpoint { id: u64, command: RemoteCommand, blocks: BlocksLeft }
    /// Makes a preemptor. The reply is a pair of flags: it needs room, it calls the driver.
    cold 38 MakePreemptor { id: u64, level: u8 }
    /// Evicts, resets or reactivates.
    hot 39 Stop { preemptor: U64, step: U64 }
    /// Takes back what a stopped lane has. `Drained` follows when it has stopped, unless another
    /// command of the lane comes first. If a command was stopped midway, its blocks are recorded
    /// under the id.
    hot 40 Drain { ticket: U64, checkpoint: U64 }
    /// Of the server: answer to `Drain`. With a record, `left` is one more than its blocks.
    hot 41 Returned { ticket: U64, resume_at: U64, left: U64, is_held: U64 }
    /// Lets what a held lane keeps on the device run to its end.
    cold 42 ReleaseHeld {}
    /// Upper bound of a lane's blocks at a time, 0 for all.
    hot 43 CapBlocks { blocks: U64 }
    /// Starts or ends the notes of what runs on each unit.
    cold 44 SetTrace { on: bool }
    /// Takes these notes. The reply is a list of [`Traced`].
    cold 45 TakeTrace {}
    /// Commands of the lane may end without a word until all before `seq` have. Before the first
    /// such message, after that position and after a drain the end of each command is told.
    hot 46 WakeAt { seq: U64 }
    /// Asks the device all of these. The reply has the answers of [`Ask`], in order.
    cold 47 AskEach { questions: Vec<Question> }
    /// Prepares the launches of all of these under their ids, or of none. The reply is a list of
    /// the replies to [`Prepare`], or the number and the error of the first that has one.
    cold 48 PrepareEach { each: Vec<(u64, Operation)> }
    /// Of another server: objects of the session, in the order in which they were made.
    cold 49 MigrateEvents { events: Vec<Event> }
    /// Of another server: bytes of the buffer that was made at this place of the order, which
    /// follow.
    hot 50 MigrateBytes { order: U64, offset: U64 }
    /// Of another server: zeros in that buffer.
    hot 51 MigrateClear { order: U64, offset: U64, bytes: U64 }
    /// Of another server: the next piece of the session's state, which follows.
    hot 52 MigrateState { reserved: U64 }
    /// Of another server: the reply comes when all before has been made.
    cold 53 MigrateCheck {}
    /// Of another server: the session is made of its state. The reply comes when it could run.
    cold 54 MigratePrepare {}
    /// Of another server: the session runs here from now on. Its client's clock had this time when
    /// the calendar had that one, at most so long ago, in nanoseconds.
    cold 55 MigrateCommit { clock: u64, calendar: u64, within: u64 }
    /// Of the server: all padding of commands of a lane before `seq` has ended.
    hot 56 PaddingEnded { seq: U64 }
}

/// One command of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the commands of reef-core")]
pub enum RemoteCommand {
    /// One of a list of prepared launches.
    Prepared {
        launches: u64,
        index: u32,
    },
    /// A kernel by name with raw arguments: addresses of buffers, and other words.
    Raw {
        kernel: u64,
        grid: [u32; 3],
        block: [u32; 3],
        args: Vec<u64>,
    },
    Graph {
        graph: u64,
    },
    Copy {
        from: u64,
        from_offset: u64,
        to: u64,
        to_offset: u64,
        bytes: u64,
        to_host: bool,
    },
    Fill {
        buffer: u64,
        offset: u64,
        bytes: u64,
        word: u32,
    },
    /// Notes the time at which all earlier commands have ended.
    Record,
}

/// A part of a buffer: its name, the first byte, the number of bytes.
pub type Section = (u64, u64, u64);

/// A storage: a buffer and the first byte in it.
pub type StorageStart = (u64, u64);

/// Operation whose launches are prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the operands of reef-op")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Operation {
    Image {
        op: Op,
        input: StorageStart,
        residual: Option<StorageStart>,
        output: StorageStart,
        constants: Option<u64>,
        scratch: Option<StorageStart>,
        rounded: [bool; 2],
    },
    /// One operation on tensors, or several that run as one.
    Tensors { ops: Vec<TensorCall>, is_group: bool },
}

/// An operation on tensors with its operands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the operands of reef-op")]
pub struct TensorCall {
    pub op: TensorOp,
    pub inputs: Vec<StorageStart>,
    pub output: StorageStart,
    pub packed: bool,
    pub scratch: Option<StorageStart>,
}

/// Grid and block of a prepared launch, and what a block takes: threads, registers, shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub resources: [u32; 3],
}

/// Blocks of a command that are left, as [`Blocks`](reef_core::Blocks).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as `Blocks`")]
pub struct BlocksLeft {
    pub total: u32,
    pub node: u64,
    pub left: Vec<(u32, u32)>,
}

/// One block on one unit, as [`Span`](reef_core::Span). Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as `Span`")]
pub struct Traced {
    pub name: String,
    pub unit: u32,
    pub queue: u64,
    pub is_real_time: bool,
    pub padding: bool,
    pub seq: u64,
    pub block: u32,
    pub times: [u64; 2],
    pub stopped: bool,
}

/// Question about an operation. Answers depend on nothing else, so a client asks once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// A pair of numbers: zeroed bytes, all bytes.
    Scratch(Op, [bool; 2]),
    /// Three flags.
    Rounding(Op),
    /// Three flags.
    Quantization(Op, Format),
    /// A pair of numbers.
    TensorScratch(TensorOp),
    /// A number.
    Grouped(Vec<TensorOp>),
    /// A [`PackedSpec`], or none.
    PackedInput(TensorOp),
    /// A flag.
    HasJoined(TensorOp),
    /// A flag.
    RoundsToHalves(TensorOp, u64),
    /// A flag.
    TakesHalves(TensorOp),
}

/// [`PackedInput`](reef_op::PackedInput) as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as `PackedInput`")]
pub struct PackedSpec {
    pub input: u64,
    pub elements: u64,
    pub outputs: [u64; 2],
    pub terms: [u64; 2],
    pub bytes: u64,
}

/// Facts about a server's device, which a client gets when its session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as `DeviceInfo`")]
pub struct Facts {
    pub name: String,
    pub units: u32,
    pub blocks_per_unit: u32,
    pub threads_per_unit: u32,
    pub registers_per_unit: u32,
    pub shared_per_unit: u32,
    pub padded_micros: u32,
    pub memory: Option<u64>,
    pub uuid: Option<[u8; 16]>,
    pub features: Vec<String>,
    /// Deepest level at which the client may preempt.
    pub level: u8,
    /// The device is the session's own.
    pub is_own: bool,
    pub has_trace: bool,
    pub colocation: ColocationKind,
}

/// Way in which a device runs best-effort blocks next to real-time work, as
/// [`Colocation`](reef_core::Colocation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as `Colocation`")]
pub enum ColocationKind {
    Padded,
    Capped { short: u32, long: u32 },
    Never,
}

/// Request for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The device, as the server names it: `cpu:0`, `cuda:0`.
    pub device: String,
    /// Another server brings a session.
    pub is_migrated: bool,
}

/// An object that a session has made or released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Place in the order of such events.
    pub order: u64,
    /// Its name; a lane's number.
    pub id: u64,
    /// Change of the object.
    pub what: Change,
}

/// Way in which an object was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as the messages that make them")]
#[expect(clippy::large_enum_variant, reason = "most are launches")]
pub enum Change {
    /// Memory: bytes for the client, and on the device.
    Buffer { address: u64, bytes: u64, len: u64, is_host: bool },
    /// Launches, which must have these shapes again.
    Launches { operation: Operation, shapes: Vec<Shape> },
    /// A kernel by name.
    Kernel { name: String },
    /// A graph.
    Graph { commands: Vec<RemoteCommand> },
    /// A preemptor, which must have these facts again.
    Preemptor { level: u8, facts: [bool; 2] },
    /// A lane.
    Lane { is_real_time: bool, preemptor: Option<u64> },
    /// The name was released, or the lane closed.
    Released,
}
