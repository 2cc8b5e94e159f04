//! From steps on tensors to a network for images.

use super::content::Content;
use super::shape::Form;
use super::weights::Pending;
use crate::ir::value::{Id, Make, Net, STEP, Value as NetValue};
use crate::memory::ledger::Ledger;
use crate::model::ports::Port;
use crate::tensors::builder::Builder;
use crate::tensors::step::TensorStep;
use crate::tensors::value::{KnownValues, Value, ValueData};
use std::rc::Rc;

/// Elements of the largest tensor, and the largest size of one: no network comes near.
const MAX_ELEMENTS: usize = 1 << 31;
const MAX_SIZE: usize = 1 << 20;

/// The step that is in the way, if it is one, and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Name of the node.
    pub(crate) node: Option<String>,
    /// Words that follow it.
    pub(crate) why: String,
}

/// A network that was recognised; its weights are still the reader's.
pub(crate) struct Recognised {
    net: Net,
    output: Id,
    pending: Vec<Pending>,
}

impl Recognised {
    /// The network with its weights, and its output. They are copied if the reader still has them.
    pub(crate) fn filled(self, ledger: &Ledger) -> Result<(Net, Id), String> {
        let Self { mut net, output, pending } = self;
        pending.into_iter().try_for_each(|pending| pending.fill(&mut net, ledger))?;
        Ok((net, output))
    }
}

/// The network for images of `input`, as `shape`, that makes `output`.
pub(crate) fn recognise(
    builder: &Builder<'_>,
    shape: [usize; 4],
    output: &Value,
    ledger: &Ledger,
) -> Result<Recognised, Refusal> {
    let of_graph = |why| Refusal { node: None, why };
    let ValueData::Storage(storage) = output.data else {
        return Err(of_graph("depends on no input".into()));
    };
    let mut reading = Reading::new(builder, storage, ledger);
    let [Port { name, storage: input, spec, .. }] = builder.inputs() else {
        return Err(of_graph("the network has not one input".into()));
    };
    Form::of(shape, &spec.dims).map_err(of_graph)?;
    let id = reading.push(name, shape, Make::Input).map_err(of_graph)?;
    reading.seen[*input] = Content::Value(id);
    for (k, step) in builder.steps().iter().enumerate() {
        if reading.readers[step.writes] > 0 {
            let at_step = |why| Refusal { node: Some(step.name.clone()), why };
            reading.step(k, step).map_err(at_step)?;
        }
    }
    let output = reading.value(storage).map_err(of_graph)?;
    let [.., height, width] = reading.shape(output);
    match [height, width] {
        [1, 1] => Ok(Recognised { net: reading.net, output, pending: reading.pending }),
        _ => Err(of_graph(format!(
            "{height} rows and {width} columns; networks here end in one of each"
        ))),
    }
}

/// Steps that are being read.
pub(super) struct Reading<'b, 'a> {
    pub(super) builder: &'b Builder<'a>,
    pub(super) ledger: &'b Ledger,
    /// By storage.
    pub(super) constants: Vec<Option<&'b Rc<KnownValues>>>,
    /// Number of reads of each storage on the way to the output, which counts as a reader.
    pub(super) readers: Vec<usize>,
    /// The step that reads each storage last.
    pub(super) last_reader: Vec<usize>,
    /// By storage.
    pub(super) seen: Vec<Content>,
    pub(super) net: Net,
    pub(super) pending: Vec<Pending>,
}

impl<'b, 'a> Reading<'b, 'a> {
    fn new(builder: &'b Builder<'a>, output: usize, ledger: &'b Ledger) -> Self {
        let storages = builder.storages();
        let mut constants = vec![None; storages];
        builder.constants().for_each(|(storage, known)| constants[storage] = Some(known));
        let (mut readers, mut last_reader) = (vec![0; storages], vec![usize::MAX; storages]);
        readers[output] = 1;
        for (k, step) in builder.steps().iter().enumerate().rev() {
            if readers[step.writes] > 0 {
                for &read in &step.reads {
                    readers[read] += 1;
                    last_reader[read] = k; // of several the first, but then none is the only one
                }
            }
        }
        Self {
            builder,
            ledger,
            constants,
            readers,
            last_reader,
            seen: (0..storages).map(|_| Content::Nothing).collect(),
            net: Net::default(),
            pending: Vec::new(),
        }
    }

    pub(super) fn shape(&self, id: Id) -> [usize; 4] {
        self.net.value(id).shape
    }

    /// Appends a value to the network.
    pub(super) fn push(&mut self, name: &str, shape: [usize; 4], make: Make) -> Result<Id, String> {
        let elements = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        let fits = elements.is_some_and(|n| (1..MAX_ELEMENTS).contains(&n));
        if !fits || shape.iter().any(|&size| size > MAX_SIZE) {
            return Err(format!("a tensor of {shape:?} is out of range"));
        }
        // Parts of a concatenation that lie elsewhere are copied, and each copy is a step.
        let copies = if let Make::Concat { parts } = &make { parts.len() as u64 } else { 0 };
        self.ledger.keep(STEP * (1 + copies))?;
        Ok(self.net.push(NetValue::new(name, shape, make)))
    }

    /// The value that a storage holds.
    pub(super) fn value(&self, storage: usize) -> Result<Id, String> {
        match self.seen[storage] {
            Content::Value(id) => Ok(id),
            _ => Err("it reads what no image is".into()),
        }
    }

    /// The value that operand `k` of a step holds, and how the step sees it.
    pub(super) fn operand(&self, step: &TensorStep, k: usize) -> Result<(Id, Form), String> {
        let id = self.value(step.reads[k])?;
        Ok((id, Form::of(self.shape(id), &step.op.inputs[k].dims)?))
    }

    /// Returns the step that reads a storage, if nothing else does.
    pub(super) fn only_reader(&self, storage: usize) -> Option<&'b TensorStep> {
        let is_only = self.readers[storage] == 1;
        self.builder.steps().get(self.last_reader[storage]).filter(|_| is_only)
    }
}
