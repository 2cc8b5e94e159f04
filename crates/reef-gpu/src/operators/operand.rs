//! A tensor in the device's memory.

use super::element::Element as Stored;
use super::params::View;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Error, Result};
use reef_op::{Layout, Storage, Tensor, Window};

/// Elements of one storage, so that kernels can count in 31 bits.
const MAX_ELEMENTS: usize = 1 << 31;

/// Checks that a storage begins where kernels may take several words at a time: elsewhere they
/// fault, and with them all work on the device.
pub(super) fn check_offset(storage: &Storage<'_, Gpu<impl Vendor>>) -> Result<()> {
    if storage.offset.is_multiple_of(64) {
        return Ok(());
    }
    Err(Error::invalid("offset", format!("must be a multiple of 64, got {}", storage.offset)))
}

/// A tensor whose storage lies inside its buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand {
    /// Address of the storage.
    storage: u64,
    pub(super) tensor: Tensor,
    /// Bytes of one element.
    bytes: usize,
}

impl Operand {
    /// Checks that `storage` holds `tensor`.
    pub(super) fn new(
        storage: &Storage<'_, Gpu<impl Vendor>>,
        tensor: Tensor,
        element: Stored,
    ) -> Result<Self> {
        check(&tensor)?;
        check_offset(storage)?;
        let room = storage_bytes(&tensor);
        let operand = Self::at(storage.buffer.range(storage.offset, room)?, tensor, element);
        Ok(operand)
    }

    /// A tensor whose storage is at this address.
    pub(super) fn at(storage: u64, tensor: Tensor, element: Stored) -> Self {
        let bytes = if is_planar(&tensor) { 4 } else { element.in_tensor(&tensor).bytes() };
        Self { storage, tensor, bytes }
    }

    /// Address of the first channel of the first pixel.
    pub(super) fn first(&self) -> u64 {
        let Tensor { first, height, width, .. } = self.tensor;
        let step = if is_planar(&self.tensor) { height * width } else { 1 };
        self.storage + (first * step * self.bytes) as u64
    }

    /// Returns whether their storages have bytes in common, and not as other channels of one.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let bytes = |tensor: &Tensor| storage_bytes(tensor) as u64;
        let overlap = self.storage < other.storage + bytes(&other.tensor)
            && other.storage < self.storage + bytes(&self.tensor);
        let is_one = self.storage == other.storage;
        overlap && !(is_one && self.tensor.has_other_channels(&other.tensor))
    }

    /// Bytes of one element.
    pub(super) fn element_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_planar(&self) -> bool {
        is_planar(&self.tensor)
    }

    /// Returns whether channels can be taken in pieces of `bytes` bytes.
    pub(super) fn is_in_pieces_of(&self, bytes: usize) -> bool {
        is_in(&self.tensor, |channels| (channels * self.bytes).is_multiple_of(bytes))
    }

    /// Returns whether channels can be taken four at a time.
    pub(super) fn is_in_fours(&self) -> bool {
        is_in_fours(&self.tensor)
    }

    pub(super) fn pixels(&self) -> usize {
        self.tensor.batch * self.tensor.height * self.tensor.width
    }

    /// View for kernels that take any layout.
    pub(super) fn view(&self) -> View {
        let Tensor { height, width, of, .. } = self.tensor;
        let (pixels, planar) = (height * width, self.is_planar());
        View {
            data: self.first(),
            image: (pixels * of) as u64,
            pixel: if planar { 1 } else { of as u32 },
            channel: if planar { pixels as u32 } else { 1 },
            height: height as u32,
            width: width as u32,
            wide: planar.into(),
            unused: 0,
        }
    }
}

/// Bytes of a storage. Networks of images have four for each element, those of tensors no more than
/// numbers of 8 bits take.
fn storage_bytes(tensor: &Tensor) -> usize {
    let each = if tensor.layout.quantized().is_some() { 1 } else { size_of::<f32>() };
    tensor.storage_elements() * each
}

/// Returns whether channels of a tensor can be taken four at a time.
pub(super) fn is_in_fours(tensor: &Tensor) -> bool {
    is_in(tensor, |channels| channels.is_multiple_of(4))
}

/// Returns whether each run of channels is `whole`.
fn is_in(tensor: &Tensor, whole: impl Fn(usize) -> bool) -> bool {
    let Tensor { channels, first, of, .. } = *tensor;
    !is_planar(tensor) && [channels, first, of].into_iter().all(whole)
}

/// Returns whether a tensor lies plane after plane, in 32-bit floats.
pub(super) fn is_planar(tensor: &Tensor) -> bool {
    tensor.layout == Layout::Nchw
}

fn check(tensor: &Tensor) -> Result<()> {
    if tensor.elements() == 0 || tensor.storage_elements() >= MAX_ELEMENTS {
        let (most, got) = (MAX_ELEMENTS - 1, tensor.storage_elements());
        return Err(Error::invalid(
            "tensor",
            format!("must have from 1 to {most} elements, got {got}"),
        ));
    }
    if tensor.first + tensor.channels > tensor.of {
        let Tensor { first, channels, of, .. } = tensor;
        return Err(Error::invalid(
            "channels",
            format!("must be inside of {of}, got {channels} from {first} on"),
        ));
    }
    Ok(())
}

/// Checks that `output` is as large as `window` over `input` makes it.
pub(super) fn check_window(window: &Window, input: &Tensor, output: &Tensor) -> Result<()> {
    let extent = [input.height, input.width];
    let too_large = (0..2).any(|i| window.size[i] > extent[i] + 2 * window.padding[i]);
    if window.stride.contains(&0) || window.size.contains(&0) || too_large {
        return Err(Error::invalid(
            "window",
            format!("must fit into {extent:?} and move, got {window:?}"),
        ));
    }
    let [height, width] = window.over(extent);
    if [input.batch, height, width] != [output.batch, output.height, output.width] {
        return Err(Error::invalid(
            "output",
            format!("must be {height}x{width}, as {window:?} makes of {input:?}, got {output:?}"),
        ));
    }
    Ok(())
}

/// Checks that both have the same shape.
pub(super) fn check_same(input: &Tensor, output: &Tensor) -> Result<()> {
    if input.shape() != output.shape() {
        let (want, got) = (input.shape(), output.shape());
        return Err(Error::invalid(
            "output",
            format!("must be {want:?}, as the input is, got {got:?}"),
        ));
    }
    Ok(())
}
