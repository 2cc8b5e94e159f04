//! Device memory whose contents don't matter. It is not cleared, and kept for whatever asks next,
//! so that asking makes no call of the driver while there is some.

use crate::driver::context::Context;
use crate::hal::calls::Vendor;
use crate::hal::free_list::place;
use reef_core::Result;
use std::sync::Arc;

/// Bytes of one copy.
const MAX_COPY: usize = 1 << 20;

/// Some memory of the device.
#[derive(Debug)]
pub(crate) struct Scratch<V: Vendor> {
    address: u64,
    context: Arc<Context<V>>,
}

impl<V: Vendor> Scratch<V> {
    /// `bytes` bytes that hold anything.
    pub(crate) fn new(context: &Arc<Context<V>>, bytes: usize) -> Result<Self> {
        let kept = context.scratch.lock().take(bytes);
        let address = match kept {
            Some(address) => address,
            None => Self::alloc(context, bytes)?,
        };
        Ok(Self { address, context: context.clone() })
    }

    #[cold]
    fn alloc(context: &Context<V>, bytes: usize) -> Result<u64> {
        let address = context.call().alloc(place(bytes))?;
        context.scratch.lock().add(address, bytes);
        Ok(address)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Reads 32-bit words from word `first` on. Blocks; unordered with streams.
    ///
    /// # Safety
    ///
    /// The words are inside, and no work writes them meanwhile.
    pub(crate) unsafe fn read(&self, first: usize, count: usize) -> Result<Vec<u32>> {
        let mut bytes = vec![0; count * size_of::<u32>()];
        let from = self.address + (first * size_of::<u32>()) as u64;
        for (part, from) in bytes.chunks_mut(MAX_COPY).zip((from..).step_by(MAX_COPY)) {
            // SAFETY: `read` demands that the words are inside and that no work writes them; the
            // parts are together as long as the words.
            unsafe { self.context.call().read(from, part) }?;
        }
        Ok(bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    /// Writes words from the first on. Blocks; unordered with streams.
    ///
    /// # Safety
    ///
    /// The words are inside, and no work uses them meanwhile.
    pub(crate) unsafe fn write(&self, words: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (part, to) in bytes.chunks(MAX_COPY).zip((self.address..).step_by(MAX_COPY)) {
            // SAFETY: `write` demands that the words are inside and that no work uses them; the
            // parts are together as long as the words.
            unsafe { self.context.call().write(to, part) }?;
        }
        Ok(())
    }
}

impl<V: Vendor> Drop for Scratch<V> {
    fn drop(&mut self) {
        self.context.scratch.lock().give_back(self.address);
    }
}
