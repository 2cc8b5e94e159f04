//! Memory of the device, and of the host pinned for it.

use crate::driver::context::Context;
use crate::driver::handles::cloned;
use crate::hal::calls::Vendor;
use reef_core::{Error, HostMemory, Result, words};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Maximum of bytes that one call copies: a call that lasts longer than a millisecond or two passes
/// for one that hangs.
const MAX_COPY: usize = 4 << 20;

/// Memory, given back when the last clone is dropped; zeroed, unless it was adopted or another
/// process shares it.
#[derive(Debug)]
pub struct Buffer<V: Vendor>(Arc<Allocation<V>>);

cloned!(Buffer);

#[derive(Debug)]
struct Allocation<V: Vendor> {
    /// As kernels see it.
    device: u64,
    owner: Owner,
    bytes: usize,
    context: Arc<Context<V>>,
}

/// Whose memory it is; of the host's, where the host sees it.
#[derive(Debug)]
enum Owner {
    Device,
    Host(*mut u8),
    Other(HostMemory),
    /// Another process's, on the device.
    Process,
}

impl Owner {
    /// Memory of the host as words, the last of which may reach over its end.
    fn words(&self, bytes: usize) -> Option<&[AtomicU32]> {
        match self {
            Self::Device | Self::Process => None,
            // SAFETY: whole words were allocated, aligned as pages are, and zeroed; what touches
            // them is a GPU, or comes here. They are there for as long as `self` is.
            Self::Host(host) => Some(unsafe {
                slice::from_raw_parts(host.cast_const().cast(), words::words_of(bytes))
            }),
            Self::Other(memory) => Some(memory.words()),
        }
    }
}

// SAFETY: the driver frees and copies the memory from any thread, and the host reaches it as atomic
// words.
unsafe impl<V: Vendor> Send for Allocation<V> {}
// SAFETY: methods take `&self`, and reach the memory through the driver or as atomic words.
unsafe impl<V: Vendor> Sync for Allocation<V> {}

impl<V: Vendor> Drop for Allocation<V> {
    fn drop(&mut self) {
        let call = match self.owner {
            Owner::Device | Owner::Host(_) => self.context.call_to_free(),
            Owner::Other(_) | Owner::Process => self.context.call_that_waits(),
        };
        let Some(call) = call else {
            if let Owner::Other(memory) = &self.owner {
                std::mem::forget(memory.clone()); // it stays pinned
            }
            return;
        };
        // SAFETY: each came from the call's counterpart, once, and every launch that uses it keeps
        // a clone until it has ended.
        unsafe {
            match &self.owner {
                Owner::Device => call.free(self.device),
                Owner::Host(host) => call.free_host(*host),
                Owner::Other(memory) => call.unregister_host(memory.as_ptr().as_ptr()),
                Owner::Process => call.close_shared(self.device),
            }
        }
    }
}

impl<V: Vendor> Buffer<V> {
    pub(crate) fn device(context: &Arc<Context<V>>, bytes: usize) -> Result<Self> {
        let device = context.call().alloc(bytes.max(1))?;
        Ok(Self::new(context, device, Owner::Device, bytes))
    }

    pub(crate) fn host(context: &Arc<Context<V>>, bytes: usize) -> Result<Self> {
        let whole = bytes.max(1).checked_next_multiple_of(size_of::<u32>()).unwrap_or(bytes);
        let (host, device) = context.call().alloc_host(whole)?;
        Ok(Self::new(context, device, Owner::Host(host), bytes))
    }

    pub(crate) fn adopted(context: &Arc<Context<V>>, memory: HostMemory) -> Result<Self> {
        let (host, bytes) = (memory.as_ptr().as_ptr(), memory.bytes());
        // SAFETY: the allocation holds `memory` until it has unregistered it.
        let device = unsafe { context.call().register_host(host, bytes) }?;
        Ok(Self::new(context, device, Owner::Other(memory), bytes))
    }

    pub(crate) fn shared(context: &Arc<Context<V>>, handle: &[u8; 64]) -> Result<Self> {
        let (device, bytes) = context.call().open_shared(handle)?;
        Ok(Self::new(context, device, Owner::Process, bytes))
    }

    fn new(context: &Arc<Context<V>>, device: u64, owner: Owner, bytes: usize) -> Self {
        Self(Arc::new(Allocation { device, owner, bytes, context: context.clone() }))
    }

    /// Address of the first byte, as kernels see it.
    pub fn address(&self) -> u64 {
        self.0.device
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Checks that work of this context reaches it. On memory of another device it faults, and with
    /// it all work on its own.
    pub(crate) fn check_device(&self, context: &Context<V>) -> Result<()> {
        let is_on_device = matches!(self.0.owner, Owner::Device | Owner::Process);
        if is_on_device && !context.is_same_device(&self.0.context) {
            return Err(Error::invalid(
                "buffer",
                "must be of the device that works on it, got one of another device",
            ));
        }
        Ok(())
    }

    /// The address of `bytes` bytes from `offset` on, which must be inside.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<u64> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.0.bytes) {
            let have = self.0.bytes;
            return Err(Error::invalid(
                "range",
                format!("must be inside a buffer of {have} bytes, got {bytes} at {offset}"),
            ));
        }
        Ok(self.0.device + offset as u64)
    }

    /// `None`: memory of the device.
    fn words(&self) -> Option<&[AtomicU32]> {
        self.0.owner.words(self.0.bytes)
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let to = self.range(offset, data.len())?;
        match self.words() {
            Some(host) => words::write(host, offset, data),
            None if data.is_empty() => {}
            None => {
                for (part, to) in data.chunks(MAX_COPY).zip((to..).step_by(MAX_COPY)) {
                    // SAFETY: `range` has found the bytes inside this buffer, which `self` keeps.
                    // Only a GPU sees them, so a race with a launch tears values.
                    unsafe { self.0.context.call().write(to, part) }?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        let from = self.range(offset, data.len())?;
        match self.words() {
            Some(host) => words::read(host, offset, data),
            None if data.is_empty() => {}
            None => {
                for (part, from) in data.chunks_mut(MAX_COPY).zip((from..).step_by(MAX_COPY)) {
                    // SAFETY: `range` has found the bytes inside this buffer, which `self` keeps.
                    // Only a GPU sees them, so a race with a launch tears values.
                    unsafe { self.0.context.call().read(from, part) }?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::driver::stream::Stream;
    use crate::gpu::Gpu;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::hal::streams::StreamKind;
    use reef_core::{Device, HostMemory};
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn adopt(gpu: &Gpu<Fake>, theirs: &Arc<AtomicU64>) -> crate::driver::buffer::Buffer<Fake> {
        let start = NonNull::new(theirs.as_ptr().cast()).unwrap();
        // SAFETY: the atomic's eight bytes live as long as the third argument keeps them.
        gpu.adopt_host(unsafe { HostMemory::new(start, 8, theirs.clone()) }).unwrap()
    }

    #[test]
    fn large_copy_is_whole() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let data: Vec<u8> = (0..2 * super::MAX_COPY + 5).map(|n| (n % 251) as u8).collect();
        let buffer = gpu.alloc(data.len() + 3).unwrap();
        buffer.write(3, &data).unwrap();
        let mut back = vec![0; data.len()];
        buffer.read(3, &mut back).unwrap();
        assert!(back == data);
    }

    #[test]
    fn memory_of_others_is_reached_in_place_and_let_go_of() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let theirs = Arc::new(AtomicU64::new(7));
        let buffer = adopt(&gpu, &theirs);
        gpu.write(&buffer, 4, &[1, 0, 0, 0]).unwrap();
        assert_eq!(theirs.load(std::sync::atomic::Ordering::Relaxed), 7 + (1 << 32));
        assert!(gpu.write(&buffer, 5, &[0; 4]).is_err());
        let address = buffer.address();
        drop(buffer);
        assert_eq!(gpu.vendor().freed.lock().last(), Some(&address), "it is unpinned");
        assert_eq!(Arc::strong_count(&theirs), 1);
    }

    #[test]
    fn shared_memory_is_closed_with_its_last_clone_and_never_freed() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let theirs = gpu.alloc(64).unwrap();
        let mut handle = [0; 64];
        handle[..8].copy_from_slice(&theirs.address().to_le_bytes());
        let (buffer, bytes) = gpu.open_shared(&handle).unwrap();
        assert_eq!((buffer.address(), bytes), (theirs.address(), 64));
        gpu.write(&buffer, 60, &[7; 4]).unwrap();
        assert!(gpu.write(&buffer, 61, &[7; 4]).is_err(), "outside");
        let mut seen = [0; 4];
        gpu.read(&theirs, 60, &mut seen).unwrap();
        assert_eq!(seen, [7; 4]);
        let clone = buffer.clone();
        drop(buffer);
        assert!(gpu.vendor().closed.lock().is_empty());
        let freed = gpu.vendor().freed.lock().len();
        drop(clone);
        assert_eq!(*gpu.vendor().closed.lock(), [theirs.address()]);
        assert_eq!(gpu.vendor().freed.lock().len(), freed);
        assert!(matches!(gpu.open_shared(&[0; 64]), Err(reef_core::Error::Invalid(_))));
    }

    /// A call that unpins memory waits for the whole device.
    #[test]
    fn adopted_memory_stays_pinned_while_abandoned_work_runs() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let theirs = Arc::new(AtomicU64::new(7));
        let [first, second] = [(); 2].map(|()| adopt(&gpu, &theirs));
        let address = first.address();
        gpu.vendor().busy.store(true, Ordering::SeqCst);
        Stream::open(gpu.context(), StreamKind::BestEffort).unwrap().abandon();
        drop(first);
        assert_eq!(Arc::strong_count(&theirs), 3);
        assert!(!gpu.vendor().freed.lock().contains(&address));
        gpu.vendor().busy.store(false, Ordering::SeqCst);
        drop(second);
        assert!(gpu.vendor().freed.lock().contains(&address), "the work has ended after all");
        assert_eq!(Arc::strong_count(&theirs), 2, "of the first that stays");
    }
}
