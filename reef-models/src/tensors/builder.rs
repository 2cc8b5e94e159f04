//! Puts operations together to a network. What depends on constants alone is computed at once.

use super::axes::{Result, elements};
use super::constant::Constant;
use super::fuse::formulas::fuse;
use super::join::eight::steps as eight;
use super::model::TensorModel;
use super::scalars::with_scalars;
use super::step::{Recent, TensorStep, is_same};
use super::trim::steps::trimmed;
use super::value::{Bound, KnownValues, Value, ValueData};
use crate::memory::ledger::Ledger;
use crate::model::ports::{Extent, Port};
use crate::model::seeded::Seeded;
use crate::model::tensor::TensorSpec;
use reef_op::tensor::{Array, Element, Kind, Move, Scalar, Spec, TensorOp};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Bytes that are charged for each step: its operation, its names and its place in lists.
const STEP: u64 = 1024;
/// Steps that read the same and are compared with a new one.
const MAX_COMPARED: usize = 32;
/// Most bytes of integers that are compared with others.
const MAX_SHARED: usize = 1 << 19;
/// Bytes that such integers take besides themselves.
const NUMBERS: u64 = 128;
/// Steps of loops that may be spent on computing one constant; what takes more is left to the
/// device.
const STEPS: usize = 1 << 31;
/// Steps of loops that may be spent on all constants but small ones: minutes.
const ALL_STEPS: usize = 1 << 38;
/// Most steps of a small constant, of which shapes are made.
const FEW_STEPS: usize = 1 << 12;

/// A network that is being built. Memory for all that it makes is charged to its ledger before it
/// is made.
pub(crate) struct Builder<'a> {
    pub(crate) ledger: &'a Ledger,
    /// Name of the node whose operations come next.
    pub(crate) node: String,
    /// Module whose weights that node has, if their name says so.
    pub(crate) module: Option<&'a str>,
    inputs: Vec<Port>,
    storages: Vec<Spec>,
    steps: Vec<TensorStep>,
    /// Operations of the last steps, no two of them the same.
    recent: Recent,
    /// Set if steps that compute the same are one.
    shared: Option<Shared>,
    /// Module of each step.
    modules: Vec<Option<&'a str>>,
    constants: Vec<(usize, Held)>,
    /// Storages of constants, by address.
    stored: HashMap<*const KnownValues, usize>,
    /// Rest of [`ALL_STEPS`]. A body is read again for each iteration of its loop.
    left: Cell<usize>,
}

/// Steps and constants that later ones may be equal to.
#[derive(Default)]
struct Shared {
    /// Numbers of steps, by what these read.
    steps: HashMap<Vec<usize>, Vec<usize>>,
    /// Storages of integers.
    constants: HashMap<Integers, usize>,
}

/// Few integers of a constant.
type Integers = (Element, Vec<u8>);

/// The integers of an array, if they are few.
fn integers_of(array: &Array) -> Option<Integers> {
    let element = array.element();
    let few = array.len() * element.bytes() <= MAX_SHARED && !element.is_float();
    few.then(|| (element, array.to_le_bytes()))
}

/// A constant while the network is built.
enum Held {
    Known(Rc<KnownValues>),
    MadeUp(Constant),
}

impl<'a> Builder<'a> {
    pub(crate) fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            node: String::new(),
            module: None,
            inputs: Vec::new(),
            storages: Vec::new(),
            steps: Vec::new(),
            recent: Recent::default(),
            shared: None,
            modules: Vec::new(),
            constants: Vec::new(),
            stored: HashMap::new(),
            left: Cell::new(ALL_STEPS),
        }
    }

    /// From now on steps that compute the same are one. Exporters repeat a selection for each
    /// tensor that it is of, and sizes that data decide must be one value where two of these meet.
    pub(crate) fn share_steps(&mut self) {
        self.shared = Some(Shared::default());
    }

    /// Something that is given at each inference.
    pub(crate) fn input(&mut self, name: &str, spec: Spec) -> Result<Value> {
        let count = elements(&spec.dims)?;
        let storage = self.storage(&spec)?;
        self.inputs.push(Port::new(name, spec.clone(), storage));
        if count == 0 {
            return self.constant(spec.dims, Array::with_capacity(spec.element, 0)); // it is known
        }
        Ok(Value { spec, data: ValueData::Storage(storage), texts: None })
    }

    /// Values that are known.
    pub(crate) fn constant(&self, dims: Vec<usize>, array: Array) -> Result<Value> {
        let (have, want) = (array.len(), elements(&dims)?);
        if have != want {
            return Err(format!("{have} values for a tensor of {dims:?}"));
        }
        let spec = Spec { element: array.element(), dims };
        let charge = self.ledger.charge(spec.bytes() as u64)?;
        let data = ValueData::Known(Rc::new(KnownValues { array, charge }));
        Ok(Value { spec, data, texts: None })
    }

    /// A tensor of singles that are made up when a device takes them. Their values are not known,
    /// so nothing is computed of them before.
    pub(crate) fn made_up(
        &mut self,
        seed: Seeded,
        tensor: TensorSpec,
        dims: Vec<usize>,
    ) -> Result<Value> {
        let (have, want) = (tensor.elements, elements(&dims)?);
        if have != want {
            return Err(format!("{have} values for a tensor of {dims:?}"));
        }
        let spec = Spec { element: Element::F32, dims };
        let storage = self.storage(&spec)?;
        self.constants.push((storage, Held::MadeUp(Constant::MadeUp(seed, tensor))));
        Ok(Value { spec, data: ValueData::Storage(storage), texts: None })
    }

    /// Adds the operation `kind` on `inputs`, and returns its result.
    pub(crate) fn emit(&mut self, kind: Kind, inputs: &[&Value], output: Spec) -> Result<Value> {
        let count = elements(&output.dims)?;
        let (kind, inputs) = with_scalars(kind, inputs);
        let op = TensorOp {
            kind,
            inputs: inputs.iter().map(|value| value.spec.clone()).collect(),
            output,
        };
        op.check().map_err(|error| error.to_string())?;
        if count == 0 {
            return self
                .constant(op.output.dims.clone(), Array::with_capacity(op.output.element, 0));
        }
        let known: Option<Vec<_>> = inputs.iter().map(|value| value.known_values()).collect();
        match known {
            Some(known) if self.spends(count.saturating_mul(op.cost())) => self.fold(op, &known),
            _ => self.step(op, &inputs),
        }
    }

    /// Returns whether this number of steps is spent on a constant.
    fn spends(&self, steps: usize) -> bool {
        if steps <= FEW_STEPS {
            return true;
        }
        let left = self.left.get().checked_sub(steps).filter(|_| steps <= STEPS);
        left.inspect(|&left| self.left.set(left)).is_some()
    }

    /// Computes an operation of constants.
    fn fold(&self, op: TensorOp, inputs: &[&Rc<KnownValues>]) -> Result<Value> {
        let charge = self.ledger.charge(op.output.bytes() as u64)?;
        let values: Vec<_> = inputs.iter().map(|known| known.array.values()).collect();
        let made = op.compute(&values, 0..op.output.elements(), &|| false);
        let array = made.map_err(|error| error.to_string())?.ok_or("stopped")?;
        let data = ValueData::Known(Rc::new(KnownValues { array, charge }));
        Ok(Value { spec: op.output, data, texts: None })
    }

    fn step(&mut self, op: TensorOp, inputs: &[&Value]) -> Result<Value> {
        let reads = inputs.iter().map(|value| self.stored(value)).collect::<Result<Vec<_>>>()?;
        if let Some(made) = self.made_before(&op, &reads) {
            return Ok(Value { spec: op.output, data: ValueData::Storage(made), texts: None });
        }
        self.ledger.keep(STEP + tables(&op.kind))?;
        let (spec, writes) = (op.output.clone(), self.storage(&op.output)?);
        if let Some(shared) = &mut self.shared {
            self.ledger.keep(STEP)?;
            shared.steps.entry(reads.clone()).or_default().push(self.steps.len());
        }
        self.modules.push(self.module);
        let op = self.recent.share(op);
        self.steps.push(TensorStep { name: self.node.clone(), op, reads, writes });
        Ok(Value { spec, data: ValueData::Storage(writes), texts: None })
    }

    /// The storage that an earlier step has filled with the same.
    fn made_before(&self, op: &TensorOp, reads: &[usize]) -> Option<usize> {
        let list = self.shared.as_ref()?.steps.get(reads)?;
        let steps = list.iter().map(|&step| &self.steps[step]);
        steps.rev().take(MAX_COMPARED).find(|step| is_same(&step.op, op)).map(|step| step.writes)
    }

    fn storage(&mut self, spec: &Spec) -> Result<usize> {
        self.ledger.keep(64)?;
        self.storages.push(spec.clone());
        Ok(self.storages.len() - 1)
    }

    /// The storage of a value; constants get one when they are first read.
    fn stored(&mut self, value: &Value) -> Result<usize> {
        let known = match &value.data {
            ValueData::Storage(storage) => return Ok(*storage),
            ValueData::Known(known) => known.clone(),
        };
        if let Some(&storage) = self.stored.get(&Rc::as_ptr(&known)) {
            return Ok(storage);
        }
        let integers = self.shared.as_ref().and_then(|_| integers_of(&known.array));
        let before = |integers: &Integers| self.shared.as_ref()?.constants.get(integers).copied();
        if let Some(storage) = integers.as_ref().and_then(before) {
            return Ok(storage);
        }
        let storage = self.storage(&value.spec)?;
        if let (Some(shared), Some((element, bytes))) = (&mut self.shared, integers) {
            self.ledger.keep(NUMBERS + bytes.len() as u64)?;
            shared.constants.insert((element, bytes), storage);
        }
        self.stored.insert(Rc::as_ptr(&known), storage);
        self.constants.push((storage, Held::Known(known)));
        Ok(storage)
    }

    /// Steps so far.
    #[cfg(feature = "onnx")]
    pub(crate) fn steps(&self) -> &[TensorStep] {
        &self.steps
    }

    /// Module whose weights step `k` has, if their name says so.
    #[cfg(feature = "onnx")]
    pub(crate) fn module(&self, k: usize) -> Option<&'a str> {
        self.modules[k]
    }

    /// Inputs so far.
    #[cfg(feature = "onnx")]
    pub(crate) fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Number of storages.
    #[cfg(feature = "onnx")]
    pub(crate) fn storages(&self) -> usize {
        self.storages.len()
    }

    /// Storages of values that are known.
    #[cfg(feature = "onnx")]
    pub(crate) fn constants(&self) -> impl Iterator<Item = (usize, &Rc<KnownValues>)> {
        self.constants.iter().filter_map(|(storage, held)| match held {
            Held::Known(known) => Some((*storage, known)),
            Held::MadeUp(_) => None,
        })
    }

    /// The inputs on which `value` depends.
    pub(crate) fn roots(&self, value: &Value) -> Vec<String> {
        let ValueData::Storage(storage) = value.data else { return Vec::new() };
        let mut wanted = vec![false; self.storages.len()];
        wanted[storage] = true;
        for step in self.steps.iter().rev().filter(|step| step.writes <= storage) {
            if wanted[step.writes] {
                step.reads.iter().for_each(|&read| wanted[read] = true);
            }
        }
        let inputs = self.inputs.iter().filter(|input| wanted[input.storage]);
        inputs.map(|input| input.name.clone()).collect()
    }

    /// The network that makes `outputs`, without steps that none of them needs.
    pub(crate) fn finish(self, name: &str, outputs: Vec<(String, Value)>) -> Result<TensorModel> {
        let outputs = outputs.into_iter().map(|(name, value)| (name, value, None));
        self.finish_bounded(name, outputs, Vec::new())
    }

    /// As [`finish`](Self::finish), of outputs of which data may decide one size, and numbers that
    /// are 0 unless a loop of this name would go on.
    pub(crate) fn finish_bounded(
        mut self,
        name: &str,
        outputs: impl IntoIterator<Item = (String, Value, Option<Bound>)>,
        checks: Vec<(String, Value)>,
    ) -> Result<TensorModel> {
        let (mut ports, mut sizes): (Vec<Port>, Vec<Port>) = (Vec::new(), Vec::new());
        let mut free = vec![false; self.storages.len()];
        self.steps.iter().for_each(|step| free[step.writes] = true);
        for (name, value, bound) in outputs {
            self.node.clone_from(&name);
            let storage = self.own_storage(&value, &mut free)?;
            let mut port = Port::new(name, value.spec, storage);
            if let Some(Bound { axis, size }) = bound {
                let storage = self.own_storage(&size, &mut free)?;
                let of_size = Port::new(format!("{}.size", port.name), size.spec, storage);
                sizes.push(Port { extent: Extent::Size, ..of_size });
                port.extent = Extent::Bounded { axis, size: storage };
            }
            ports.push(port);
        }
        ports.extend(sizes);
        for (name, left) in checks {
            let storage = self.own_storage(&left, &mut free)?;
            ports.push(Port { extent: Extent::Check, ..Port::new(name, left.spec, storage) });
        }
        let needed = self.needed(&ports);
        self.steps.retain(|step| needed[step.writes]);
        let known: HashSet<usize> = self.constants.iter().map(|(storage, _)| *storage).collect();
        let steps = std::mem::take(&mut self.steps);
        let constant = |storage: usize| known.contains(&storage);
        let steps = trimmed(steps, &ports, &constant, &mut |spec| self.storage(spec))?;
        let steps = fuse(steps, &ports);
        let constants = self.constants.into_iter().filter(|(storage, _)| needed[*storage]);
        let own = |(storage, held)| Ok((storage, owned(held, self.ledger)?));
        self.stored.clear();
        let constants: Vec<(usize, Constant)> = constants.map(own).collect::<Result<_>>()?;
        let values = |storage: usize| {
            let at = constants.binary_search_by_key(&storage, |(at, _)| *at).ok()?;
            match &constants[at].1 {
                Constant::Values(array) => Some(array),
                Constant::MadeUp(..) => None,
            }
        };
        let quantized = eight::constants(&steps, &ports, &values);
        let (inputs, storages) = (self.inputs, self.storages);
        let name = name.into();
        Ok(TensorModel { name, inputs, outputs: ports, storages, constants, quantized, steps })
    }

    /// The storage of an output: its own if a step writes it and no other output has taken it, as
    /// `free` says.
    fn own_storage(&mut self, value: &Value, free: &mut [bool]) -> Result<usize> {
        match value.data {
            ValueData::Storage(storage) if free.get(storage).is_some_and(|&free| free) => {
                free[storage] = false;
                Ok(storage)
            }
            _ if value.spec.elements() == 0 => self.storage(&value.spec),
            _ => self.copy(value),
        }
    }

    /// A step that copies a value, constants as well.
    fn copy(&mut self, value: &Value) -> Result<usize> {
        let tables = self.places(&[value.spec.elements()])?;
        let kind = Kind::Move(Move { tables, fill: Scalar::Whole(0) });
        let op = TensorOp { kind, inputs: vec![value.spec.clone()], output: value.spec.clone() };
        match self.step(op, &[value])?.data {
            ValueData::Storage(storage) => Ok(storage),
            ValueData::Known(_) => Err("a copy that is known".into()),
        }
    }

    /// Storages that the outputs depend on.
    fn needed(&self, outputs: &[Port]) -> Vec<bool> {
        let mut needed = vec![false; self.storages.len()];
        outputs.iter().for_each(|port| needed[port.storage] = true);
        for step in self.steps.iter().rev() {
            if needed[step.writes] {
                step.reads.iter().for_each(|&read| needed[read] = true);
            }
        }
        needed
    }
}

/// A constant that is the network's alone.
fn owned(held: Held, ledger: &Ledger) -> Result<Constant> {
    let known = match held {
        Held::Known(known) => known,
        Held::MadeUp(constant) => return Ok(constant),
    };
    match Rc::try_unwrap(known) {
        Ok(known) => {
            known.charge.keep();
            Ok(Constant::Values(known.array))
        }
        Err(shared) => {
            let array = &shared.array;
            ledger.keep((array.len() * array.element().bytes()) as u64)?;
            Ok(Constant::Values(array.clone()))
        }
    }
}

/// Bytes of an operation's tables.
fn tables(kind: &Kind) -> u64 {
    match kind {
        Kind::Move(op) => op.tables.iter().map(|table| 8 * table.len() as u64).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;
    use reef_op::tensor::Unary;

    #[test]
    fn large_constants_are_computed_while_steps_are_left() {
        let ledger = Ledger::new(&Budget::default());
        let mut b = Builder::new(&ledger);
        let known = |b: &mut Builder<'_>, len: usize| {
            let ones = b.constant(vec![len], Array::F32(vec![1.0; len])).unwrap();
            b.unary(Unary::Neg, &ones).unwrap().known_values().is_some()
        };
        b.left.set(3 * FEW_STEPS);
        assert!(known(&mut b, FEW_STEPS / 4), "twice as many steps as a small one has");
        assert!(!known(&mut b, FEW_STEPS / 4), "half of them are left");
        assert!(known(&mut b, FEW_STEPS / 8));
    }
}
