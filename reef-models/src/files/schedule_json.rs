//! Reads the graphs that REEF publishes: `MODEL.json`, and those of networks that were saved here.
//!
//! The files name no directions. [`written_argument`] recovers them from the kernel names, as the
//! published kernels are written; everything else that a graph must satisfy is checked by
//! [`validate`](crate::graph::validate).

use super::json;
use super::op_json::OpEntry;
use crate::errors::error::{Error, Result};
use crate::graph::problem::{Fault, Problem};
use crate::graph::schedule::{ElementType, KernelCall, ScheduleGraph, Step, Storage, Work};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::tensor::Constants;
use reef_op::Op;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The file as it stands.
#[derive(Deserialize)]
pub(crate) struct File {
    storage: Vec<StorageEntry>,
    kernels: Vec<KernelEntry>,
    args: Vec<usize>,
    shared_memory: BTreeMap<String, u64>,
    /// Names of input and output, if they are others than usual.
    #[serde(default)]
    pub(super) ports: Option<[String; 2]>,
    /// Sizes of input and output, if they are others than usual.
    #[serde(default)]
    pub(super) sizes: Option<[Vec<usize>; 2]>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct StorageEntry {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) stype: String,
}

/// A compiled kernel has `launch_params`, an operation has `op` and what it takes its constants
/// from.
#[derive(Serialize, Deserialize)]
pub(crate) struct KernelEntry {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) launch_params: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) op: Option<OpEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) constants: Option<Constants>,
    pub(crate) args: Vec<usize>,
}

impl ScheduleGraph {
    /// Reads and validates one of REEF's `MODEL.json` files. The graph is named after the file.
    ///
    /// # Errors
    ///
    /// `Io` if the file can't be read, `Json` if it can't be parsed, `Graph` if it is not a graph,
    /// `Memory` if that would take more than the default [budget](Budget).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let ledger = Ledger::new(&Budget::default());
        let mut graph = json::read(path, &ledger, Self::from_json)?;
        graph.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(graph)
    }

    /// Parses and validates the text of a `MODEL.json`; `name` names it in errors too.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Self::load).
    pub fn from_json(text: &str, name: &str) -> Result<Self> {
        json::parse::<File>(text, name)?
            .graph(name)
            .and_then(|graph| graph.validate().map(|()| graph))
            .map_err(|(at, problem)| Error::Graph { file: name.into(), at, problem })
    }
}

impl File {
    /// Constants of each kernel. They are moved out of the file.
    pub(crate) fn take_constants(&mut self) -> Vec<Option<Constants>> {
        self.kernels.iter_mut().map(|kernel| kernel.constants.take()).collect()
    }

    pub(crate) fn graph(self, name: &str) -> Result<ScheduleGraph, Fault> {
        self.graph_of(name, &|_| None)
    }

    /// The graph, where `written` knows which argument a kernel writes; for others their names
    /// tell.
    pub(crate) fn graph_of(
        self,
        name: &str,
        written: &dyn Fn(&str) -> Option<usize>,
    ) -> Result<ScheduleGraph, Fault> {
        self.shared_memory_names_the_kernels()?;
        let storages = numbered(&self.storage, "storage", StorageEntry::storage)?;
        let names: BTreeSet<&str> = self.kernels.iter().map(|kernel| &*kernel.name).collect();
        let written =
            |kernel: &str| written(kernel).unwrap_or_else(|| written_argument(kernel, &names));
        let steps = numbered(&self.kernels, "kernels", |kernel| kernel.step(&written))?;
        Ok(ScheduleGraph { name: name.into(), storages, steps, given: self.args })
    }

    fn shared_memory_names_the_kernels(&self) -> Result<(), Fault> {
        let have: BTreeSet<&str> = self.shared_memory.keys().map(String::as_str).collect();
        let compiled = self.kernels.iter().filter(|kernel| kernel.op.is_none());
        let want: BTreeSet<&str> = compiled.map(|kernel| &*kernel.name).collect();
        let fault = |problem| Err(("shared_memory".into(), problem));
        if let Some(&name) = want.difference(&have).next() {
            return fault(Problem::NoSharedMemory(name.into()));
        }
        match have.difference(&want).next() {
            Some(&name) => fault(Problem::SharedMemoryOfNone(name.into())),
            None => Ok(()),
        }
    }
}

/// Converts each entry, and completes the place of a fault to `list[i].field`.
fn numbered<E, T>(
    entries: &[E],
    list: &str,
    convert: impl Fn(&E) -> Result<T, (&'static str, Problem)>,
) -> Result<Vec<T>, Fault> {
    let at = |(i, entry)| {
        convert(entry).map_err(|(field, problem)| (format!("{list}[{i}].{field}"), problem))
    };
    entries.iter().enumerate().map(at).collect()
}

impl StorageEntry {
    fn storage(&self) -> Result<Storage, (&'static str, Problem)> {
        let element = ElementType::named(&self.stype)
            .ok_or_else(|| ("stype", Problem::ElementType(self.stype.clone())))?;
        Ok(Storage { name: self.name.clone(), elements: self.size, element })
    }
}

impl KernelEntry {
    fn step(&self, written: &dyn Fn(&str) -> usize) -> Result<Step, (&'static str, Problem)> {
        match (&self.op, &self.launch_params) {
            (Some(OpEntry(op)), None) => self.operation(*op),
            (None, Some(params)) => self.kernel(params, written(&self.name)),
            _ => Err(("op", Problem::Work)),
        }
    }

    fn operation(&self, op: Op) -> Result<Step, (&'static str, Problem)> {
        let few = Problem::TooFewArgs { given: self.args.len(), written: 1 };
        match self.args.split_last() {
            Some((&writes, reads)) if !reads.is_empty() => {
                let (name, reads) = (self.name.clone(), reads.to_vec());
                Ok(Step { name, reads, writes, work: Work::Op(op) })
            }
            _ => Err(("args", few)),
        }
    }

    fn kernel(&self, params: &[u32], at: usize) -> Result<Step, (&'static str, Problem)> {
        let &[gx, gy, gz, bx, by, bz] = params else {
            return Err(("launch_params", Problem::LaunchParams(params.len())));
        };
        let writes = *self
            .args
            .get(at)
            .ok_or(("args", Problem::TooFewArgs { given: self.args.len(), written: at }))?;
        let reads = self.args.iter().enumerate().filter(|&(i, _)| i != at).map(|(_, &s)| s);
        let call = KernelCall { grid: [gx, gy, gz], block: [bx, by, bz], args: self.args.clone() };
        Ok(Step {
            name: self.name.clone(),
            reads: reads.collect(),
            writes,
            work: Work::Kernel(call),
        })
    }
}

/// Position of the argument that kernel `name` writes; `names` are all kernels of its graph.
///
/// The first rule that fits. Checked against the bodies of all published kernels.
fn written_argument(name: &str, names: &BTreeSet<&str>) -> usize {
    let part = |n: u32| name.ends_with(&format!("_kernel{n}"));
    let any = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if any(&["winograd"]) {
        return if part(1) { 2 } else { 1 };
    }
    if any(&["conv2d", "dense", "batch_matmul"]) {
        return 2;
    }
    if any(&["pool2d"]) {
        return 1;
    }
    if any(&["softmax"]) {
        return usize::from(!in_parts(name, names));
    }
    if name.starts_with("fused_mean") {
        return usize::from(part(0));
    }
    if name.starts_with("fused_variance") {
        return if part(0) { 2 } else { 0 };
    }
    if matches!(name, "add" | "multiply") { 2 } else { 0 }
}

/// Returns whether a kernel is one of several that compute its operation together, as bert's
/// softmax is.
fn in_parts(name: &str, names: &BTreeSet<&str>) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    names.contains(format!("{stem}1").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_written_argument() {
        let names = BTreeSet::from(["fused_nn_softmax_1_kernel0", "fused_nn_softmax_1_kernel1"]);
        let at = |name| written_argument(name, &names);
        assert_eq!(at("fused_winograd_nn_conv2d_kernel1"), 2);
        assert_eq!(at("fused_winograd_nn_conv2d_kernel2"), 1);
        assert_eq!(at("tvmgen_default_fused_nn_dense_add_kernel0"), 2);
        assert_eq!(at("fused_nn_max_pool2d_kernel0"), 1);
        assert_eq!(at("fused_nn_softmax_kernel0"), 1, "alone");
        assert_eq!(at("fused_nn_softmax_1_kernel0"), 0, "one of several");
        assert_eq!([at("fused_mean_kernel0"), at("fused_mean_kernel1")], [1, 0]);
        assert_eq!([at("fused_variance_kernel0"), at("fused_variance_kernel1")], [2, 0]);
        assert_eq!([at("multiply"), at("fused_cast_kernel0")], [2, 0]);
    }
}
