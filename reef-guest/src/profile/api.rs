//! The driver's functions that are recorded. Versions of a function and twins for per-thread
//! streams are one.

/// A function, or several that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// The driver's beginning.
    Init,
    /// A look-up of a function by its name.
    LookUp,
    /// Allocations of device memory, also managed, pitched, in streams and from pools.
    Alloc,
    /// Their ends.
    Free,
    /// From the host to the device, waited for.
    CopyIn,
    /// The same in a stream.
    CopyInAsync,
    /// From the device to the host, waited for or in a stream.
    CopyOut,
    /// Within the device, or from addresses that say themselves where they are.
    Copy,
    /// Kernels.
    Launch,
    /// Graphs.
    GraphLaunch,
    /// Waits for a stream.
    StreamSync,
    /// Waits for a context.
    ContextSync,
}

impl Api {
    /// All of them.
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

    /// The driver's name.
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

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u32);

impl Set {
    /// Those of a list.
    pub fn of(list: &[Api]) -> Self {
        Self(list.iter().fold(0, |set, api| set | 1 << *api as u32))
    }

    /// All of both.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one is among them.
    pub fn has(self, api: Api) -> bool {
        self.0 & 1 << api as u32 != 0
    }
}
