//! Kernels: functions of loaded code, with or without a guard.

use crate::code::guard::Guard;
use crate::code::loaded::{Builds, Code, Functions};
use crate::driver::handles::cloned;
use crate::hal::calls::Vendor;
use reef_core::{Error, Result};
use std::sync::Arc;

/// A kernel ready to launch.
#[derive(Debug)]
pub struct Kernel<V: Vendor>(Arc<LoadedKernel<V>>);

cloned!(Kernel);

#[derive(Debug)]
struct LoadedKernel<V: Vendor> {
    name: String,
    plain: V::Function,
    guarded: Option<V::Function>,
    /// Bytes of shared memory that each launch asks for.
    shared: u32,
    /// A parameter behind the guard that is passed by value, the same at every launch.
    bound: Box<[u64]>,
    /// Number of words that a launch passes, where the driver can tell.
    words: Option<usize>,
    turns: Option<V::Function>,
    follows: bool,
    /// Its plain build notes when a launch begins and ends.
    notes_times: bool,
    registers: u32,
    static_shared: u32,
    _code: Vec<Arc<Code<V>>>,
}

impl<V: Vendor> Kernel<V> {
    /// A kernel without a guard, which can't be stopped midway.
    pub(crate) fn opaque(code: &Arc<Code<V>>, name: &str) -> Result<Self> {
        let functions = code.describe(code.function(name)?)?;
        Self::new(name, vec![code.clone()], &functions, 0, &[], false)
    }

    /// A preemptible kernel, with `shared` bytes of dynamic shared memory and a bound parameter.
    pub(crate) fn preemptible(
        builds: &Builds<V>,
        name: &str,
        shared: u32,
        bound: &[u64],
    ) -> Result<Self> {
        let functions = builds.functions(name, shared)?;
        Self::new(name, builds.code(), &functions, shared, bound, false)
    }

    /// A preemptible kernel whose plain build notes its times: one of kernels/builtin.cu.
    pub(crate) fn noting(builds: &Builds<V>, name: &str) -> Result<Self> {
        let functions = builds.functions(name, 0)?;
        Self::new(name, builds.code(), &functions, 0, &[], true)
    }

    fn new(
        name: &str,
        code: Vec<Arc<Code<V>>>,
        functions: &Functions<V>,
        shared: u32,
        bound: &[u64],
        notes_times: bool,
    ) -> Result<Self> {
        let &Functions { plain, guarded, turns, follows, registers, .. } = functions;
        let Functions { shared: static_shared, parameters, .. } = functions;
        let own = usize::from(guarded.is_some()) + usize::from(!bound.is_empty());
        let starts_with_guard =
            |sizes: &Vec<usize>| sizes.len() >= own && sizes[0] == size_of::<Guard>();
        if guarded.is_some() && parameters.as_ref().is_some_and(|sizes| !starts_with_guard(sizes)) {
            let argument = format!("kernel {name}");
            return Err(Error::invalid(argument, "the first parameter must be a reef::Guard"));
        }
        Ok(Self(Arc::new(LoadedKernel {
            name: name.into(),
            plain,
            guarded,
            shared,
            bound: bound.into(),
            words: parameters.as_ref().map(|sizes| sizes.len() - own),
            turns,
            follows,
            notes_times,
            registers,
            static_shared: *static_shared,
            _code: code,
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

    pub(crate) fn plain(&self) -> V::Function {
        self.0.plain
    }

    pub(crate) fn guarded(&self) -> Option<V::Function> {
        self.0.guarded
    }

    /// The build for launches that have a grid of fewer blocks than they run.
    pub(crate) fn turns(&self) -> Option<V::Function> {
        self.0.turns
    }

    /// Returns whether the plain build waits by itself for the launch before it, so that it may
    /// start early.
    pub(crate) fn follows(&self) -> bool {
        self.0.follows
    }

    /// Returns whether launches of the plain build note their times: [`Guard::noting`].
    pub(crate) fn notes_times(&self) -> bool {
        self.0.notes_times
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
            Some(want) if want != given => Err(Error::invalid(
                format!("kernel {}", self.0.name),
                format!("takes {want} arguments, got {given}"),
            )),
            _ => Ok(()),
        }
    }
}
