//! Code that the program has registered, usually before `main`. Nothing is loaded here.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An image with the kernels and variables of a part of the program.
#[derive(Debug)]
pub(crate) struct Module {
    /// Address of the wrapper around the fat binary, which lasts as long as the module.
    pub(crate) image: usize,
    /// The driver's library, once it is loaded, or why it can't be.
    pub(crate) library: Mutex<Option<Result<usize, u32>>>,
}

/// A kernel that the program can launch.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) module: Arc<Module>,
    /// Address of the host's function that stands for it.
    pub(crate) host: usize,
    pub(crate) name: CString,
    /// The driver's handle, once it is known.
    pub(crate) kernel: AtomicUsize,
}

/// A variable of the device.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) module: Arc<Module>,
    pub(crate) name: CString,
    pub(crate) bytes: usize,
    pub(crate) is_managed: bool,
}

/// All that is registered.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    /// By the addresses that the program got as their handles.
    modules: HashMap<usize, Arc<Module>>,
    /// By the host's functions, and by the handles that were given out for them.
    functions: HashMap<usize, Arc<Function>>,
    /// By the host's variables.
    variables: HashMap<usize, Arc<Variable>>,
}

fn all() -> &'static RwLock<Registered> {
    static ALL: OnceLock<RwLock<Registered>> = OnceLock::new();
    ALL.get_or_init(RwLock::default)
}

fn read() -> RwLockReadGuard<'static, Registered> {
    all().read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Registered> {
    all().write().unwrap_or_else(PoisonError::into_inner)
}

/// Notes an image. Returns its handle, which isn't zero.
pub(crate) fn add_module(image: usize) -> usize {
    let module = Arc::new(Module { image, library: Mutex::new(None) });
    let handle = Arc::as_ptr(&module) as usize;
    write().modules.insert(handle, module);
    handle
}

/// Notes a kernel of an image.
pub(crate) fn add_function(module: usize, host: usize, name: CString) {
    let mut all = write();
    let Some(module) = all.modules.get(&module).cloned() else { return };
    let function = Function { module, host, name, kernel: AtomicUsize::new(0) };
    all.functions.insert(host, Arc::new(function));
}

/// Notes a variable of an image.
pub(crate) fn add_variable(
    module: usize,
    host: usize,
    name: CString,
    bytes: usize,
    is_managed: bool,
) {
    let mut all = write();
    let Some(module) = all.modules.get(&module).cloned() else { return };
    all.variables.insert(host, Arc::new(Variable { module, name, bytes, is_managed }));
}

/// Gives a kernel another name: a handle that the program has got.
pub(crate) fn name_function(handle: usize, function: &Arc<Function>) {
    if !read().functions.contains_key(&handle) {
        write().functions.insert(handle, function.clone());
    }
}

/// Forgets an image, with its kernels and variables. Returns it.
pub(crate) fn remove_module(handle: usize) -> Option<Arc<Module>> {
    let mut all = write();
    let module = all.modules.remove(&handle)?;
    all.functions.retain(|_, function| !Arc::ptr_eq(&function.module, &module));
    all.variables.retain(|_, variable| !Arc::ptr_eq(&variable.module, &module));
    Some(module)
}

/// Returns an image by its handle.
pub(crate) fn module(handle: usize) -> Option<Arc<Module>> {
    read().modules.get(&handle).cloned()
}

/// Returns a kernel by the host's function, or by a handle.
pub(crate) fn function(at: usize) -> Option<Arc<Function>> {
    read().functions.get(&at).cloned()
}

/// Returns a variable by the host's one.
pub(crate) fn variable(host: usize) -> Option<Arc<Variable>> {
    read().variables.get(&host).cloned()
}
