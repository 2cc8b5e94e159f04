//! Kernels: functions of loaded code, with or without a guard.

use crate::context::Context;
use crate::driver::BACKEND;
use crate::guard::Guard;
use crate::module::{Builds, Code};
use crate::stream::Function;
use reef_core::{Error, Result};
use std::ffi::c_uint;
use std::sync::Arc;

/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const STATIC_SHARED: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`
const REGISTERS: c_uint = 4;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const DYNAMIC_SHARED: c_uint = 8;
/// Shared memory that a block gets without asking.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// A kernel ready to launch.
#[derive(Debug, Clone)]
pub struct Kernel(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    name: String,
    plain: Function,
    guarded: Option<Function>,
    /// Bytes of shared memory that each launch asks for.
    shared: u32,
    /// A parameter behind the guard that is passed by value, the same at every launch.
    bound: Box<[u64]>,
    /// How many words a launch passes, where the driver can tell.
    words: Option<usize>,
    registers: u32,
    static_shared: u32,
    _code: [Arc<Code>; 2],
}

impl Kernel {
    /// A kernel that nobody can stop midway: somebody else's, without a guard.
    pub(crate) fn foreign(code: &Arc<Code>, name: &str) -> Result<Self> {
        let plain = code.function(name)?;
        Self::load(name, [code, code], plain, None, 0, &[])
    }

    /// A preemptible kernel, with `shared` bytes of dynamic shared memory and a bound parameter.
    pub(crate) fn preemptible(
        builds: &Builds,
        name: &str,
        shared: u32,
        bound: &[u64],
    ) -> Result<Self> {
        let plain = builds.plain.function(name)?;
        let guarded = builds.guarded.function(name)?;
        Self::load(name, [&builds.plain, &builds.guarded], plain, Some(guarded), shared, bound)
    }

    fn load(
        name: &str,
        modules: [&Arc<Code>; 2],
        plain: Function,
        guarded: Option<Function>,
        shared: u32,
        bound: &[u64],
    ) -> Result<Self> {
        let context = modules[0].context();
        context.bind()?;
        for function in [Some(plain), guarded].into_iter().flatten() {
            reserve_shared(context, function, shared)?;
        }
        let own = usize::from(guarded.is_some()) + usize::from(!bound.is_empty());
        let sizes = parameter_sizes(context, plain);
        let starts_with_guard =
            |sizes: &Vec<usize>| sizes.len() >= own && sizes[0] == size_of::<Guard>();
        if guarded.is_some() && sizes.as_ref().is_some_and(|sizes| !starts_with_guard(sizes)) {
            let text =
                format!("{BACKEND}: the first parameter of kernel {name} is not a reef::Guard");
            return Err(Error::Invalid(text));
        }
        Ok(Self(Arc::new(Loaded {
            name: name.into(),
            plain,
            guarded,
            shared,
            bound: bound.into(),
            words: sizes.map(|sizes| sizes.len() - own),
            registers: attribute(context, guarded.unwrap_or(plain), REGISTERS)?,
            static_shared: attribute(context, plain, STATIC_SHARED)?,
            _code: modules.map(Arc::clone),
        })))
    }

    /// Its name in the source.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// 32-bit registers of one thread.
    pub fn registers(&self) -> u32 {
        self.0.registers
    }

    /// Bytes of shared memory of one block.
    pub fn shared(&self) -> u32 {
        self.0.shared + self.0.static_shared
    }

    pub(crate) fn plain(&self) -> Function {
        self.0.plain
    }

    pub(crate) fn guarded(&self) -> Option<Function> {
        self.0.guarded
    }

    pub(crate) fn dynamic_shared(&self) -> u32 {
        self.0.shared
    }

    pub(crate) fn bound(&self) -> &[u64] {
        &self.0.bound
    }

    /// Checks the number of words that a launch passes.
    pub(crate) fn check_words(&self, given: usize) -> Result<()> {
        match self.0.words {
            Some(want) if want != given => Err(Error::Invalid(format!(
                "{BACKEND}: kernel {} takes {want} arguments, got {given}",
                self.0.name
            ))),
            _ => Ok(()),
        }
    }
}

fn reserve_shared(context: &Context, function: Function, bytes: u32) -> Result<()> {
    if bytes <= SHARED_WITHOUT_ASKING {
        return Ok(());
    }
    // SAFETY: the function is loaded.
    unsafe { context.driver.cuFuncSetAttribute(function.0, DYNAMIC_SHARED, bytes as i32) }
}

fn attribute(context: &Context, function: Function, which: c_uint) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the pointer is valid for the call, the function is loaded.
    unsafe { context.driver.cuFuncGetAttribute(&mut value, which, function.0) }?;
    Ok(value as u32)
}

/// Bytes of each parameter of a kernel; `None`: this driver can't tell.
fn parameter_sizes(context: &Context, function: Function) -> Option<Vec<usize>> {
    let info = context.driver.cuFuncGetParamInfo?;
    let (mut offset, mut size, mut sizes) = (0, 0, Vec::new());
    // SAFETY: the pointers are valid for the call, the function is loaded.
    while unsafe { info(function.0, sizes.len(), &mut offset, &mut size) } == 0 {
        sizes.push(size);
    }
    Some(sizes)
}
