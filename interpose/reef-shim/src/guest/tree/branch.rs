//! Branch: a context with its streams.

use super::context::{Context, ContextNames};
use super::list::List;
use super::memory::Area;
use super::stream::{Block, Key, Stream};
use crate::explain;
use crate::guest::device::Device;
use reef_guest::page::Page;

/// Branches of all devices.
static BRANCHES: List<Branch> = List::new();

/// Context, the mapping of its device's page that is registered in it, and its streams.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) context: Context,
    page: Area,
    blocks: List<Block>,
}

impl Branch {
    /// Takes a record for the current context. `None`: the driver doesn't register memory for it,
    /// which the report says.
    pub(crate) fn take(device: &'static Device, names: ContextNames) -> Option<&'static Self> {
        let mut free = branches(device).filter(|branch| branch.is_free());
        if let Some(branch) = free.find(|branch| branch.begin(names).is_ok()) {
            return Some(branch);
        }
        let page = Area::map_again(&device.page);
        let page =
            page.map_err(|error| explain::refuse::<()>(&format!("the page: {error}"))).ok()?;
        let blocks = List::new();
        let branch = BRANCHES.push(Self { context: Context::new(device), page, blocks });
        let refused =
            |code| explain::refuse(&format!("cuMemHostRegister of the page: code {code}"));
        branch.begin(names).map_or_else(refused, |()| Some(branch))
    }

    fn begin(&self, names: ContextNames) -> Result<(), u32> {
        let page = self.page.register()?;
        for block in self.blocks.iter() {
            let _ = block.register(); // or it has no room for a stream
        }
        self.context.take(names, page + Page::HOLDERS_AT as u64);
        Ok(())
    }

    fn is_free(&self) -> bool {
        self.context.is_gone() && self.streams().all(Stream::is_idle)
    }

    /// Returns its streams, with those that were destroyed.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &'static Stream> + use<> {
        self.blocks.iter().flat_map(Block::streams)
    }

    /// Takes a record for one of its streams. `None`: the driver registers no memory.
    pub(crate) fn add(&'static self, key: Key, handle: usize) -> Option<&'static Stream> {
        let taken = |block: &'static Block| block.take(key, handle, &self.context);
        if let Some(stream) = self.blocks.iter().find_map(taken) {
            return Some(stream);
        }
        let block = self.blocks.push(Block::new().ok()?);
        match self.context.within(|| block.register()) {
            Ok(()) => taken(block),
            Err(code) => explain::refuse(&format!("cuMemHostRegister of marks: code {code}")),
        }
    }

    /// Inserts marks after the work of all its streams. Threads' own streams can't be named here.
    pub(crate) fn mark_last(&self) {
        let streams = || self.streams().filter(|it| it.is_live() && !it.is_own());
        self.context.within(|| streams().for_each(Stream::mark_last));
    }
}

/// Returns the contexts of a device, with those that have ended.
fn branches(device: &Device) -> impl Iterator<Item = &'static Branch> {
    BRANCHES.iter().filter(move |branch| std::ptr::eq(branch.context.device, device))
}

/// Returns the streams of a device, with those that have ended.
pub(crate) fn streams(device: &Device) -> impl Iterator<Item = &'static Stream> {
    branches(device).flat_map(Branch::streams)
}
