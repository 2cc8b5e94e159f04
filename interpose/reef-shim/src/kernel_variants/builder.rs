//! Thread that builds variants: the program's threads don't wait for a compiler.
//!
//! The driver compiles, in the kernel's context. A context that ends waits for that, outside of
//! the driver ([`order::settle`]); the thread uses no handle of the program but the context's, and
//! whatever the driver does under its locks needs no gate to open.

use super::cut::StopKind;
use super::driver::calls as driver;
use super::images::Code;
use crate::guest::tree::branch::Branch;
use crate::order;
use crate::settings::{Slices, settings};
use crate::stops::agent;
use crate::stops::stop_context::StopContext;
use crate::thread;
use reef_ptx::{Module, Variant, kernels};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

/// Maximum number of variants of a context. They stay as long as it.
const MAX_VARIANTS: usize = 256;

/// Name of a kernel that does nothing.
const NOTHING: &str = "reef_nothing";

/// Variant that is to be built, and the result when it is.
#[derive(Debug)]
pub(super) struct Order {
    kernel: String,
    code: Code,
    branch: &'static Branch,
    /// Number of the context.
    context: u64,
    /// Compute capability of the device, as 90.
    capability: u32,
    /// Places in which its blocks should be able to leave.
    stops: StopKind,
    result: OnceLock<Result<Built, String>>,
}

/// Variant in a context.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) function: usize,
    /// Kernel that does nothing, of the same module.
    pub(super) nothing: usize,
    pub(super) may_be_sliced: bool,
    /// True if blocks that run can leave, too.
    pub(super) has_preemption_points: bool,
    /// Memory by which its slices are stopped, if its blocks can leave.
    pub(super) stops: Option<&'static StopContext>,
    /// Bytes of each of the kernel's own parameters, and those up to the variant's own.
    pub(super) parameters: Vec<usize>,
    pub(super) bytes: u64,
}

impl Order {
    pub(super) fn new(
        kernel: String,
        code: Code,
        branch: &'static Branch,
        capability: u32,
        stops: StopKind,
    ) -> Arc<Self> {
        let context = branch.context.name();
        let result = OnceLock::new();
        Arc::new(Self { kernel, code, branch, context, capability, stops, result })
    }

    /// Returns an order of a simpler variant, for when this one doesn't fit. `None`: there is none.
    pub(super) fn simpler(&self) -> Option<Arc<Self>> {
        let stops = match self.stops {
            StopKind::InBlocks => StopKind::BeforeBlocks,
            StopKind::BeforeBlocks => StopKind::Never,
            StopKind::Never => return None,
        };
        let (kernel, code) = (self.kernel.clone(), self.code.clone());
        Some(Self::new(kernel, code, self.branch, self.capability, stops))
    }

    /// Returns the variant, once it is built.
    pub(super) fn result(&self) -> Option<&Result<Built, String>> {
        self.result.get()
    }

    /// Has the variant built.
    pub(super) fn send(self: &Arc<Self>) {
        static THREAD: OnceLock<Option<Sender<Arc<Order>>>> = OnceLock::new();
        let start = || {
            let (sender, orders) = channel();
            thread::spawn("reef-variants", move || run(&orders)).is_ok().then_some(sender)
        };
        let sender = THREAD.get_or_init(start);
        if sender.as_ref().is_none_or(|sender| sender.send(self.clone()).is_err()) {
            let _ = self.result.set(Err("there is no thread that builds variants".into()));
        }
    }

    fn build(
        &self,
        known: &mut HashMap<(u64, String), Result<Built, String>>,
    ) -> Result<Built, String> {
        let (variant, plain) = read(&self.code, &self.kernel, self.capability, self.stops)?;
        let key = (self.context, variant.text.clone());
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        if known.keys().filter(|(context, _)| *context == self.context).count() >= MAX_VARIANTS {
            return Err(format!("this context has {MAX_VARIANTS} variants"));
        }
        let result = self.load(&variant, plain.as_deref());
        known.insert(key, result.clone());
        result
    }

    /// Checks that the driver compiles the kernel to the machine code that the program has.
    fn check(&self, plain: &CStr) -> Result<(), String> {
        let of = |cubin: &[u8]| match self.code.as_ref() {
            Ok(code) => code.is_compiled_as(self.capability, &self.kernel, cubin).unwrap_or(true),
            Err(_) => false,
        };
        match driver::compile(plain, of) {
            Some(true) => Ok(()),
            Some(false) => Err("the driver compiles its PTX to other code than it has".into()),
            None => Err("the driver doesn't compile its PTX".into()),
        }
    }

    fn load(&self, variant: &Variant, plain: Option<&str>) -> Result<Built, String> {
        let context = &self.branch.context;
        let plain = plain.map(zero).transpose()?;
        let in_context = || {
            plain.map_or(Ok(()), |plain| self.check(&plain))?;
            let (_, built) = load(variant, &self.kernel)?;
            let stop_context =
                variant.may_be_stopped.then(|| StopContext::of(self.branch)).transpose()?;
            if stop_context.is_some() {
                agent::start();
            }
            Ok(Built { stops: stop_context, ..built })
        };
        order::compile(|| {
            if context.is_live() && context.name() == self.context {
                context.within(in_context)
            } else {
                Err("its context has ended".into())
            }
        })
    }
}

fn zero(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "its PTX has a zero byte".into())
}

/// Returns the variant, and the kernel's own text if the driver's compiler must be checked.
pub(super) fn read(
    code: &Code,
    name: &str,
    capability: u32,
    stops: StopKind,
) -> Result<(Variant, Option<String>), String> {
    let loaded = code.as_ref().as_ref().map_err(String::clone)?;
    let text = loaded.text(capability)?;
    let module = Module::read(&text).map_err(|error| error.to_string())?;
    let kernel = kernels(&module).find(|kernel| kernel.name() == name);
    let kernel = kernel.ok_or("its PTX has no kernel of this name")?;
    let stoppable =
        (stops == StopKind::InBlocks).then(|| kernel.with_preemption_points().ok()).flatten();
    let stopped = match stops {
        StopKind::Never => None,
        _ => stoppable.or_else(|| kernel.variant().ok()),
    };
    let variant =
        stopped.map_or_else(|| kernel.sliced(), Ok).map_err(|reason| reason.to_string())?;
    let is_checked = settings().slices != Some(Slices::Any)
        && loaded.has_machine_code(capability)
        && kernel.depends_on_compiler();
    Ok((variant, is_checked.then(|| kernel.source())))
}

/// Loads a variant into the current context. Returns its module, too.
pub(super) fn load(variant: &Variant, name: &str) -> Result<(usize, Built), String> {
    let (text, mut module) = (zero(&with_nothing(&variant.text))?, 0);
    // SAFETY: texts that end with zeros.
    let code = unsafe { driver::load_text(&mut module, text.as_ptr()) };
    if code != Some(0) {
        return Err(format!("the driver doesn't compile its variant: code {}", code_text(code)));
    }
    let (function, nothing) = (find(module, name)?, find(module, NOTHING)?);
    let parameters = variant.parameters.clone();
    let (bytes, may_be_sliced) = (variant.offset, variant.may_be_sliced);
    let has_preemption_points = variant.points > 0;
    let stops = None;
    let built =
        Built { function, nothing, may_be_sliced, has_preemption_points, stops, parameters, bytes };
    Ok((module, built))
}

/// Adds a kernel that does nothing to a module, behind its directives.
fn with_nothing(text: &str) -> String {
    let line = |at: usize| text[at..].find('\n').map(|end| at + end + 1);
    let end = text.find(".address_size").and_then(line).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    format!("{head}.visible .entry {NOTHING}()\n{{\n\tret;\n}}\n{rest}")
}

/// Finds a kernel of a variant's module, and loads its code.
fn find(module: usize, name: &str) -> Result<usize, String> {
    let (name, mut function) = (zero(name)?, 0);
    // SAFETY: a text that ends with a zero.
    let code = unsafe { driver::get_function(&mut function, module, name.as_ptr()) };
    if code != Some(0) {
        return Err(format!("its variant isn't found: code {}", code_text(code)));
    }
    let _ = driver::load_function(function); // or at its first launch
    Ok(function)
}

fn code_text(code: Option<u32>) -> String {
    code.map_or_else(|| "none".into(), |code| code.to_string())
}

fn run(orders: &Receiver<Arc<Order>>) {
    let mut known = HashMap::new();
    while let Ok(order) = orders.recv() {
        let built = catch_unwind(AssertUnwindSafe(|| order.build(&mut known)));
        let _ = order.result.set(built.unwrap_or_else(|_| Err("its PTX isn't read".into())));
    }
}
