//! Copies of boxes. Those without arrays are copies of rows, slice by slice, which more drivers
//! have.

use super::copies::{Kind, queue_rows};
use crate::calls::export::{by_default, ptsz};
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::enter;
use crate::types::{Extent, Pitched, Position, Stream};
use reef_cuda_abi::layouts::{Memcpy3D, Memcpy3DSide};
use reef_cuda_abi::memory_types::{ARRAY, DEVICE, HOST};

by_default! {
    cudaMemcpy3D / cudaMemcpy3D_ptds(params: *const Params) = copy;
}

ptsz! {
    cudaMemcpy3DAsync / cudaMemcpy3DAsync_ptsz(params: *const Params, stream: Stream) = queue;
}

/// `cudaMemcpy3DParms`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Params {
    from_array: usize,
    from_corner: Position,
    from: Pitched,
    to_array: usize,
    to_corner: Position,
    to: Pitched,
    extent: Extent,
    kind: u32,
}

// As the headers of both releases have it (tests/programs/layouts.c).
const _: () = assert!(size_of::<Params>() == 160);
const _: () = assert!(std::mem::offset_of!(Params, to_array) == 64);
const _: () = assert!(std::mem::offset_of!(Params, kind) == 152);

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub(super) struct ArrayDescriptor {
    pub(super) size: [usize; 3],
    pub(super) format: u32,
    pub(super) channels: u32,
    pub(super) flags: u32,
}

impl ArrayDescriptor {
    pub(super) fn of(driver: &Driver, array: usize) -> Result<Self, u32> {
        let mut found = Self::default();
        // SAFETY: a place of this size.
        unsafe { driver.cuArray3DGetDescriptor_v2((&raw mut found).cast(), array) }?;
        Ok(found)
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> usize {
        let channel = match self.format {
            0x01 | 0x08 => 1,        // 8 bits
            0x02 | 0x09 | 0x10 => 2, // 16 bits
            _ => 4,
        };
        channel * self.channels as usize
    }
}

impl Params {
    /// A copy of `bytes` bytes.
    pub(crate) fn line(to: usize, from: usize, bytes: usize, kind: u32) -> Self {
        let corner = Position { x: 0, y: 0, z: 0 };
        let memory = |at| Pitched { at, pitch: bytes, width: bytes, height: 1 };
        Self {
            from_array: 0,
            from_corner: corner,
            from: memory(from),
            to_array: 0,
            to_corner: corner,
            to: memory(to),
            extent: Extent { width: bytes, height: 1, depth: 1 },
            kind,
        }
    }

    /// The driver's form.
    ///
    /// # Errors
    ///
    /// `INVALID_DIRECTION`, or the driver's code.
    pub(crate) fn slices(&self, driver: &Driver) -> Result<Memcpy3D, u32> {
        let array = if self.from_array != 0 { self.from_array } else { self.to_array };
        let element = match array {
            0 => 1,
            array => ArrayDescriptor::of(driver, array)?.element(),
        };
        let kind = Kind::of(self.kind)?;
        let kind = match (self.to_array, self.from_array) {
            (0, 0) => kind.decide(driver, self.to.at, self.from.at)?,
            (_, 0) => kind.decide(driver, self.from.at, self.from.at)?,
            _ => kind.decide(driver, self.to.at, self.to.at)?,
        };
        let [to_host, from_host] = kind.sides();
        let bytes = |elements: usize, element| elements.checked_mul(element).ok_or(INVALID_VALUE);
        let side = |array: usize, corner: Position, memory: Pitched, is_host: bool| {
            let (kind, element) = match (array, is_host) {
                (0, true) => (HOST, 1),
                (0, false) => (DEVICE, 1),
                _ => (ARRAY, element), // its corner is in elements
            };
            let (host, device) = if kind == HOST { (memory.at, 0) } else { (0, memory.at) };
            let corner = [bytes(corner.x, element)?, corner.y, corner.z, 0];
            let device = if kind == DEVICE { device } else { 0 };
            let (pitch, height) = (memory.pitch, memory.height);
            Ok::<_, u32>(Memcpy3DSide {
                corner,
                kind,
                host,
                device,
                array,
                reserved: 0,
                pitch,
                height,
            })
        };
        let Extent { width, height, depth } = self.extent;
        Ok(Memcpy3D {
            from: side(self.from_array, self.from_corner, self.from, from_host)?,
            to: side(self.to_array, self.to_corner, self.to, to_host)?,
            size: [bytes(width, element)?, height, depth],
        })
    }
}

unsafe fn copy(stream: Stream, params: *const Params) -> Result<(), u32> {
    // SAFETY: cudaMemcpy3D demands that `params` is null or a `cudaMemcpy3DParms`, with memory for
    // the length of the call, which waits for the stream.
    unsafe {
        queue(params, stream)?;
        enter()?.cuStreamSynchronize(stream)
    }
}

unsafe fn queue(params: *const Params, stream: Stream) -> Result<(), u32> {
    let driver = enter()?;
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and cudaMemcpy3D demands a `cudaMemcpy3DParms`, which the program does not
    // change during the call.
    let params = unsafe { &*params };
    let Extent { width, height, depth } = params.extent;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    if params.from_array != 0 || params.to_array != 0 {
        let slices = params.slices(driver)?;
        // SAFETY: cudaMemcpy3D demands arrays and memory with all slices, until the stream has
        // copied them. `slices` is a local of the driver's type.
        return unsafe { driver.cuMemcpy3DAsync_v2((&raw const slices).cast(), stream) };
    }
    let row = |memory: Pitched, corner: Position, slice: usize| -> Option<usize> {
        let rows =
            corner.z.checked_add(slice)?.checked_mul(memory.height)?.checked_add(corner.y)?;
        memory.at.checked_add(rows.checked_mul(memory.pitch)?)?.checked_add(corner.x)
    };
    let rows = |slice| {
        let to = row(params.to, params.to_corner, slice);
        to.zip(row(params.from, params.from_corner, slice)).ok_or(INVALID_VALUE)
    };
    rows(depth - 1)?;
    for slice in 0..depth {
        let (to, from) = rows(slice)?;
        let (to_pitch, from_pitch) = (params.to.pitch, params.from.pitch);
        // SAFETY: cudaMemcpy3D demands memory with `depth` slices at both addresses, until the
        // stream has copied them. These rows are one of them.
        unsafe { queue_rows(to, to_pitch, from, from_pitch, width, height, params.kind, stream) }?;
    }
    Ok(())
}
