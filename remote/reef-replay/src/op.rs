//! One operation of a program.

/// Operation that the program does not wait for. Its body is the three parts one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<'a> {
    /// Operation of its message.
    pub kind: u16,
    /// Part that tells operations apart: function, grid, attributes.
    pub shape: &'a [u8],
    /// Part that may change from one repetition to the next: parameters, addresses, handles.
    pub words: &'a [u8],
    /// Bytes that always travel: content for the device.
    pub payload: &'a [u8],
}
