//! Sizes of images, and how steps see them.

/// The dimensions in which a step sees `[batch, channels, rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// All four.
    Image,
    /// Batch, and all others in one.
    Flat,
    /// One channel, whose dimension is left out.
    Plane,
}

impl Form {
    /// The form in which an image of `shape` has the dimensions `dims`.
    pub(super) fn of(shape: [usize; 4], dims: &[usize]) -> Result<Self, String> {
        let [batch, channels, height, width] = shape;
        match *dims {
            [..] if dims == shape => Ok(Self::Image),
            [n, all] if [n, all] == [batch, channels * height * width] => Ok(Self::Flat),
            [n, rows, columns] if channels == 1 && [n, rows, columns] == [batch, height, width] => {
                Ok(Self::Plane)
            }
            _ => Err(format!("a tensor of {shape:?} can't become {dims:?} here")),
        }
    }

    /// Returns whether an image of `shape` has its channels in the second dimension.
    pub(super) fn has_channels(self, shape: [usize; 4]) -> bool {
        match self {
            Self::Image => true,
            Self::Flat => shape[2..] == [1, 1],
            Self::Plane => false,
        }
    }
}

/// Returns whether constants of `dims` have one value for each channel of an image that is seen as
/// `seen`, and the same for all else. They are lined up at the end, as ONNX does.
pub(super) fn is_per_channel(dims: &[usize], seen: &[usize], channels: usize) -> bool {
    let Some(missing) = seen.len().checked_sub(dims.len()) else { return false };
    let size = |axis: usize| if axis < missing { 1 } else { dims[axis - missing] };
    let wanted = |axis: usize| if axis == 1 { channels } else { 1 };
    seen.get(1) == Some(&channels) && (0..seen.len()).all(|axis| size(axis) == wanted(axis))
}
