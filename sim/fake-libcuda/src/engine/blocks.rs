//! Kernels in PTX: their blocks run one by one, in the order of the grid. Operations of other
//! streams run between some of them.

use super::settings::setting;
use reef_ptx::interpret::{Grid, Memory, Program};
use reef_ptx::{Module, kernels};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Kernel of a module.
pub(crate) struct PtxKernel {
    program: Program<'static, 'static>,
    /// Offsets and bytes of its parameters.
    pub(crate) parameters: Vec<(usize, usize)>,
}

impl fmt::Debug for PtxKernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PtxKernel").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// Modules by their text, kept until the process ends, and their kernels by name.
type Modules = HashMap<Arc<str>, (&'static Module<'static>, HashMap<String, Arc<PtxKernel>>)>;

static MODULES: LazyLock<Mutex<Modules>> = LazyLock::new(Mutex::default);

/// Launch of a kernel.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) entry: Arc<PtxKernel>,
    pub(crate) grid: Grid,
    /// The program's handle, its dynamic shared memory, and the context.
    pub(crate) function: usize,
    pub(crate) shared: u32,
    pub(crate) context: usize,
}

impl Launched {
    /// A launch with copies of its parameters. Handles are the function's and the context's.
    ///
    /// # Safety
    ///
    /// There is an address of each of them, or null.
    pub(crate) unsafe fn new(
        entry: Arc<PtxKernel>,
        handles: [usize; 2],
        [blocks, threads]: [[u32; 3]; 2],
        shared: u32,
        params: *const *const u64,
    ) -> Option<Self> {
        let end = entry.parameters.last().map_or(0, |(offset, bytes)| offset + bytes);
        let mut parameters = vec![0; end];
        if params.is_null() && end > 0 {
            return None;
        }
        for (at, (offset, bytes)) in entry.parameters.iter().copied().enumerate() {
            // SAFETY: `params` is not null where there are parameters, and `# Safety` demands an
            // address of each. `parameters` ends where the last one does.
            unsafe {
                let from = (*params.add(at)).cast::<u8>();
                std::ptr::copy_nonoverlapping(from, parameters[offset..].as_mut_ptr(), bytes);
            }
        }
        let grid = Grid { blocks, threads, parameters };
        let [function, context] = handles;
        Some(Self { entry, grid, function, shared, context })
    }
}

/// Memory of this process, and whether something was written there.
struct Here(bool);

impl Memory for Here {
    fn load(&self, at: usize, bytes: usize) -> [u8; 8] {
        let mut value = [0; 8];
        // SAFETY: kernels are programs' own, and a program keeps what they read until they have
        // run. A load has at most 8 bytes.
        unsafe { std::ptr::copy(at as *const u8, value.as_mut_ptr(), bytes) };
        value
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.0 = true;
        // SAFETY: kernels are programs' own, and a program keeps what they write until they have
        // run.
        unsafe { std::ptr::copy(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }
}

/// Finds a kernel in a module's text. Each text is read once.
pub(crate) fn entry(text: &Arc<str>, name: &str) -> Option<Arc<PtxKernel>> {
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if !modules.contains_key(text) {
        let kept: &'static str = Box::leak(Box::from(&**text));
        let module = Module::read(kept).ok()?;
        modules.insert(text.clone(), (Box::leak(Box::new(module)), HashMap::new()));
    }
    let (module, known) = modules.get_mut(text)?;
    if let Some(kernel) = known.get(name) {
        return Some(kernel.clone());
    }
    kernels(module).find(|kernel| kernel.name() == name)?;
    let program = Program::read(module, name);
    let kernel = Arc::new(PtxKernel { parameters: program.places(), program });
    known.insert(name.to_owned(), kernel.clone());
    Some(kernel)
}

/// Returns whether a text can be read by the driver's compiler.
pub(crate) fn is_readable(text: &str) -> bool {
    Module::read(text).is_ok()
}

/// Nanoseconds of a block.
static LENGTH: LazyLock<u64> = LazyLock::new(|| setting("REEF_FAKE_BLOCK_NS", 0));

/// Bytes of a per-thread variant's own parameter, the last one. A per-thread variant's block that
/// writes nothing has left at its beginning, which takes next to no time.
const PTSZ: usize = 64;

/// Blocks after which other streams have their turn.
const AT_ONCE: u64 = 8;

thread_local! {
    /// Time by which the device is late: blocks took longer because the machine was busy.
    static LATE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Runs some blocks, from this one on. Each takes `REEF_FAKE_BLOCK_NS`, or longer; those after one
/// that took longer make up for it. Returns the number of the next one, `None` if all have run; and
/// the nanoseconds that these took.
pub(crate) fn run(launched: &Launched, from: u64) -> (Option<u64>, u64) {
    let [width, height, depth] = launched.grid.blocks.map(u64::from);
    let (all, until) = (width.saturating_mul(height).saturating_mul(depth), from + AT_ONCE);
    let is_ptsz = launched.entry.parameters.last().is_some_and(|(_, bytes)| *bytes == PTSZ);
    if from == 0 {
        LATE.set(Duration::ZERO);
    }
    let mut nanos = 0;
    for at in from..until.min(all) {
        let begin = Instant::now();
        let block = [at % width, at / width % height, at / width / height];
        let mut here = Here(false);
        launched.entry.program.run(&launched.grid, block.map(|side| side as u32), &mut here);
        if is_ptsz && !here.0 {
            continue;
        }
        nanos += *LENGTH;
        take_length(begin);
    }
    ((until < all).then_some(until), nanos)
}

/// Waits until a block that began then has taken its length, less the time by which it is late.
fn take_length(begin: Instant) {
    let (length, late) = (Duration::from_nanos(*LENGTH), LATE.get());
    while begin.elapsed() + late < length {
        std::thread::yield_now();
    }
    LATE.set((begin.elapsed() + late).saturating_sub(length));
}
