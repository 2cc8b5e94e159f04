//! Images on the device: what ships with the backend, and what was compiled or checked.

use crate::driver::context::Context;
use crate::hal::calls::Vendor;
use crate::hal::facts::FunctionFacts;
use crate::hal::image::Build;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of shared memory that a block gets without asking, those that are its kernel's own
/// included.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Code on the device.
#[derive(Debug)]
pub(crate) struct Code<V: Vendor> {
    raw: V::Code,
    context: Arc<Context<V>>,
}

impl<V: Vendor> Code<V> {
    /// Loads what ships, what was compiled, or what was checked.
    ///
    /// # Safety
    ///
    /// As of [`Modules::load_code`](crate::hal::calls::Modules::load_code).
    pub(crate) unsafe fn load(context: &Arc<Context<V>>, image: &[u8]) -> Result<Arc<Self>> {
        // SAFETY: the image came from `shipped`, `compile` or `check_image` of this device: `load`
        // demands it.
        let raw = unsafe { context.call().load_code(image) }?;
        Ok(Arc::new(Self { raw, context: context.clone() }))
    }

    pub(crate) fn function(&self, name: &str) -> Result<V::Function> {
        // SAFETY: the code is loaded for as long as this is there.
        let function = unsafe { self.context.call().function(self.raw, name) }?;
        function.ok_or_else(|| {
            Error::NotFound(format!("{}: no kernel {name:?} in this module", V::NAME))
        })
    }
}

impl<V: Vendor> Code<V> {
    /// Facts of one function of a plain build that has no guarded one.
    pub(crate) fn describe(&self, plain: V::Function) -> Result<Functions<V>> {
        // SAFETY: the code is loaded for as long as this is there.
        let facts = unsafe { self.context.call().function_facts(plain) }?;
        let FunctionFacts { registers, shared, parameters } = facts;
        Ok(Functions {
            plain,
            guarded: None,
            turns: None,
            follows: false,
            registers,
            shared,
            parameters,
        })
    }
}

impl<V: Vendor> Drop for Code<V> {
    fn drop(&mut self) {
        if let Some(call) = self.context.call_that_waits() {
            // SAFETY: loaded once; kernels keep this for as long as they are there.
            unsafe { call.unload_code(self.raw) };
        }
    }
}

/// A kernel's functions, and what the driver says of them.
#[derive(Debug)]
pub(crate) struct Functions<V: Vendor> {
    pub(crate) plain: V::Function,
    pub(crate) guarded: Option<V::Function>,
    pub(crate) turns: Option<V::Function>,
    /// The plain build waits by itself for the launch before it.
    pub(crate) follows: bool,
    /// Registers of a thread of the build that best-effort work runs.
    pub(crate) registers: u32,
    /// Bytes of shared memory that a block of any build has before it asks for more.
    pub(crate) shared: u32,
    /// Bytes of each parameter, where the driver can tell.
    pub(crate) parameters: Option<Vec<usize>>,
}

/// Functions by name, each with the dynamic shared memory that was asked for.
type FunctionsByName<V> = HashMap<String, (Arc<Functions<V>>, u32)>;

/// The builds of a source: see kernels/README.md.
#[derive(Debug)]
pub(crate) struct Builds<V: Vendor> {
    pub(crate) plain: Arc<Code<V>>,
    pub(crate) guarded: Arc<Code<V>>,
    /// The source ships with the backend: all its preemptible kernels claim a block, and so wait,
    /// before they read what others wrote.
    ships: bool,
    /// Loaded with the others: loading waits for what runs on the device.
    turns: Option<Arc<Code<V>>>,
    /// Functions that were looked up, with the dynamic shared memory that was asked for: a network
    /// asks for a hundred kernels, and a client that comes later makes no call of the driver for
    /// those that are here.
    known: Mutex<FunctionsByName<V>>,
}

impl<V: Vendor> Builds<V> {
    /// Builds of a source that ships with the backend.
    pub(crate) fn shipped(context: &Arc<Context<V>>, name: &str) -> Result<Self> {
        let mut builds = Self::of(context, |build| context.vendor.shipped(name, build))?;
        builds.ships = true;
        if let Some(image) = context.vendor.taking_turns(name)? {
            // SAFETY: the image is one of the vendor's own for this device, from `taking_turns`.
            builds.turns = Some(unsafe { Code::load(context, &image) }?);
        }
        Ok(builds)
    }

    /// Builds of a source that ships for some devices alone, of which this one runs `kernel`:
    /// drivers may load code lazily, and refuse it only when it is asked for.
    ///
    /// # Errors
    ///
    /// `Unsupported` or `NotFound` if there is none for this device; an error of the driver.
    pub(crate) fn usable(context: &Arc<Context<V>>, name: &str, kernel: &str) -> Result<Self> {
        let builds = Self::shipped(context, name)?;
        builds.functions(kernel, 0)?;
        Ok(builds)
    }

    /// Builds of a user's source.
    pub(crate) fn compiled(context: &Arc<Context<V>>, source: &str) -> Result<Self> {
        Self::of(context, |build| context.vendor.compile(source, build))
    }

    fn of(context: &Arc<Context<V>>, code: impl Fn(Build) -> Result<Vec<u8>>) -> Result<Self> {
        // SAFETY: `code` is the vendor's `shipped` or `compile` for this device: `shipped` and
        // `compiled` above give no other.
        let load = |build| unsafe { Code::load(context, &code(build)?) };
        let (plain, guarded) = (load(Build::Plain)?, load(Build::Guarded)?);
        Ok(Self { plain, guarded, ships: false, turns: None, known: Mutex::default() })
    }

    /// All of it, which functions need.
    pub(crate) fn code(&self) -> Vec<Arc<Code<V>>> {
        [Some(&self.plain), Some(&self.guarded), self.turns.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// The functions of the kernel of this name, whose launches may ask for `shared` bytes of
    /// dynamic shared memory.
    pub(crate) fn functions(&self, name: &str, shared: u32) -> Result<Arc<Functions<V>>> {
        let known = self.known.lock().get(name).cloned();
        let (functions, reserved) = match known {
            Some(known) => known,
            None => {
                let functions = self.look_up(name)?;
                let rest = SHARED_WITHOUT_ASKING.saturating_sub(functions.shared);
                (Arc::new(functions), rest)
            }
        };
        if shared > reserved {
            let Functions { plain, guarded, turns, .. } = *functions;
            for function in [Some(plain), guarded, turns].into_iter().flatten() {
                // SAFETY: `self` keeps the code of these functions loaded.
                unsafe { self.plain.context.call().reserve_shared(function, shared) }?;
            }
        }
        let most = reserved.max(shared);
        self.known.lock().insert(name.into(), (functions.clone(), most));
        Ok(functions)
    }

    fn look_up(&self, name: &str) -> Result<Functions<V>> {
        let (plain, guarded) = (self.plain.function(name)?, self.guarded.function(name)?);
        let functions = self.plain.describe(plain)?;
        let Functions { registers, shared, .. } = self.guarded.describe(guarded)?;
        let shared = shared.max(functions.shared);
        let turns = self.turns.as_ref().map(|code| code.function(name)).transpose()?;
        let (guarded, follows) = (Some(guarded), self.ships);
        Ok(Functions { guarded, turns, follows, registers, shared, ..functions })
    }
}

#[cfg(test)]
mod tests {
    use crate::gpu::Gpu;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;

    /// The guard's own words count as well: 48 KiB and they are more than a block has without
    /// asking.
    #[test]
    fn static_shared_memory_counts_with_dynamic() {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let asked = |name: &str, shared| {
            gpu.network_kernel(name, shared, &[]).unwrap();
            std::mem::take(&mut *gpu.context().vendor.reserved.lock())
        };
        assert_eq!(asked("a", (48 << 10) - 128), [0; 0]);
        assert_eq!(asked("ab", 48 << 10), [48 << 10; 3], "plain, guarded, in turns");
        assert_eq!(asked("ab", 48 << 10), [0; 0], "it has been");
    }
}
