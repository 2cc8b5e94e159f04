//! Rules for every schedule graph, whether loaded or built.
//!
//! Indices are in range, names that must be unique are, what is given is never written, nothing is
//! read before something has written it, and the last step writes `output`.

use super::problem::{Fault, Problem};
use super::schedule::{KernelCall, ScheduleGraph, Step, Work};
use reef_core::Dim3;
use std::collections::{HashMap, HashSet};

/// Names that REEF's files give to any number of storages.
const SHARED_NAMES: [&str; 3] = ["null", "temp_arg", "temp"];

impl ScheduleGraph {
    /// Checks all that the module lists. A fault says where, in terms of the JSON form.
    pub(crate) fn validate(&self) -> Result<(), Fault> {
        self.check_storages()?;
        self.check_indices()?;
        self.check_geometries()?;
        self.check_given()?;
        self.check_order()?;
        self.check_output()
    }

    fn check_storages(&self) -> Result<(), Fault> {
        for (list, len) in [("storage", self.storages.len()), ("kernels", self.steps.len())] {
            ensure(len > 0, || (list.into(), Problem::Empty))?;
        }
        let mut names = HashSet::with_capacity(self.storages.len());
        for (i, storage) in self.storages.iter().enumerate() {
            let size = storage.elements;
            let fits =
                size.checked_mul(storage.element.bytes()).is_some_and(|n| n > 0 && n >> 48 == 0);
            ensure(fits, || (format!("storage[{i}].size"), Problem::Size(size)))?;
            let unique = SHARED_NAMES.contains(&&*storage.name) || names.insert(&storage.name);
            ensure(unique, || {
                (format!("storage[{i}].name"), Problem::NameTaken(storage.name.clone()))
            })?;
        }
        Ok(())
    }

    fn check_indices(&self) -> Result<(), Fault> {
        let storages = self.storages.len();
        let out_of_range = |list: &[usize]| list.iter().position(|&index| index >= storages);
        let fault = |list: &[usize], i: usize, at: String| {
            (format!("{at}[{i}]"), Problem::StorageIndex { index: list[i], storages })
        };
        if let Some(i) = out_of_range(&self.given) {
            return Err(fault(&self.given, i, "args".into()));
        }
        for (k, step) in self.steps.iter().enumerate() {
            let wrong = match &step.work {
                Work::Kernel(call) => out_of_range(&call.args),
                Work::Op(_) => step.touches().position(|index| index >= storages),
            };
            if let Some(i) = wrong {
                return Err(fault(&step.args(), i, format!("kernels[{k}].args")));
            }
        }
        Ok(())
    }

    fn check_geometries(&self) -> Result<(), Fault> {
        let mut first: HashMap<&str, &KernelCall> = HashMap::new();
        for (k, step) in self.steps.iter().enumerate() {
            let Work::Kernel(call) = &step.work else { continue };
            let before = *first.entry(&step.name).or_insert(call);
            let at = || format!("kernels[{k}].launch_params");
            let (grid, block) = (call.grid, call.block);
            ensure(countable(grid) && countable(block), || {
                (at(), Problem::Geometry { grid, block })
            })?;
            ensure((before.grid, before.block) == (grid, block), || {
                (at(), Problem::GeometryDiffers { kernel: step.name.clone(), grid, block })
            })?;
            let [given, before] = [call.args.len(), before.args.len()];
            ensure(given == before, || {
                let kernel = step.name.clone();
                (format!("kernels[{k}].args"), Problem::ArgsDiffer { kernel, given, before })
            })?;
        }
        Ok(())
    }

    fn check_given(&self) -> Result<(), Fault> {
        let mut seen = HashSet::new();
        let mut read = vec![false; self.storages.len()];
        self.steps.iter().flat_map(|step| &step.reads).for_each(|&storage| read[storage] = true);
        for (i, &storage) in self.given.iter().enumerate() {
            let at = || format!("args[{i}]");
            ensure(seen.insert(storage), || (at(), Problem::GivenTwice(storage)))?;
            ensure(read[storage], || (at(), Problem::NeverRead(storage)))?;
        }
        Ok(())
    }

    fn check_order(&self) -> Result<(), Fault> {
        let mut given = vec![false; self.storages.len()];
        self.given.iter().for_each(|&storage| given[storage] = true);
        let mut full = given.clone();
        for (k, step) in self.steps.iter().enumerate() {
            let at = |storage| format!("kernels[{k}].args[{}]", step.argument(storage));
            for &read in &step.reads {
                ensure(read != step.writes, || (at(read), Problem::WrittenTwice(read)))?;
                ensure(full[read], || (at(read), Problem::ReadBeforeWritten(read)))?;
            }
            let writes = step.writes;
            ensure(!given[writes], || (at(writes), Problem::GivenWritten(writes)))?;
            full[writes] = true;
        }
        Ok(())
    }

    fn check_output(&self) -> Result<(), Fault> {
        let output =
            self.storage("output").ok_or_else(|| ("storage".to_owned(), Problem::NoOutput))?;
        let k = self.steps.len() - 1;
        let writes = self.steps[k].writes;
        ensure(writes == output, || {
            (format!("kernels[{k}].args"), Problem::LastWrites { writes, output })
        })
    }
}

impl Step {
    /// Its storages in the order of the JSON form.
    fn args(&self) -> Vec<usize> {
        match &self.work {
            Work::Kernel(call) => call.args.clone(),
            Work::Op(_) => self.touches().collect(),
        }
    }

    fn argument(&self, storage: usize) -> usize {
        self.args().iter().position(|&arg| arg == storage).unwrap_or_default()
    }
}

fn ensure(holds: bool, fault: impl FnOnce() -> Fault) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault()) }
}

fn countable(size: Dim3) -> bool {
    let product = size.iter().try_fold(1u32, |product, &n| product.checked_mul(n));
    product.is_some_and(|product| product > 0)
}
