//! Kernels by the handles with which they are launched.

use super::images::{self, Code, Owner};
use super::shape::{Shape, ShapeKey};
use crate::catch_panics::catch_panics;
use crate::limit::charges::Kind;
use crate::settings::keeps_code;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

/// Kernel that the program has looked up.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(super) code: Code,
    owner: Option<Owner>,
    /// True if its handle is that of a library's kernel, and not of a function in a context.
    pub(super) is_of_library: bool,
    shapes: Mutex<HashMap<ShapeKey, Shape>>,
}

static KERNELS: LazyLock<RwLock<HashMap<usize, Arc<Kernel>>>> = LazyLock::new(RwLock::default);

/// Kernels that have ended, for the report.
static ENDED: Mutex<Vec<Arc<Kernel>>> = Mutex::new(Vec::new());
const MAX_ENDED: usize = 1024;

impl Kernel {
    fn new(name: String, code: Code, owner: Option<Owner>) -> Self {
        let is_of_library = owner.is_some_and(|(kind, _)| kind == Kind::Library);
        Self { name, code, owner, is_of_library, shapes: Mutex::default() }
    }

    pub(super) fn shapes(&self) -> MutexGuard<'_, HashMap<ShapeKey, Shape>> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks a kernel up in a module or library by `call`, which writes its handle.
pub(crate) fn look_up(
    owner: Owner,
    to: *const usize,
    name: *const c_char,
    call: impl FnOnce() -> u32,
) -> u32 {
    let code = call();
    if code == 0 && keeps_code() && !to.is_null() && !name.is_null() {
        // SAFETY: where the driver has just written, from a name that it has just read.
        let (handle, name) = unsafe { (*to, CStr::from_ptr(name)) };
        catch_panics(|| note(owner, handle, name));
    }
    code
}

fn note(owner: Owner, handle: usize, name: &CStr) {
    let name = name.to_string_lossy();
    let unseen = || Arc::new(Err("the load of its module was not seen".into()));
    let code = images::find(owner).unwrap_or_else(unseen);
    insert_new(handle, Kernel::new(name.into_owned(), code, Some(owner)));
}

/// Gets the function of a library's kernel in a context by `call`, which writes its handle.
pub(crate) fn copy(to: *const usize, kernel: usize, call: impl FnOnce() -> u32) -> u32 {
    let code = call();
    // SAFETY: null, or where the driver has just written.
    if let (0, true, Some(handle)) = (code, keeps_code(), unsafe { to.as_ref() }) {
        catch_panics(|| {
            if let Some(known) = find(kernel).filter(|_| *handle != kernel) {
                let new = Kernel::new(known.name.clone(), known.code.clone(), known.owner);
                insert_new(*handle, Kernel { is_of_library: false, ..new });
            }
        });
    }
    code
}

pub(super) fn find(handle: usize) -> Option<Arc<Kernel>> {
    KERNELS.read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned()
}

/// Returns the kernel of a handle, which may not have been looked up by name.
pub(crate) fn find_or_unknown(handle: usize) -> Arc<Kernel> {
    find(handle).unwrap_or_else(|| {
        let code = Arc::new(Err("its name was not looked up by a call that is seen".into()));
        let unknown = Arc::new(Kernel::new(format!("{handle:#x}"), code, None));
        insert(handle, unknown.clone());
        unknown
    })
}

/// Inserts a kernel, unless it is known: its measurements stay. A handle of what has ended comes
/// back, so the code must be the same, too.
fn insert_new(handle: usize, kernel: Kernel) {
    let is_known = |known: &Kernel| {
        let is_same = known.owner == kernel.owner && known.name == kernel.name;
        is_same && Arc::ptr_eq(&known.code, &kernel.code)
    };
    if find(handle).is_none_or(|known| !is_known(&known)) {
        insert(handle, Arc::new(kernel));
    }
}

fn insert(handle: usize, kernel: Arc<Kernel>) {
    let old = KERNELS.write().unwrap_or_else(PoisonError::into_inner).insert(handle, kernel);
    old.into_iter().for_each(end);
}

fn end(kernel: Arc<Kernel>) {
    let mut ended = ENDED.lock().unwrap_or_else(PoisonError::into_inner);
    if ended.len() < MAX_ENDED && !kernel.shapes().is_empty() {
        ended.push(kernel);
    }
}

/// Unloads code by `call`. Nothing uses its handles from now on.
pub(crate) fn unload(kind: Kind, handle: usize, call: impl FnOnce() -> u32) -> u32 {
    if keeps_code() {
        catch_panics(|| {
            images::forget((kind, handle));
            forget((kind, handle));
        });
    }
    call()
}

fn forget(owner: Owner) {
    let mut gone = Vec::new();
    KERNELS.write().unwrap_or_else(PoisonError::into_inner).retain(|_, kernel| {
        let stays = kernel.owner != Some(owner);
        if !stays {
            gone.push(kernel.clone());
        }
        stays
    });
    gone.into_iter().for_each(end);
}

pub(super) fn by_handles() -> Vec<(usize, Arc<Kernel>)> {
    let known = KERNELS.read().unwrap_or_else(PoisonError::into_inner);
    known.iter().map(|(handle, kernel)| (*handle, kernel.clone())).collect()
}

pub(super) fn all() -> Vec<Arc<Kernel>> {
    let ended = ENDED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let known = KERNELS.read().unwrap_or_else(PoisonError::into_inner);
    ended.into_iter().chain(known.values().cloned()).collect()
}
