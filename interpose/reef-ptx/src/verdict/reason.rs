//! Reasons of verdicts.

use crate::text::module::SourceLine;
use std::fmt::{self, Display};

/// Memory of a kernel, as reports name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelMemory {
    /// Pointer in a parameter: its position from 0, and the bytes into it.
    Parameter(usize, u64),
    /// Variable of the module.
    Variable(String),
}

impl Display for KernelMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(at, 0) => write!(f, "parameter {at}"),
            Self::Parameter(at, offset) => write!(f, "parameter {at} + {offset}"),
            Self::Variable(name) => write!(f, "variable {name}"),
        }
    }
}

/// Property of a kernel that decides a verdict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// A loop waits for other blocks.
    Waits,
    /// Blocks of a cluster work together.
    Cluster,
    /// Memory of several devices is used by `multimem`.
    Multimem,
    /// `%envreg` is read, which a launch of ours would not have.
    Environment,
    /// Blocks take over work of others by `clusterlaunchcontrol`.
    WorkStealing,
    /// A function is called whose code is not in the text.
    Calls(String),
    /// A function is called by its address.
    CallsByAddress,
    /// A variable of the module is used that the program may have changed.
    ModuleVariable(String),
    /// The parameters, in bytes, leave no room for the variant's own.
    LongParameters(u64),
    /// A name begins as the variant's own names do.
    Reserved,
    /// A branch leads to a label that is not there, or the kernel has no body.
    Unreadable,
    /// A function that is called reads the index of the block.
    IndexInFunction(String),
    /// The index of the block is read in a form that cannot be replaced.
    IndexForm,
    /// The number of the launch is read, of which slices have one each.
    GridNumber,
    /// There is no loop in which a block could leave.
    NoLoop,
    /// Each loop comes after an effect or has one.
    EffectFirst,
    /// Loops have no barrier at which all threads of a block could leave.
    NoBarrier,
    /// Threads of a block may pass a barrier or a loop at different times, or end before it.
    Parted,
    /// An instruction starts work that goes on when its block leaves.
    InFlight(String),
    /// An atomic operation changes memory that other blocks see.
    Atomic,
    /// A volatile, relaxed or acquiring access.
    Strong,
    /// A clock or the number of a multiprocessor is read.
    Clock,
    /// A store through an address whose origin is not known.
    LostStore,
    /// A load through an address whose origin is not known, next to stores.
    LostLoad,
    /// Memory is both read and written.
    SameMemory(KernelMemory),
    /// An instruction that is not known names memory.
    UnknownInstruction(String),
    /// Functions are called.
    CallsFunction(String),
}

impl Cause {
    /// Short name for tables and JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Cluster => "cluster",
            Self::Multimem => "multimem",
            Self::Environment => "envreg",
            Self::WorkStealing => "work stealing",
            Self::Calls(_) => "unknown function",
            Self::CallsByAddress => "call by address",
            Self::ModuleVariable(_) => "module variable",
            Self::LongParameters(_) => "long parameters",
            Self::Reserved => "reserved name",
            Self::Unreadable => "unreadable",
            Self::IndexInFunction(_) => "index in function",
            Self::IndexForm => "index form",
            Self::GridNumber => "grid number",
            Self::NoLoop => "no loop",
            Self::EffectFirst => "effect first",
            Self::NoBarrier => "no barrier",
            Self::Parted => "parted threads",
            Self::InFlight(_) => "in flight",
            Self::Atomic => "atomic",
            Self::Strong => "strong access",
            Self::Clock => "clock",
            Self::LostStore => "lost store",
            Self::LostLoad => "lost load",
            Self::SameMemory(_) => "same memory",
            Self::UnknownInstruction(_) => "unknown instruction",
            Self::CallsFunction(_) => "call",
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits => f.write_str("a loop waits for other blocks"),
            Self::Cluster => f.write_str("its blocks form clusters"),
            Self::Multimem => f.write_str("it uses memory of several devices"),
            Self::Environment => f.write_str("it reads %envreg"),
            Self::WorkStealing => f.write_str("its blocks take over work of others"),
            Self::Calls(name) => write!(f, "it calls {name}, whose code is not in the text"),
            Self::CallsByAddress => f.write_str("it calls a function by its address"),
            Self::ModuleVariable(name) => write!(f, "it uses variable {name} of its module"),
            Self::LongParameters(bytes) => write!(f, "its parameters have {bytes} bytes"),
            Self::Reserved => f.write_str("it has names that begin with %reef or $reef"),
            Self::Unreadable => f.write_str("its branches cannot be followed"),
            Self::IndexInFunction(name) => {
                write!(f, "function {name} reads the index of the block")
            }
            Self::IndexForm => f.write_str("it reads the index of the block as a vector"),
            Self::GridNumber => f.write_str("it reads the number of its launch"),
            Self::NoLoop => f.write_str("it has no loop"),
            Self::EffectFirst => f.write_str("an effect comes before or in each loop"),
            Self::NoBarrier => f.write_str("its loops have no barrier for the whole block"),
            Self::Parted => {
                f.write_str("threads of a block may pass a loop at different times, or end before")
            }
            Self::InFlight(name) => write!(f, "work of {name} goes on when its block leaves"),
            Self::Atomic => f.write_str("an atomic operation changes memory"),
            Self::Strong => f.write_str("memory is accessed that others change meanwhile"),
            Self::Clock => f.write_str("it reads a clock or the number of a multiprocessor"),
            Self::LostStore => f.write_str("a store through an address of unknown origin"),
            Self::LostLoad => f.write_str("a load through an address of unknown origin"),
            Self::SameMemory(place) => write!(f, "memory of {place} is read and written"),
            Self::UnknownInstruction(name) => write!(f, "instruction {name} is not known"),
            Self::CallsFunction(name) => write!(f, "it calls {name}"),
        }
    }
}

/// Cause with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Property of the kernel.
    pub cause: Cause,
    /// Line of the PTX text, from 1.
    pub line: Option<usize>,
    /// Line of the source, if the text has `.loc`.
    pub source: Option<SourceLine>,
}

impl Reason {
    pub(crate) fn new(cause: Cause) -> Self {
        Self { cause, line: None, source: None }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        match (&self.source, self.line) {
            (Some(source), _) => write!(f, " ({}:{})", source.file, source.line),
            (None, Some(line)) => write!(f, " (line {line} of the PTX)"),
            (None, None) => Ok(()),
        }
    }
}
