//! Tensors of images, and windows over them.

use super::quantized::Quantized;
use reef_core::{Error, Result};

/// Upper bound of each size of a tensor or a window.
pub const MAX_SIZE: usize = 1 << 28;
/// Upper bound of the elements of a storage, and of the weights of an op. In bytes, and padded by a
/// backend, it doesn't wrap.
pub const MAX_ELEMENTS: usize = 1 << 40;

/// A product that stops at the largest number.
pub(super) fn product(sizes: impl IntoIterator<Item = usize>) -> usize {
    sizes.into_iter().fold(1, usize::saturating_mul)
}

/// Layout of a tensor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Layout {
    /// Dense, row-major: batch, channel, row, column.
    Nchw,
    /// The backend's choice, the same for every native tensor of the device.
    Native,
    /// As a native one, but of numbers of 8 bits.
    Quantized(Quantized),
}

impl Layout {
    /// The numbers of 8 bits that it has, if those are what it has.
    pub fn quantized(self) -> Option<Quantized> {
        match self {
            Self::Quantized(quantized) => Some(quantized),
            Self::Nchw | Self::Native => None,
        }
    }
}

/// A tensor, or some adjoining channels of a wider one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tensor {
    /// Images.
    pub batch: usize,
    /// Channels of this tensor.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Layout in memory.
    pub layout: Layout,
    /// Its first channel within the storage; not 0 only where networks concatenate.
    pub first: usize,
    /// Channels of the whole storage, at least `first + channels`.
    pub of: usize,
}

impl Tensor {
    /// A tensor that fills its storage.
    pub fn new(layout: Layout, [batch, channels, height, width]: [usize; 4]) -> Self {
        Self { batch, channels, height, width, layout, first: 0, of: channels }
    }

    /// Returns `channels` of `of` channels from `first` on, with its rows and columns.
    #[must_use]
    pub fn channels(self, first: usize, channels: usize, of: usize) -> Self {
        Self { first, channels, of, ..self }
    }

    /// Batch, channels, rows and columns.
    pub fn shape(&self) -> [usize; 4] {
        [self.batch, self.channels, self.height, self.width]
    }

    /// Elements of the tensor itself.
    pub fn elements(&self) -> usize {
        product(self.shape())
    }

    /// Elements of the storage that holds it.
    pub fn storage_elements(&self) -> usize {
        product([self.batch, self.of, self.height, self.width])
    }

    /// Returns whether this and `other`, if they lie in one storage, are different channels of it.
    pub fn has_other_channels(&self, other: &Self) -> bool {
        let whole = |tensor: &Self| tensor.channels(0, tensor.of, tensor.of);
        let is_before = |a: &Self, b: &Self| a.first.saturating_add(a.channels) <= b.first;
        whole(self) == whole(other) && (is_before(self, other) || is_before(other, self))
    }

    /// Checks that it has elements, lies inside its storage, and is within the size limits.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
        let Self { batch, channels, height, width, first, of, .. } = *self;
        let shape = [batch, channels, height, width];
        if shape.contains(&0) {
            return Err(Error::invalid("tensor", format!("must have elements, got {shape:?}")));
        }
        let too_large = shape.into_iter().chain([of]).any(|size| size > MAX_SIZE);
        if too_large || self.storage_elements() > MAX_ELEMENTS {
            return Err(Error::invalid(
                "tensor",
                format!(
                    "must have at most {MAX_ELEMENTS} elements and sizes up to {MAX_SIZE}, \
                     got {shape:?} in {of} channels"
                ),
            ));
        }
        if first > of - channels.min(of) || channels > of {
            return Err(Error::invalid(
                "channels",
                format!("must be inside of {of}, got {channels} from {first} on"),
            ));
        }
        Ok(())
    }
}

/// A window that slides over rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Window {
    /// Rows and columns of the window.
    pub size: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Zeros (for maxima: nothing) added on each side.
    pub padding: [usize; 2],
}

impl Window {
    /// Returns the rows and columns of windows that fit over `[height, width]`; one if it is
    /// smaller than the window, none if windows don't move.
    pub fn over(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let fit = |n: usize, i: usize| {
            let padded = n.saturating_add(self.padding[i].saturating_mul(2));
            let steps = padded.saturating_sub(self.size[i]).checked_div(self.stride[i]);
            steps.map_or(0, |steps| steps.saturating_add(1))
        };
        [fit(height, 0), fit(width, 1)]
    }

    /// Checks that it has an area, moves, and is within the size limits.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
        let moves = self.size.into_iter().chain(self.stride);
        let bounded = moves.clone().chain(self.padding).all(|size| size <= MAX_SIZE);
        if !bounded || moves.clone().any(|size| size == 0) {
            return Err(Error::invalid(
                "window",
                format!(
                    "must have sizes and strides from 1 to {MAX_SIZE}, and no larger padding, \
                     got {self:?}"
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_shapes_pass_and_errors_name_the_fault() {
        let good = Tensor::new(Layout::Native, [2, 8, 6, 6]);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(good.channels(4, 4, 8).check(), Ok(()));
        let error = |tensor: Tensor| tensor.check().unwrap_err().to_string();
        assert_eq!(error(good.channels(4, 8, 9)), "channels: must be inside of 9, got 8 from 4 on");
        assert_eq!(error(good.channels(0, 0, 8)), "tensor: must have elements, got [2, 0, 6, 6]");
        let wraps = Tensor { of: 1 << 62, ..good };
        let said = error(wraps);
        let end = format!("got [2, 8, 6, 6] in {} channels", wraps.of);
        assert!(said.starts_with("tensor: must have at most ") && said.ends_with(&end), "{said}");
    }
}
