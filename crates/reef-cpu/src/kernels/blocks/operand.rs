//! A tensor in memory, as rows of channels: one row per pixel.

use super::operand_layout::{OperandMemory, unsupported};
use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use reef_op::{Layout, Tensor, Window};

/// A tensor whose storage has been checked to lie inside its buffer.
#[derive(Debug)]
pub(in crate::kernels) struct Operand {
    buffer: Buffer,
    /// Byte of the first element of the storage.
    offset: usize,
    /// The shape.
    pub tensor: Tensor,
}

impl Operand {
    /// Checks that `place` holds the storage of `tensor`.
    pub(in crate::kernels) fn new(place: &OperandMemory, tensor: Tensor) -> Result<Self> {
        tensor.check()?; // what follows can't wrap
        place.check(tensor.storage_elements() * size_of::<f32>())?;
        Ok(Self { buffer: place.buffer.clone(), offset: place.offset, tensor })
    }

    /// Like [`new`](Self::new), for what is only read or written as rows of channels.
    pub(in crate::kernels) fn native(
        place: &OperandMemory,
        tensor: Tensor,
        what: &str,
    ) -> Result<Self> {
        if is_planar(&tensor) {
            let Tensor { height, width, .. } = tensor;
            return Err(unsupported(format!("{what} of layout Nchw with {height}x{width} pixels")));
        }
        Self::new(place, tensor)
    }

    /// Pixels of all images.
    pub(in crate::kernels) fn pixels(&self) -> usize {
        self.tensor.batch * self.tensor.height * self.tensor.width
    }

    /// Elements from a pixel to the next.
    pub(in crate::kernels) fn pitch(&self) -> usize {
        self.tensor.of
    }

    /// The first element of the storage.
    pub(in crate::kernels) fn start(&self) -> *mut f32 {
        self.buffer.as_ptr().wrapping_add(self.offset).cast()
    }

    /// Channel `channel` of pixel `pixel`, counted from the tensor's first.
    ///
    /// Valid for the tensor's channels from there on, if both are inside the tensor.
    #[inline]
    pub(in crate::kernels) fn at(&self, pixel: usize, channel: usize) -> *mut f32 {
        debug_assert!(pixel < self.pixels() && channel < self.tensor.channels);
        self.start().wrapping_add(pixel * self.pitch() + self.tensor.first + channel)
    }

    /// `len` channels of `pixel` from `channel` on, for reading.
    ///
    /// # Safety
    ///
    /// They aren't written while the slice lives.
    #[inline]
    pub(in crate::kernels) unsafe fn read(
        &self,
        pixel: usize,
        channel: usize,
        len: usize,
    ) -> &[f32] {
        assert!(pixel < self.pixels() && channel + len <= self.tensor.channels);
        // SAFETY: the row is inside the storage, as was just checked, and `new` found that inside
        // the buffer. Nothing writes the row while the slice lives: `read` demands it.
        unsafe { std::slice::from_raw_parts(self.at(pixel, channel), len) }
    }

    /// `len` channels of `pixel` from `channel` on, for writing.
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes them while the slice lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "buffers hand out raw memory; the caller answers")]
    pub(in crate::kernels) unsafe fn write(
        &self,
        pixel: usize,
        channel: usize,
        len: usize,
    ) -> &mut [f32] {
        assert!(pixel < self.pixels() && channel + len <= self.tensor.channels);
        // SAFETY: the row is inside the storage, as was just checked, and `new` found that inside
        // the buffer. Nothing else reads or writes the row while the slice lives: `write` demands
        // it.
        unsafe { std::slice::from_raw_parts_mut(self.at(pixel, channel), len) }
    }
}

/// Returns whether a tensor lies plane after plane. With one pixel, both layouts are the same.
pub(in crate::kernels) fn is_planar(tensor: &Tensor) -> bool {
    tensor.layout == Layout::Nchw && tensor.height * tensor.width > 1
}

/// Packed constants, which aren't written after they were packed.
#[derive(Debug)]
pub(in crate::kernels) struct Constants(Buffer);

impl Constants {
    pub(in crate::kernels) fn new(buffer: Buffer) -> Self {
        Self(buffer)
    }

    #[inline]
    pub(in crate::kernels) fn floats(&self) -> &[f32] {
        // SAFETY: the buffer is that long, aligned and initialised, and after `pack` it is only
        // read.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.bytes() / 4) }
    }
}

/// Checks that `output` is as large as `window` over `input` makes it.
pub(in crate::kernels) fn check_window(
    window: &Window,
    input: &Tensor,
    output: &Tensor,
) -> Result<()> {
    let extent = [input.height, input.width];
    let too_large = (0..2).any(|i| window.size[i] > extent[i] + 2 * window.padding[i]);
    if window.stride.contains(&0) || window.size.contains(&0) || too_large {
        return Err(Error::invalid(
            "window",
            format!("must fit into {extent:?} and move, got {window:?}"),
        ));
    }
    let want = [input.batch, window.over(extent)[0], window.over(extent)[1]];
    let have = [output.batch, output.height, output.width];
    if want != have {
        return Err(Error::invalid(
            "output",
            format!("must be {want:?}, as the window gives, got {have:?}"),
        ));
    }
    Ok(())
}
