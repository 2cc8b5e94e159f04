//! Driver functions that are recorded. Versions of a function and its variants for per-thread
//! streams count as one.

/// Function, or several that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// Initialization of the driver.
    Init,
    /// Look-up of a function by its name.
    LookUp,
    /// Allocation of device memory, also managed, pitched, in a stream or from a pool.
    Alloc,
    /// End of an allocation.
    Free,
    /// Synchronous copy from the host to the device.
    CopyIn,
    /// Copy from the host to the device in a stream.
    CopyInAsync,
    /// Copy from the device to the host, synchronous or in a stream.
    CopyOut,
    /// Copy within the device, or between unified addresses.
    Copy,
    /// Launch of a kernel.
    Launch,
    /// Launch of a graph.
    GraphLaunch,
    /// Wait for a stream.
    StreamSync,
    /// Wait for a context.
    ContextSync,
}

impl Api {
    /// All functions.
    pub const ALL: [Self; 12] = [
        Self::Init,
        Self::LookUp,
        Self::Alloc,
        Self::Free,
        Self::CopyIn,
        Self::CopyInAsync,
        Self::CopyOut,
        Self::Copy,
        Self::Launch,
        Self::GraphLaunch,
        Self::StreamSync,
        Self::ContextSync,
    ];

    /// Returns the driver's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "cuInit",
            Self::LookUp => "cuGetProcAddress",
            Self::Alloc => "cuMemAlloc",
            Self::Free => "cuMemFree",
            Self::CopyIn => "cuMemcpyHtoD",
            Self::CopyInAsync => "cuMemcpyHtoDAsync",
            Self::CopyOut => "cuMemcpyDtoH",
            Self::Copy => "cuMemcpy",
            Self::Launch => "cuLaunchKernel",
            Self::GraphLaunch => "cuGraphLaunch",
            Self::StreamSync => "cuStreamSynchronize",
            Self::ContextSync => "cuCtxSynchronize",
        }
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }
}

/// Set of functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u32);

impl Set {
    /// Returns the set of a list.
    pub fn of(list: &[Api]) -> Self {
        Self(list.iter().fold(0, |set, api| set | 1 << *api as u32))
    }

    /// Returns the union of both sets.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the set has a function.
    pub fn has(self, api: Api) -> bool {
        self.0 & 1 << api as u32 != 0
    }
}
