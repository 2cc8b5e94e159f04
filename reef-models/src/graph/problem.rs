//! Faults of a graph, with their places in its JSON form.

use reef_core::Dim3;

/// A place in the JSON form, and its fault.
pub(crate) type Fault = (String, Problem);

/// Fault of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// No storages or no kernels.
    #[error("is empty")]
    Empty,
    /// A storage of no elements, or of more bytes than memory has addresses.
    #[error("size {0} is out of range")]
    Size(usize),
    /// An unknown element type.
    #[error("unknown element type \"{0}\"")]
    ElementType(String),
    /// Two storages of one name that isn't one of those that may repeat.
    #[error("storage name \"{0}\" is taken")]
    NameTaken(String),
    /// Not three grid and three block sizes.
    #[error("{0} numbers, want 6")]
    LaunchParams(usize),
    /// A grid or block size of 0, or more blocks or threads than 32 bits count.
    #[error("geometry {grid:?} x {block:?} is out of range")]
    Geometry {
        /// Blocks.
        grid: Dim3,
        /// Threads.
        block: Dim3,
    },
    /// One kernel launched with two geometries.
    #[error("geometry {grid:?} x {block:?} differs from that of an earlier launch of \"{kernel}\"")]
    GeometryDiffers {
        /// The kernel.
        kernel: String,
        /// Blocks of this launch.
        grid: Dim3,
        /// Threads of this launch.
        block: Dim3,
    },
    /// One kernel launched with two numbers of arguments.
    #[error("{given} arguments, an earlier launch of \"{kernel}\" has {before}")]
    ArgsDiffer {
        /// The kernel.
        kernel: String,
        /// Arguments of this launch.
        given: usize,
        /// Arguments of the earlier one.
        before: usize,
    },
    /// The argument that this kind of kernel writes isn't there.
    #[error("{given} arguments, but this kind of kernel writes number {written}")]
    TooFewArgs {
        /// Arguments given.
        given: usize,
        /// Position of the written one, from 0.
        written: usize,
    },
    /// An index beyond the storages.
    #[error("storage {index} of {storages}")]
    StorageIndex {
        /// The index.
        index: usize,
        /// Number of storages.
        storages: usize,
    },
    /// The written storage is listed as one that is read, too.
    #[error("storage {0} is written by this launch and listed twice")]
    WrittenTwice(usize),
    /// A storage that is given from outside is written.
    #[error("storage {0} is given from outside but written here")]
    GivenWritten(usize),
    /// A storage is given twice.
    #[error("storage {0} is listed twice")]
    GivenTwice(usize),
    /// A storage is given that no step reads.
    #[error("storage {0} is given but never read")]
    NeverRead(usize),
    /// A storage is read that nothing has written.
    #[error("storage {0} is read before it is written")]
    ReadBeforeWritten(usize),
    /// There is no storage called `output`.
    #[error("no storage is called \"output\"")]
    NoOutput,
    /// The last step writes something else than `output`.
    #[error("the last launch writes storage {writes}, not \"output\" ({output})")]
    LastWrites {
        /// Storage that it writes.
        writes: usize,
        /// Storage that it must write.
        output: usize,
    },
    /// A kernel that has both a geometry and an operation, or none of them.
    #[error("a kernel has either \"launch_params\" or \"op\"")]
    Work,
    /// A compiled kernel in a network.
    #[error("is missing: networks are made of operations")]
    NoOp,
    /// Constants that an operation can't take, or none where it wants some.
    #[error("are of another kind of operation")]
    Constants,
    /// A normalisation whose epsilon would make a root of less than the variance, or none at all.
    #[error("epsilon must be a finite number of at least 0, got {0}")]
    Epsilon(String),
    /// Another number of inputs than one.
    #[error("must have 1 input, got {0}")]
    Inputs(usize),
    /// An operation whose shapes contradict each other or its storages.
    #[error("{0}")]
    Op(String),
    /// A kernel that `shared_memory` doesn't name.
    #[error("kernel \"{0}\" is missing")]
    NoSharedMemory(String),
    /// A name in `shared_memory` that no kernel has.
    #[error("no kernel is called \"{0}\"")]
    SharedMemoryOfNone(String),
}
