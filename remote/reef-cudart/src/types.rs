//! Values that the runtime's functions pass, laid out as in `driver_types.h`.

/// `dim3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

impl Dim3 {
    pub(crate) fn sides(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// A stream. Zero is the default one: the legacy stream, or the thread's own for functions whose
/// names end with `_ptsz` and `_ptds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Stream(pub(crate) usize);

impl Stream {
    /// `cudaStreamPerThread`.
    pub(crate) const PER_THREAD: Self = Self(2);
    /// The default stream of functions without an ending.
    pub(crate) const DEFAULT: Self = Self(0);
}

/// Argument of a function with a variant for per-thread default streams.
pub(crate) trait Argument: Sized {
    /// Returns the argument that the function without ending takes.
    fn of_ptsz(self) -> Self {
        self
    }
}

impl Argument for Stream {
    fn of_ptsz(self) -> Self {
        if self == Self::DEFAULT { Self::PER_THREAD } else { self }
    }
}

impl Argument for u32 {}
impl Argument for i32 {}
impl Argument for u64 {}
impl Argument for usize {}
impl Argument for Dim3 {}
impl Argument for Extent {}
impl Argument for Pitched {}
impl Argument for Location {}
impl<T> Argument for *const T {}
impl<T> Argument for *mut T {}

/// `cudaExtent`: elements of an array or bytes, rows, slices.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `cudaPos`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Position {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
}

/// `cudaPitchedPtr`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Pitched {
    pub(crate) at: usize,
    pub(crate) pitch: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `cudaMemLocation`: kind of place, and its number.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Location {
    pub(crate) kind: u32,
    pub(crate) id: i32,
}
