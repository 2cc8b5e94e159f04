//! Open requests of a client, and their tensor buffers.

/// Open requests by number, and the free tensor buffers.
///
/// The lowest free buffer is used first. So a client with one request at a time always uses the
/// same one: its memory stays in caches, and the device needs one list of commands.
#[derive(Debug)]
pub(super) struct TensorBuffers {
    /// A bit for each buffer.
    free: u64,
    /// By number, modulo the slots.
    open: Box<[OpenRequest]>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpenRequest {
    pub(super) buffer: u32,
    /// Time of the request, by [`clock`](crate::local::clock).
    pub(super) requested: u64,
}

impl TensorBuffers {
    /// All buffers are free; `slots` is a power of two of at most 64.
    pub(super) fn new(slots: u32) -> Self {
        let open = vec![OpenRequest::default(); slots as usize].into();
        Self { free: u64::MAX >> (64 - slots.clamp(1, 64)), open }
    }

    /// Returns the buffer for the next request's tensors: the first one if none is free.
    pub(super) fn next(&self) -> u32 {
        if self.free == 0 { 0 } else { self.free.trailing_zeros() }
    }

    /// Takes that buffer for request number `n`, made at time `requested`.
    pub(super) fn take(&mut self, n: u32, requested: u64) -> u32 {
        let buffer = self.next();
        self.free &= !(1 << buffer);
        *self.slot(n) = OpenRequest { buffer, requested };
        buffer
    }

    /// Frees the buffer of request number `n`. Its content stays until it is taken again.
    pub(super) fn give(&mut self, n: u32) -> OpenRequest {
        let open = *self.slot(n);
        self.free |= 1 << open.buffer;
        open
    }

    /// Returns the open request number `n`.
    pub(super) fn of(&self, n: u32) -> OpenRequest {
        self.open[n as usize % self.open.len()]
    }

    fn slot(&mut self, n: u32) -> &mut OpenRequest {
        let slots = self.open.len();
        &mut self.open[n as usize % slots]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::segment::FIRST;

    #[test]
    fn sequential_requests_use_the_same_buffer() {
        let mut buffers = TensorBuffers::new(4);
        for n in (0..10).map(|n| FIRST.wrapping_add(n)) {
            assert_eq!((buffers.take(n, n.into()), buffers.of(n).requested), (0, n.into()));
            assert_eq!(buffers.give(n).buffer, 0);
        }
    }

    #[test]
    fn open_requests_have_separate_buffers() {
        for slots in [1, 4, 64] {
            let mut buffers = TensorBuffers::new(slots);
            let number = |n| FIRST.wrapping_add(n);
            for n in 0..slots {
                assert_eq!(buffers.take(number(n), 0), n);
            }
            for n in slots..5 * slots {
                let freed = buffers.give(number(n - slots)).buffer;
                assert_eq!(buffers.take(number(n), 0), freed, "the only one that is free");
            }
        }
    }
}
