//! Size of an image, and the numbers that images are made of.

/// Size of an image on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes of global variables.
    pub(crate) data: u64,
    /// Bytes of machine code, which is loaded at once or at its first use.
    pub(crate) code: u64,
    /// True if a part of the image can't be read.
    pub(crate) is_unknown: bool,
}

impl Size {
    /// Returns the larger of each: an image has the same code for several kinds of devices, of
    /// which one is loaded.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            data: self.data.max(other.data),
            code: self.code.max(other.code),
            is_unknown: self.is_unknown || other.is_unknown,
        }
    }

    pub(super) const UNKNOWN: Self = Self { data: 0, code: 0, is_unknown: true };
}

/// Returns the bytes at an offset.
fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(|word| u16::from_le_bytes(word).into())
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(|word| u32::from_le_bytes(word) as usize)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(|word| u64::from_le_bytes(word) as usize)
}
