//! The schedule graph: storages, and steps in launch order.
//!
//! One type serves REEF's published files, whose steps are compiled kernels, and the networks built
//! here, whose steps are operations. Each step writes exactly one storage and says which ones it
//! reads, so that liveness, hazards and restart safety follow from the graph alone.

use reef_core::Dim3;
use reef_op::Op;

/// Type of a storage's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 32-bit float.
    Float32,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// 8-bit integer.
    Byte,
    /// A truth value, in a byte of its own.
    Uint1,
}

impl ElementType {
    /// The type that REEF's files call `name`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "float32" => Self::Float32,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "byte" => Self::Byte,
            "uint1" => Self::Uint1,
            _ => return None,
        })
    }

    /// Its name in those files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Byte => "byte",
            Self::Uint1 => "uint1",
        }
    }

    /// Size of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Float32 | Self::Int32 => 4,
            Self::Int64 => 8,
            Self::Byte | Self::Uint1 => 1,
        }
    }
}

/// A piece of memory that steps read and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// `data`, `output`, a parameter's name, or in REEF's files `null` for any intermediate.
    pub name: String,
    /// Number of elements.
    pub elements: usize,
    /// Of which type.
    pub element: ElementType,
}

impl Storage {
    /// A storage of 32-bit floats.
    pub fn floats(name: impl Into<String>, elements: usize) -> Self {
        Self { name: name.into(), elements, element: ElementType::Float32 }
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.elements * self.element.bytes()
    }
}

/// Work of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Launches a device symbol, the step's name.
    Kernel(KernelCall),
    /// Computes an operation, for which a device has kernels of its own.
    Op(Op),
}

/// Geometry and arguments of a compiled kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCall {
    /// Blocks in x, y, z.
    pub grid: Dim3,
    /// Threads of a block in x, y, z.
    pub block: Dim3,
    /// Storages in the order of the kernel's parameters, all of them pointers.
    pub args: Vec<usize>,
}

/// One launch of the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The device symbol, which may repeat, or the layer's name, which doesn't.
    pub name: String,
    /// Its launch or operation.
    pub work: Work,
    /// Storages it reads: for an operation the input, then the residual.
    pub reads: Vec<usize>,
    /// The one storage it writes. Concatenated tensors are written by several steps.
    pub writes: usize,
}

impl Step {
    /// All storages that it touches.
    pub fn touches(&self) -> impl Iterator<Item = usize> + '_ {
        self.reads.iter().copied().chain([self.writes])
    }
}

/// Storages, and steps in launch order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleGraph {
    /// Name for messages.
    pub name: String,
    /// All memory.
    pub storages: Vec<Storage>,
    /// All launches, in order.
    pub steps: Vec<Step>,
    /// Storages that are filled from outside and never written: inputs and parameters.
    pub given: Vec<usize>,
}

impl ScheduleGraph {
    /// Index of the first storage called `name`.
    pub fn storage(&self, name: &str) -> Option<usize> {
        self.storages.iter().position(|storage| storage.name == name)
    }

    /// Names of all kernels, each once, sorted.
    pub fn kernels(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Memory of all storages together.
    pub fn bytes(&self) -> usize {
        self.storages.iter().map(Storage::bytes).sum()
    }
}
