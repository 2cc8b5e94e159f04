//! Memory that kernels see.

/// Memory by addresses. Implementations panic at an address that is not theirs.
pub trait Memory {
    /// Reads this many bytes, 8 at most.
    fn load(&self, at: usize, bytes: usize) -> [u8; 8];
    /// Writes these bytes.
    fn store(&mut self, at: usize, bytes: &[u8]);
}

impl Memory for [u8] {
    fn load(&self, at: usize, bytes: usize) -> [u8; 8] {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&self[at..at + bytes]);
        value
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Memory for Vec<u8> {
    fn load(&self, at: usize, bytes: usize) -> [u8; 8] {
        self.as_slice().load(at, bytes)
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.as_mut_slice().store(at, bytes);
    }
}
