//! Walks over the nodes of a graph, one after the other, and into functions.

use super::bounds::after::of_results;
use super::bounds::before::prepared;
use super::bounds::points::{is_narrower, joined, of_sizes, operands_at};
use super::call::{Around, Call, Outer, Points, attribute_of, int_of, resolved};
use super::few::Few;
use super::marks::Marks;
use super::operators::lower;
use super::options::TensorOptions;
use super::stored::element;
use super::texts::{MOVING, STRING, moved, numbers_or_places, texts_of};
use crate::ir::recognise::reading::{Recognised, Refusal, recognise};
use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use crate::model::texts::Texts;
use crate::onnx::fault::{Fault, Result, beyond, unsupported};
use crate::onnx::file::{
    Dimension, FunctionFile, GraphFile, ItemFile, ModelFile, NodeFile, ValueFile,
};
use crate::onnx::images::SHOWN;
use crate::onnx::node::name_of;
use crate::onnx::opset::{OPSETS, ensure_read, version};
use crate::tensors::builder::Builder;
use crate::tensors::model::TensorModel;
use crate::tensors::value::{Bound, TextOrigin, Value};
use reef_op::tensor::{Element, Scalar, Spec};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Result of a node: a tensor, or a sequence of tensors.
#[derive(Debug, Clone)]
pub(super) enum NodeResult {
    Tensor(Value),
    Sequence(Vec<Value>),
}

impl NodeResult {
    pub(super) fn tensor(self) -> Result<Value> {
        match self {
            Self::Tensor(value) => Ok(value),
            Self::Sequence(_) => Err("a sequence in the place of a tensor".into()),
        }
    }
}

/// Maximum depth of functions that call functions.
const DEPTH: usize = 16;
/// Maximum depth of graphs and functions in each other, of which each takes some of the stack.
const NESTED: usize = 48;
/// Bytes that a name and what it stands for take in a map that grows.
const NAME: u64 = 256;
/// Bytes that a port or an attribute of a function takes for each call.
const ENTRY: u64 = 32;
/// Bytes that a tensor takes in a sequence.
pub(super) const ITEM: u64 = 128;

/// Names of one graph or function body, and what they stand for.
#[derive(Default)]
pub(super) struct Scope<'a, 's> {
    pub(super) own: HashMap<&'a str, Value>,
    /// Names of the graph in which a branch or a body lies.
    pub(super) outer: Option<&'s Scope<'a, 's>>,
    /// Operands of a function that its node leaves out.
    pub(super) left_out: HashSet<&'a str>,
    /// Outputs of a graph or a branch, with their rows that are read at most.
    pub(super) outputs: Option<Vec<(&'a str, Option<usize>)>>,
}

impl<'a> Scope<'a, '_> {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.own.get(name).or_else(|| self.outer.and_then(|outer| outer.get(name)))
    }

    pub(super) fn is_left_out(&self, name: &str) -> bool {
        self.left_out.contains(name) || self.outer.is_some_and(|outer| outer.is_left_out(name))
    }

    fn insert(&mut self, name: &'a str, value: Value) -> Option<Value> {
        self.own.insert(name, value)
    }
}

/// Facts of names besides their values. Those of a function are its own.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// Types of few bits that tensors have.
    few: HashMap<&'a str, Few>,
    /// Sizes of tensors that data decide.
    pub(super) bounds: HashMap<&'a str, Bound>,
    /// Bounds of tensors that are computed of such sizes.
    pub(super) points: HashMap<&'a str, Points>,
    /// Sequences of tensors.
    pub(super) sequences: HashMap<&'a str, Vec<Value>>,
}

impl<'a> Names<'a> {
    /// Facts of the first of each pair of names, under the second one.
    fn renamed(&self, pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        Self {
            few: renamed(&self.few, pairs.clone()),
            bounds: renamed(&self.bounds, pairs.clone()),
            points: renamed(&self.points, pairs.clone()),
            sequences: renamed(&self.sequences, pairs),
        }
    }

    /// Number of tensors in the sequences of these names.
    fn items<'n>(&self, names: impl Iterator<Item = &'n str>) -> u64 {
        let lists = names.filter_map(|name| self.sequences.get(name));
        lists.map(|list| list.len() as u64).sum()
    }

    fn extend(&mut self, others: Self) {
        self.few.extend(others.few);
        self.bounds.extend(others.bounds);
        self.points.extend(others.points);
        self.sequences.extend(others.sequences);
    }

    /// Drops what another graph said about a name.
    pub(super) fn forget(&mut self, name: &str) {
        self.few.remove(name);
        self.bounds.remove(name);
        self.points.remove(name);
        self.sequences.remove(name);
    }
}

/// Values of the first of each pair of names, under the second one.
fn renamed<'a, T: Clone>(
    values: &HashMap<&'a str, T>,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> HashMap<&'a str, T> {
    let named = pairs.filter(|(_, to)| !to.is_empty());
    named.filter_map(|(from, to)| Some((to, values.get(from)?.clone()))).collect()
}

/// Names around the graphs of a node that these have anew, and the facts of them.
#[derive(Default)]
struct Hidden<'a> {
    names: HashSet<&'a str>,
    facts: Names<'a>,
}

/// A file that is being read.
pub(in crate::onnx) struct Walk<'a, 'o> {
    pub(super) builder: Builder<'a>,
    ledger: &'a Ledger,
    folder: Option<&'a Path>,
    pub(super) opset: i64,
    functions: &'a [FunctionFile<'a>],
    pub(super) options: &'o TensorOptions,
    pub(super) names: Names<'a>,
    hidden: Hidden<'a>,
    pub(super) marks: Marks,
    /// Rows of the next node's results that are read at most; all may be of those that are missing.
    rows: Vec<Option<usize>>,
    /// Nodes whose readers were found.
    pub(super) followed: usize,
    /// Graphs and functions around the nodes that are being read.
    nested: usize,
    /// Iterations of loops so far.
    pub(super) iterations: usize,
    /// Conditions of what is being read, and the values that they must have for its results to be
    /// taken: of branches and iterations around it. Those of bodies that never run are known.
    pub(super) guards: Vec<(Value, bool)>,
    /// Numbers that are 0 unless a loop would go on, and the names of these loops.
    pub(super) checks: Vec<(String, Value)>,
    /// Inputs whose values decide about shapes and were not given.
    pub(in crate::onnx) unbound: Vec<String>,
    /// All texts of the file.
    texts: Arc<Texts>,
}

/// Operations of a file, of which a network can be made.
pub(in crate::onnx) struct Walked<'a> {
    builder: Builder<'a>,
    /// With the size that data decide, if there is one.
    outputs: Vec<(String, Value, Option<Bound>)>,
    /// Numbers that are 0 unless a loop of this name would go on.
    checks: Vec<(String, Value)>,
    texts: Arc<Texts>,
    /// Names of inputs and outputs of texts.
    text_ports: HashSet<&'a str>,
}

impl Walked<'_> {
    /// The network of tensors.
    pub(in crate::onnx) fn tensors(self, name: &str) -> Result<TensorModel, Fault> {
        let made = self.builder.finish_bounded(name, self.outputs, self.checks);
        let mut model = made.map_err(Fault::of_graph)?;
        for port in model.inputs.iter_mut().chain(&mut model.outputs) {
            let is_internal = port.extent.is_internal();
            let is_text = !is_internal && self.text_ports.contains(&*port.name);
            port.texts = is_text.then(|| self.texts.clone());
        }
        Ok(model)
    }

    /// Sizes of the input and the output, if there is one of each.
    pub(in crate::onnx) fn port_sizes(&self) -> Option<[Vec<usize>; 2]> {
        match (self.builder.inputs(), &*self.outputs) {
            ([input], [(_, output, _)]) => Some([input.spec.dims.clone(), output.dims().to_vec()]),
            _ => None,
        }
    }

    /// The network for images that it is, if it is one whose input has this shape.
    pub(in crate::onnx) fn images(
        &self,
        shape: [usize; 4],
        ledger: &Ledger,
    ) -> Result<Recognised, Refusal> {
        if !self.text_ports.is_empty() {
            return Err(Refusal { node: None, why: "inputs or outputs are texts".into() });
        }
        if let Some((name, _)) = self.checks.first() {
            return Err(Refusal { node: None, why: format!("data end a loop: {name}") });
        }
        match &*self.outputs {
            [(_, output, None)] => recognise(&self.builder, shape, output, ledger),
            [(name, _, Some(_))] => {
                let why = format!("data decide about a size of output {name:?}");
                Err(Refusal { node: None, why })
            }
            outputs => {
                let names: Vec<_> = outputs.iter().take(SHOWN).map(|(name, ..)| name).collect();
                Err(Refusal { node: None, why: format!("outputs must be one, got {names:?}") })
            }
        }
    }
}

/// Operators that select as many as data decide.
const SELECTING: [&str; 4] = ["Compress", "NonMaxSuppression", "NonZero", "Unique"];

/// Returns whether some node selects as many as data decide.
fn selects(nodes: &[NodeFile<'_>]) -> bool {
    let inner = |graph: &GraphFile<'_>| selects(&graph.nodes);
    nodes.iter().any(|node| {
        let mut graphs = node.attributes.iter().filter_map(|own| own.graph.as_deref());
        SELECTING.contains(&node.op) || graphs.any(inner)
    })
}

/// Operators whose second operand is the weights of a module.
const WEIGHTED: [&str; 4] = ["BatchNormalization", "Conv", "Gemm", "MatMul"];

impl<'a, 'o> Walk<'a, 'o> {
    pub(in crate::onnx) fn new(
        file: &'a ModelFile<'a>,
        folder: Option<&'a Path>,
        options: &'o TensorOptions,
        ledger: &'a Ledger,
    ) -> Self {
        Self {
            builder: Builder::new(ledger),
            ledger,
            folder,
            opset: version(file),
            functions: &file.functions,
            options,
            names: Names::default(),
            hidden: Hidden::default(),
            marks: Marks::default(),
            rows: Vec::new(),
            followed: 0,
            nested: 0,
            iterations: 0,
            guards: Vec::new(),
            checks: Vec::new(),
            unbound: Vec::new(),
            texts: Arc::default(),
        }
    }

    /// All operations of `graph`.
    pub(in crate::onnx) fn graph(&mut self, graph: &'a GraphFile<'a>) -> Result<Walked<'a>, Fault> {
        let texts = texts_of(graph, self.functions, self.ledger);
        self.texts = Arc::new(texts.map_err(Fault::of_graph)?);
        let mut scope = Scope::default();
        self.initializers(graph, &mut scope)?;
        self.inputs(graph, &mut scope)?;
        scope.outputs = Some(graph.outputs.iter().map(|output| (output.name, None)).collect());
        let bodies = self.functions.iter().map(|function| &*function.nodes);
        if [&*graph.nodes].into_iter().chain(bodies).any(selects) {
            self.builder.share_steps();
        }
        self.nodes(&graph.nodes, &mut scope, &[], 0)?;
        let names: HashSet<&str> = graph.outputs.iter().map(|output| output.name).collect();
        let mut outputs = Vec::new();
        for output in &graph.outputs {
            let made = self.results(output.name, &scope, &names);
            let fault = |why| Fault { at: format!("output {:?}", output.name), why };
            outputs.extend(made.map_err(fault)?);
        }
        let builder = std::mem::replace(&mut self.builder, Builder::new(self.ledger));
        let is_text = |name: &&str| scope.get(name).is_some_and(|value| value.texts.is_some());
        let ports = graph.inputs.iter().chain(graph.outputs.iter()).map(|port| port.name);
        let text_ports = ports.filter(is_text).collect();
        let checks = std::mem::take(&mut self.checks);
        Ok(Walked { builder, outputs, checks, texts: self.texts.clone(), text_ports })
    }

    /// The tensor of an output with the size of it that data decide, or all tensors of a sequence,
    /// which are outputs of their own: they have its name with their places after it, which none of
    /// the file's `outputs` may have.
    fn results(
        &self,
        name: &str,
        scope: &Scope<'a, '_>,
        outputs: &HashSet<&str>,
    ) -> Result<Vec<(String, Value, Option<Bound>)>> {
        match (scope.get(name), self.names.sequences.get(name)) {
            (Some(value), _) if value.texts == Some(TextOrigin::Request) => Err(beyond(
                "it may hold texts of a request that the file does not have: let a LabelEncoder \
                 make it",
            )),
            (Some(value), _) => {
                let bound = self.names.bounds.get(name).cloned();
                Ok(vec![(name.to_owned(), value.clone(), bound)])
            }
            (None, Some(list)) => {
                self.ledger.keep((NAME + ITEM) * list.len() as u64)?;
                ensure_own_names(name, list.len(), outputs)?;
                let each = list.iter().enumerate();
                Ok(each.map(|(k, value)| (item_name(name, k), value.clone(), None)).collect())
            }
            (None, None) => Err("no node makes it".into()),
        }
    }

    pub(super) fn initializers(
        &mut self,
        graph: &'a GraphFile<'a>,
        scope: &mut Scope<'a, '_>,
    ) -> Result<(), Fault> {
        if graph.has_sparse {
            return Err(Fault::of_graph(unsupported("sparse initializers are")));
        }
        for tensor in &graph.initializers {
            let fault = |why| Fault { at: format!("initializer {:?}", tensor.name), why };
            let kept = self.keep_hidden(tensor.name, scope.outer);
            kept.map_err(|why| fault(why.into()))?;
            self.names.forget(tensor.name);
            self.names.few.extend(Few::of(tensor.element).map(|few| (tensor.name, few)));
            let read = numbers_or_places(tensor, self.folder, self.ledger, &self.texts);
            let value = read.and_then(|(spec, array, are_texts)| {
                let value = self.builder.constant(spec.dims, array)?;
                Ok(Value { texts: are_texts.then_some(TextOrigin::File), ..value })
            });
            scope.insert(tensor.name, value.map_err(fault)?);
        }
        Ok(())
    }

    /// Inputs of each inference, and values that were given beforehand. An initializer is what an
    /// input is by default: where a shape or values are asked for, these are given.
    fn inputs(&mut self, graph: &'a GraphFile<'a>, scope: &mut Scope<'a, '_>) -> Result<(), Fault> {
        let stored: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name).collect();
        let options = self.options;
        let given =
            |name: &str| options.shapes.contains_key(name) || options.values.contains_key(name);
        let is_open = |input: &&ValueFile<'_>| !stored.contains(input.name) || given(input.name);
        let names: HashSet<&str> = graph.inputs.iter().map(|input| input.name).collect();
        let mut seen = HashSet::new();
        for input in graph.inputs.iter().filter(is_open) {
            refuse_map(graph, input)?;
            let fault = |why| Fault::at_input(input.name, why);
            if let Some(item) = &input.items {
                let list = self.items(input.name, item).map_err(fault)?;
                ensure_own_names(input.name, list.len(), &names).map_err(fault)?;
                self.names.sequences.insert(input.name, list);
            } else {
                let value = self.input(input).map_err(fault)?;
                scope.insert(input.name, value);
            }
            if !seen.insert(input.name) {
                return Err(fault("it is there twice".into()));
            }
        }
        let asked = self.options.shapes.keys().chain(self.options.values.keys());
        let open = |name: &str| {
            graph.inputs.iter().any(|input| is_named(input, name) || self.has_item(input, name))
        };
        match asked.into_iter().find(|name| !open(name.as_str())) {
            Some(name) => {
                Err(Fault::at_input(name, "the network has no such input or size".into()))
            }
            None => Ok(()),
        }
    }

    fn input(&mut self, input: &ValueFile<'a>) -> Result<Value> {
        let is_text = input.element == STRING;
        let element = if is_text { Element::I64 } else { element(input.element)? };
        let dims = self.dims(input.name, input.dims.as_deref())?;
        let few = Few::of(input.element);
        self.names.few.extend(few.map(|few| (input.name, few)));
        let is_known = self.options.values.contains_key(input.name);
        if is_text && is_known {
            return Err(beyond("texts decide about shapes"));
        }
        let given = self.input_value(input.name, Spec { element, dims })?;
        match few.filter(|_| !is_known) {
            Some(few) => few.cast(&mut self.builder, &given, true),
            None => Ok(Value { texts: is_text.then_some(TextOrigin::Request), ..given }),
        }
    }

    /// An input of each inference, or the values that were given for it beforehand.
    fn input_value(&mut self, name: &str, spec: Spec) -> Result<Value> {
        let Some((_, array)) = self.options.values.get(name) else {
            return self.builder.input(name, spec);
        };
        if array.element() != spec.element {
            let (want, got) = (spec.element, array.element());
            return Err(format!("values must be of type {want}, got {got}"));
        }
        if self.options.keeps_inputs {
            self.builder.input(name, spec.clone())?;
        }
        self.builder.constant(spec.dims, array.clone())
    }

    /// Tensors of an input that is a sequence. They are inputs of their own, which have its name
    /// with their places after it.
    fn items(&mut self, name: &str, item: &ItemFile<'a>) -> Result<Vec<Value>> {
        let asked = self.options.shapes.get(name).map(Vec::as_slice);
        let count = match asked {
            Some(&[count]) => count,
            Some(other) => {
                return Err(format!("its shape must be its number of tensors, got {other:?}"));
            }
            None => {
                let is_given = |k: &usize| self.options.shapes.contains_key(&item_name(name, *k));
                (0..).take_while(is_given).count()
            }
        };
        if asked.is_none() && count == 0 {
            return Err(format!(
                "it is a sequence: choose its number of tensors as its shape, such as {name}=2"
            ));
        }
        let mut list = Vec::new();
        for k in 0..count {
            self.ledger.keep(NAME + ITEM)?;
            let made = self.item(&item_name(name, k), item);
            list.push(made.map_err(|why| format!("tensor {k} of it: {why}"))?);
        }
        Ok(list)
    }

    fn item(&mut self, name: &str, item: &ItemFile<'a>) -> Result<Value> {
        let element = element(item.element)?;
        if Few::of(item.element).is_some() {
            return Err(unsupported("sequences of numbers of few bits are"));
        }
        let dims = self.dims(name, item.dims.as_deref())?;
        self.input_value(name, Spec { element, dims })
    }

    /// Returns whether a tensor of an input that is a sequence has this name.
    fn has_item(&self, input: &ValueFile<'_>, name: &str) -> bool {
        let Some(list) = self.names.sequences.get(input.name) else { return false };
        let place = name.strip_prefix(input.name).and_then(|rest| rest.strip_prefix('.'));
        let place = place.and_then(|place| place.parse::<usize>().ok());
        place.is_some_and(|place| place < list.len() && item_name(input.name, place) == name)
    }

    /// Sizes of an input: those that were asked for, those of the file, and 1 for what is left
    /// open.
    fn dims(&self, name: &str, file: Option<&[Dimension<'_>]>) -> Result<Vec<usize>> {
        let given = self.options.values.get(name).map(|(dims, _)| dims.as_slice());
        let asked = given.or(self.options.shapes.get(name).map(Vec::as_slice));
        let Some(file) = file else {
            return asked
                .map(<[usize]>::to_vec)
                .ok_or_else(|| "its shape is left open: choose one".into());
        };
        if let Some(asked) = asked.filter(|asked| asked.len() != file.len()) {
            return Err(format!("must have {} sizes, got {asked:?}", file.len()));
        }
        let size = |(k, dim): (usize, &Dimension<'_>)| match (asked.map(|asked| asked[k]), dim) {
            (Some(asked), Dimension::Fixed(size)) if asked as i64 != *size => {
                Err(format!("size {k} is fixed to {size}, {asked} asked"))
            }
            (Some(asked), _) => Ok(asked),
            (None, Dimension::Fixed(size)) => crate::tensors::axes::size(*size),
            (None, Dimension::Open(name)) => Ok(self.options.open(name, k, file.len())),
        };
        file.iter().enumerate().map(size).collect()
    }

    /// Reads the nodes of a graph or of a function's body.
    pub(super) fn nodes(
        &mut self,
        nodes: &'a [NodeFile<'a>],
        scope: &mut Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<(), Fault> {
        if self.nested == NESTED {
            let why = format!("graphs and functions lie more than {NESTED} deep in each other");
            return Err(Fault::of_graph(why));
        }
        self.nested += 1;
        let read = self.in_turn(nodes, scope, outer, depth);
        self.nested -= 1;
        read
    }

    /// Reads nodes as they stand, or sorts them if they are not.
    fn in_turn(
        &mut self,
        nodes: &'a [NodeFile<'a>],
        scope: &mut Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<(), Fault> {
        for (at, node) in nodes.iter().enumerate() {
            let checks = self.checks.len();
            match self.read_node(node, nodes, scope, outer, depth) {
                Err(fault) if scope.outer.is_none() => {
                    self.checks.truncate(checks); // its loops are read again
                    return self.unsorted_nodes(nodes, at, scope, outer, depth, fault);
                }
                read => read?,
            }
        }
        Ok(())
    }

    /// Reads one of `nodes`, and gives its results their names.
    pub(super) fn read_node(
        &mut self,
        node: &'a NodeFile<'a>,
        nodes: &'a [NodeFile<'a>],
        scope: &mut Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<(), Fault> {
        self.rows = self.rows_read(node, nodes, scope);
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        if node.outputs.iter().all(|name| name.is_empty()) {
            // Functions that call others several times each read more nodes than there is time for.
            self.ledger.keep(NAME).map_err(|why| fault(why.into()))?;
        }
        let kept = node.outputs.iter().try_for_each(|&name| self.keep_hidden(name, scope.outer));
        kept.map_err(|why| fault(why.into()))?;
        let (results, bounds) = self.node(node, scope, outer, depth)?;
        let mut bounds = bounds.into_iter().chain(std::iter::repeat(None));
        for (&output, result) in node.outputs.iter().zip(results) {
            let bound = bounds.next().flatten();
            if output.is_empty() {
                continue;
            }
            self.ledger.keep(NAME).map_err(|why| fault(why.into()))?;
            let value = match result {
                NodeResult::Tensor(value) => value,
                NodeResult::Sequence(list) => {
                    let bytes = ITEM * list.len() as u64;
                    self.ledger.keep(bytes).map_err(|why| fault(why.into()))?;
                    self.names.sequences.insert(output, list);
                    continue;
                }
            };
            self.names.bounds.extend(bound.map(|bound| (output, bound)));
            if scope.insert(output, value).is_some() {
                return Err(fault(format!("{output:?} is made a second time")));
            }
        }
        Ok(())
    }

    /// Results of a node, and the sizes of them that data decide.
    fn node(
        &mut self,
        node: &'a NodeFile<'a>,
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<(Vec<NodeResult>, Vec<Option<Bound>>), Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        node.outputs.iter().for_each(|name| self.names.forget(name));
        if let Some(result) = self.of_sequences(node, scope, outer)? {
            return Ok((vec![result], Vec::new()));
        }
        let operands = self.operands(node, scope).map_err(fault)?;
        if let Some(results) = self.graphs_of(node, &operands, scope, outer, depth)? {
            return Ok((results, Vec::new()));
        }
        let is_sequence =
            |name: &&str| scope.get(name).is_none() && self.names.sequences.contains_key(*name);
        if node.inputs.iter().any(is_sequence) {
            return Err(fault(unsupported(&format!("a sequence as an operand of {} is", node.op))));
        }
        if depth == 0 {
            name_of(node).clone_into(&mut self.builder.node);
            let weights = node.inputs.get(1).filter(|_| WEIGHTED.contains(&node.op));
            self.builder.module = weights.and_then(|name| name.strip_suffix(".weight"));
        }
        let few = few_of(node, outer, &self.names.few);
        let moved = moved(node, &operands).map_err(fault)?;
        let Names { bounds, points, .. } = &self.names;
        let given: Vec<_> = node.inputs.iter().map(|name| bounds.get(name).cloned()).collect();
        let points: Vec<_> = node.inputs.iter().map(|name| points.get(name).cloned()).collect();
        let instead = prepared(&mut self.builder, node, outer, &operands, &given).map_err(fault)?;
        let pairs = operands.iter().zip(&instead);
        let operands: Vec<_> = pairs.map(|(&old, new)| new.as_ref().or(old)).collect();
        let known = self.known_of(node, &operands, &given, &points, outer).map_err(fault)?;
        let (opset, folder) = (self.opset, self.folder);
        let rows = self.rows.first().copied().flatten();
        let (table, marks) = (&*self.texts, &self.marks);
        let around = Around { opset, folder, outer, few: &self.names.few, table, marks, rows };
        let call = Call::new(node, operands, around, given, points);
        let made = lower(&mut self.builder, &call);
        if let Some(operand) = call.unknown.get().and_then(|index| call.maybe(index)) {
            self.unbound = self.builder.roots(operand);
        }
        let mut made = made.map_err(fault)?;
        let bounds = of_results(&mut self.builder, &call, &mut made);
        let mut bounds = bounds.map_err(fault)?;
        for (index, bound) in call.bounds.take() {
            bounds[index] = Some(bound);
        }
        for (index, value) in made.iter_mut().enumerate() {
            let is_made = index == 0 && call.makes_texts.get();
            value.texts = if is_made { Some(TextOrigin::File) } else { moved };
        }
        for &name in node.outputs.iter().filter(|name| !name.is_empty()) {
            self.names.few.extend(few.map(|few| (name, few)));
            self.names.points.extend(known.clone().map(|known| (name, known)));
        }
        Ok((made.into_iter().map(NodeResult::Tensor).collect(), bounds))
    }

    /// Operands of a node; `None` for sequences and those that are left out.
    fn operands<'s>(
        &self,
        node: &NodeFile<'_>,
        scope: &'s Scope<'_, '_>,
    ) -> Result<Vec<Option<&'s Value>>> {
        let operand = |&name: &&str| match scope.get(name) {
            _ if name.is_empty() => Ok(None),
            Some(value) => Ok(Some(value)),
            None if scope.is_left_out(name) || self.names.sequences.contains_key(name) => Ok(None),
            None => Err(format!(
                "{name:?} is not an input or initializer, and no node before this one makes it"
            )),
        };
        node.inputs.iter().map(operand).collect()
    }

    /// The tensor or the sequence that has this name.
    pub(super) fn result_named(&self, name: &str, scope: &Scope<'a, '_>) -> Result<NodeResult> {
        match scope.get(name) {
            Some(value) => Ok(NodeResult::Tensor(value.clone())),
            None => {
                let list = self.sequence_named(name)?;
                list.ok_or_else(|| format!("no node makes {name:?}"))
            }
        }
    }

    /// A copy of the sequence that has this name, if there is one. It is charged before.
    pub(super) fn sequence_named(&self, name: &str) -> Result<Option<NodeResult>> {
        let Some(list) = self.names.sequences.get(name) else { return Ok(None) };
        self.ledger.keep(ITEM * list.len() as u64)?;
        Ok(Some(NodeResult::Sequence(list.clone())))
    }

    /// Returns the bounds of the result of a node that computes with sizes which data decide.
    fn known_of(
        &mut self,
        node: &'a NodeFile<'a>,
        operands: &[Option<&Value>],
        given: &[Option<Bound>],
        points: &[Option<Points>],
        outer: &Outer<'a>,
    ) -> Result<Option<Points>> {
        let first = operands.first().copied().flatten();
        if let (Some(x), Some(Some(bound)), "Shape" | "Size") = (first, given.first(), node.op) {
            let rank = x.rank() as i64;
            let place = |name: &str, usual: i64| {
                let place = int_of(node, name, outer).unwrap_or(usual);
                let place = if place < 0 { place.saturating_add(rank) } else { place };
                place.clamp(0, rank) as usize
            };
            let (from, to) = (place("start", 0), place("end", rank));
            if node.op == "Shape" && !(from..to).contains(&bound.axis) {
                return Ok(None); // the other sizes are known
            }
            let of = |dims: Vec<i64>| match node.op {
                "Shape" => (vec![to - from], dims[from..to].to_vec()),
                _ => (Vec::new(), vec![dims.iter().product()]),
            };
            return of_sizes(&self.builder, x, bound, &self.marks, of);
        }
        if given.iter().any(Option::is_some) {
            return Ok(None); // rows behind the real ones count at no point
        }
        let mut made = Vec::new();
        for point in 0..3 {
            let Some(operands) = operands_at(node.op, operands, points, point) else {
                return Ok(None);
            };
            let (opset, folder) = (self.opset, self.folder);
            let (few, table, marks) = (&self.names.few, &*self.texts, &self.marks);
            let around = Around { opset, folder, outer, few, table, marks, rows: None };
            let none = || vec![None; operands.len()];
            let call =
                Call::new(node, operands.clone(), around, none(), vec![None; operands.len()]);
            match lower(&mut self.builder, &call) {
                Ok(results) => made.extend(results.into_iter().take(1)),
                Err(_) => return Ok(None),
            }
        }
        let ends = first.zip(made.first()).map(|(from, to)| [from.element(), to.element()]);
        let is_cut = node.op == "Cast" && ends.is_some_and(|[from, to]| is_narrower(from, to));
        Ok(joined(made).filter(|_| !is_cut))
    }

    /// Results of a node that has graphs, or that is a function of the file.
    fn graphs_of(
        &mut self,
        node: &'a NodeFile<'a>,
        operands: &[Option<&Value>],
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<Option<Vec<NodeResult>>, Fault> {
        let same = |function: &&FunctionFile<'_>| {
            (function.name, function.domain) == (node.op, node.domain)
                && function.overload == node.overload
        };
        let is_of_graphs = matches!(node.domain, "" | "ai.onnx")
            && matches!(node.op, "If" | "Loop" | "Scan" | "SequenceMap");
        if !is_of_graphs {
            return match self.functions.iter().find(same) {
                Some(function) => self.function(node, function, operands, outer, depth).map(Some),
                None => Ok(None),
            };
        }
        let mut facts = Names::default();
        let around = std::mem::take(&mut self.hidden);
        let made = match node.op {
            "If" => self.choice(node, operands, scope, outer, depth, &mut facts),
            "Loop" => self.repeated(node, operands, scope, outer, depth, &mut facts.bounds),
            "Scan" => self.scanned(node, operands, scope, outer, depth),
            _ => self.mapped(node, operands, scope, outer, depth),
        };
        self.show_hidden();
        self.hidden = around;
        let made = made?;
        self.ensure_plain(node, node.inputs.iter().copied(), scope)?;
        node.outputs.iter().for_each(|name| self.names.forget(name)); // a graph may have them
        self.names.extend(facts);
        Ok(Some(made))
    }

    /// Keeps what is known of a name `around` a graph that the graph has anew, as a body may have
    /// for an input, until [`show_hidden`](Self::show_hidden).
    pub(super) fn keep_hidden(
        &mut self,
        name: &'a str,
        around: Option<&Scope<'a, '_>>,
    ) -> Result<(), Exhausted> {
        let Some(around) = around else { return Ok(()) };
        let is_around = around.get(name).is_some() || self.names.sequences.contains_key(name);
        if name.is_empty() || !is_around || self.hidden.names.contains(name) {
            return Ok(());
        }
        self.ledger.keep(NAME + ITEM * self.names.items(std::iter::once(name)))?;
        self.hidden.names.insert(name);
        self.hidden.facts.extend(self.names.renamed(std::iter::once((name, name))));
        Ok(())
    }

    /// Gives hidden names their facts back.
    fn show_hidden(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        hidden.names.iter().for_each(|name| self.names.forget(name));
        self.names.extend(hidden.facts);
    }

    /// Refuses texts, and tensors of which data decide a size, where graphs begin and end.
    pub(super) fn ensure_plain<'n>(
        &self,
        node: &NodeFile<'_>,
        names: impl Iterator<Item = &'n str>,
        scope: &Scope<'_, '_>,
    ) -> Result<(), Fault> {
        for name in names {
            if self.names.bounds.contains_key(name) {
                let why = format!(
                    "data decide about a size of {name:?}, which no graph within another can have: \
                     let the network end before it"
                );
                return Err(Fault::at_node(name_of(node), node.op, beyond(&why)));
            }
            ensure_no_text(node, name, scope)?;
        }
        Ok(())
    }

    /// Results of an `If`, with the `facts` of them: those of the branch that a known condition
    /// chooses. If the condition is known only when the network runs, both branches are computed
    /// and the results are chosen.
    fn choice(
        &mut self,
        node: &'a NodeFile<'a>,
        operands: &[Option<&Value>],
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
        facts: &mut Names<'a>,
    ) -> Result<Vec<NodeResult>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let condition = operands.first().copied().flatten();
        let condition = condition.filter(|condition| condition.spec.elements() == 1);
        let condition =
            condition.ok_or_else(|| fault("the condition must be one truth value".into()))?;
        let rows = std::mem::take(&mut self.rows);
        let graph = |name: &str| body(node, name, outer).map_err(fault);
        let (then, other) = (graph("then_branch")?, graph("else_branch")?);
        let (have, want) = (then.outputs.len().min(other.outputs.len()), node.outputs.len());
        if have < want {
            return Err(fault(format!("a branch must have {want} outputs, got {have}")));
        }
        if let Some(known) = condition.known_values() {
            let holds = known.array.values().to_i64()[0] != 0;
            let taken = if holds { then } else { other };
            let made = self.branch(node, (taken, &rows), scope, outer, depth)?;
            let names = taken.outputs.iter().map(|output| output.name);
            let pairs = names.zip(node.outputs.iter().copied());
            facts.few = renamed(&self.names.few, pairs.clone());
            facts.bounds = renamed(&self.names.bounds, pairs.clone());
            facts.points = renamed(&self.names.points, pairs);
            return Ok(made.into_iter().map(|(result, _)| result).collect());
        }
        let both = [(then, true), (other, false)].map(|(graph, holds)| {
            self.guards.push((condition.clone(), holds));
            let made = self.branch(node, (graph, &rows), scope, outer, depth);
            self.guards.pop();
            self.show_hidden();
            made
        });
        let chosen = both.into_iter().collect::<Result<Vec<_>, _>>();
        let chosen = chosen.and_then(|both| {
            let mut results = Vec::new();
            for ((a, b), &name) in both[0].iter().zip(&both[1]).zip(node.outputs.iter()) {
                // Nothing reads a result without a name.
                if name.is_empty() {
                    results.push(a.0.clone());
                    continue;
                }
                let chosen = selected_rows(&mut self.builder, condition, [a, b]);
                let (result, bound) = chosen.map_err(fault)?;
                facts.bounds.extend(bound.map(|bound| (name, bound)));
                results.push(result);
            }
            Ok(results)
        });
        chosen.inspect_err(|_| self.unbound = self.builder.roots(condition))
    }

    /// Results of a branch, which sees the names around it, and the sizes of them that data decide.
    /// Of some results only the first `rows` are read.
    fn branch(
        &mut self,
        node: &'a NodeFile<'a>,
        branch: (&'a GraphFile<'a>, &[Option<usize>]),
        outer_scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<Vec<BranchResult>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let (graph, rows) = branch;
        let rows = rows.iter().copied().chain(std::iter::repeat(None));
        let outputs = Some(graph.outputs.iter().map(|output| output.name).zip(rows).collect());
        let mut scope = Scope { outer: Some(outer_scope), outputs, ..Scope::default() };
        self.initializers(graph, &mut scope)?;
        self.nodes(&graph.nodes, &mut scope, outer, depth)?;
        let mut results = Vec::new();
        for output in &graph.outputs {
            ensure_no_text(node, output.name, &scope)?;
            let result = self.result_named(output.name, &scope).map_err(fault)?;
            results.push((result, self.names.bounds.get(output.name).cloned()));
        }
        Ok(results)
    }

    /// Results of a function for its operands.
    fn function(
        &mut self,
        node: &'a NodeFile<'a>,
        function: &'a FunctionFile<'a>,
        operands: &[Option<&Value>],
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<Vec<NodeResult>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        if depth >= DEPTH {
            return Err(fault(format!("functions call each other more than {DEPTH} deep")));
        }
        ensure_fits(node, function).map_err(fault)?;
        let ports = function.inputs.len() + function.outputs.len();
        let entries = ports + node.attributes.len() + function.defaults.len();
        self.ledger.keep(ENTRY * entries as u64).map_err(|why| fault(why.into()))?;
        let opset = function.opset.unwrap_or(self.opset);
        ensure_read(opset, &OPSETS).map_err(fault)?;
        let mut scope = Scope::default();
        for (k, &name) in function.inputs.iter().enumerate() {
            let operand = node.inputs.get(k);
            if let Some(value) = operands.get(k).copied().flatten() {
                scope.insert(name, value.clone());
            } else if operand.is_none_or(|name| !self.names.sequences.contains_key(name)) {
                scope.left_out.insert(name);
            }
        }
        let own = node.attributes.iter().filter_map(|own| Some((own.name, resolved(own, outer)?)));
        let defaults = function.defaults.iter().map(|default| (default.name, default));
        let outer: Vec<_> = own.chain(defaults).collect();
        let pairs = node.inputs.iter().copied().zip(function.inputs.iter().copied());
        let items = self.names.items(node.inputs.iter().copied());
        self.ledger.keep(ITEM * items).map_err(|why| fault(why.into()))?;
        let given = self.names.renamed(pairs);
        let around = std::mem::replace(&mut self.names, given);
        let opset = std::mem::replace(&mut self.opset, opset);
        let read = self.nodes(&function.nodes, &mut scope, &outer, depth + 1);
        self.opset = opset;
        let own = std::mem::replace(&mut self.names, around);
        read?;
        // Each is copied twice: under its new name, and as a result.
        let items = own.items(function.outputs.iter().copied().take(node.outputs.len()));
        self.ledger.keep(2 * ITEM * items).map_err(|why| fault(why.into()))?;
        let pairs = function.outputs.iter().copied().zip(node.outputs.iter().copied());
        self.names.extend(own.renamed(pairs));
        let result = |(name, to): (&&str, &&str)| match (scope.get(name), own.sequences.get(*name))
        {
            (Some(value), _) => Ok(NodeResult::Tensor(value.clone())),
            (None, Some(list)) => Ok(NodeResult::Sequence(list.clone())),
            (None, None) if to.is_empty() => {
                self.builder.whole(vec![0], Vec::new()).map(NodeResult::Tensor) // nothing reads it
            }
            (None, None) => Err(format!("no node makes {name:?}")),
        };
        let results = function.outputs.iter().zip(node.outputs.iter()).map(result);
        results.collect::<Result<_>>().map_err(fault)
    }
}

/// Refuses an input that is a map, with its remedy: there is one node that makes a tensor of it.
fn refuse_map(graph: &GraphFile<'_>, input: &ValueFile<'_>) -> Result<(), Fault> {
    if input.element != 0 {
        return Ok(()); // it is a tensor
    }
    let takes = |node: &&NodeFile<'_>| {
        matches!(node.op, "CastMap" | "DictVectorizer") && node.inputs.contains(&input.name)
    };
    let Some(node) = graph.nodes.iter().find(takes) else { return Ok(()) };
    let (name, op) = (name_of(node), node.op);
    let why = format!(
        "it is a map, of which node {name:?} ({op}) makes a tensor: begin the file with that tensor"
    );
    Err(Fault::at_input(input.name, beyond(&why)))
}

/// Refuses texts where graphs begin and end.
fn ensure_no_text(node: &NodeFile<'_>, name: &str, scope: &Scope<'_, '_>) -> Result<(), Fault> {
    if scope.get(name).is_none_or(|value| value.texts.is_none()) {
        return Ok(());
    }
    let why = format!("{name:?} is of texts, which no graph within another can take or give");
    Err(Fault::at_node(name_of(node), node.op, beyond(&why)))
}

/// Refuses a node with more operands or results than its function has.
fn ensure_fits(node: &NodeFile<'_>, function: &FunctionFile<'_>) -> Result<()> {
    let named =
        |names: &[&str]| names.iter().rposition(|name| !name.is_empty()).map_or(0, |k| k + 1);
    let (inputs, outputs) = (named(&node.inputs), named(&node.outputs));
    let (most_inputs, most_outputs) = (function.inputs.len(), function.outputs.len());
    if inputs > most_inputs || outputs > most_outputs {
        return Err(format!(
            "the function must have at most {most_inputs} operands and {most_outputs} results, got \
             {inputs} and {outputs}"
        ));
    }
    Ok(())
}

/// A graph of a node, by the name of its attribute.
pub(super) fn body<'a>(
    node: &'a NodeFile<'a>,
    name: &str,
    outer: &Outer<'a>,
) -> Result<&'a GraphFile<'a>> {
    let graph = attribute_of(node, name, outer).and_then(|found| found.graph.as_deref());
    graph.ok_or_else(|| format!("attribute {name} must be a graph"))
}

/// One of two values of the same type and shape, by a condition.
fn select(builder: &mut Builder<'_>, condition: &Value, a: &Value, b: &Value) -> Result<Value> {
    if a.spec != b.spec {
        return Err(beyond(&format!(
            "the condition must be known when the network is read, since the branches give {} and {}",
            a.spec, b.spec
        )));
    }
    let condition = builder.reshape(condition, Vec::new())?;
    builder.map(a.element(), &[&condition, a, b], |w| {
        let (which, a, b) = (w.input(0), w.input(1), w.input(2));
        w.select(which, a, b)
    })
}

/// A result of a branch, and the size of it that data decide.
type BranchResult = (NodeResult, Option<Bound>);

/// As [`selected`]. If data decide about a size of either, the other may have another size there.
fn selected_rows(
    builder: &mut Builder<'_>,
    condition: &Value,
    [a, b]: [&BranchResult; 2],
) -> Result<BranchResult> {
    let ((NodeResult::Tensor(x), of_x), (NodeResult::Tensor(y), of_y)) = (a, b) else {
        return Ok((selected(builder, condition, &a.0, &b.0)?, None));
    };
    let Some(axis) = of_x.as_ref().or(of_y.as_ref()).map(|bound| bound.axis) else {
        return Ok((NodeResult::Tensor(select(builder, condition, x, y)?), None));
    };
    if x.rank() != y.rank() || [of_x, of_y].into_iter().flatten().any(|of| of.axis != axis) {
        return Err(beyond(&format!(
            "data decide about a size of a result, and the branches give {} and {}",
            x.spec, y.spec
        )));
    }
    let most = x.dims()[axis].max(y.dims()[axis]);
    let mut made = Vec::new();
    for (value, bound) in [(x, of_x), (y, of_y)] {
        let own = value.dims()[axis];
        let mut more = vec![0; value.rank()];
        more[axis] = (most - own) as i64;
        let wide = builder.pad(value, &vec![0; value.rank()], &more, Scalar::Whole(0))?;
        let size = match bound {
            Some(bound) => builder.reshape(&bound.size, Vec::new())?,
            None => builder.whole(Vec::new(), vec![own as i64])?,
        };
        made.push((wide, size));
    }
    let chosen = select(builder, condition, &made[0].0, &made[1].0)?;
    let size = select(builder, condition, &made[0].1, &made[1].1)?;
    Ok((NodeResult::Tensor(chosen), Some(Bound { axis, size })))
}

/// As [`select`], of two results: sequences must have one length.
pub(super) fn selected(
    builder: &mut Builder<'_>,
    condition: &Value,
    a: &NodeResult,
    b: &NodeResult,
) -> Result<NodeResult> {
    match (a, b) {
        (NodeResult::Tensor(a), NodeResult::Tensor(b)) => {
            select(builder, condition, a, b).map(NodeResult::Tensor)
        }
        (NodeResult::Sequence(a), NodeResult::Sequence(b)) if a.len() == b.len() => {
            let mut list = Vec::new();
            for (a, b) in a.iter().zip(b) {
                list.push(select(builder, condition, a, b)?);
            }
            Ok(NodeResult::Sequence(list))
        }
        (NodeResult::Sequence(a), NodeResult::Sequence(b)) => Err(beyond(&format!(
            "the condition must be known when the network is read, since it decides about a \
             sequence of {} or {} tensors",
            a.len(),
            b.len()
        ))),
        _ => Err("a tensor by one way and a sequence by another".into()),
    }
}

/// The type of few bits that results of a node have.
fn few_of<'a>(node: &'a NodeFile<'a>, outer: &Outer<'a>, few: &HashMap<&str, Few>) -> Option<Few> {
    let number = |name: &str| int_of(node, name, outer).and_then(Few::of);
    let operand = |index: usize| node.inputs.get(index).and_then(|name| few.get(name)).copied();
    match node.op {
        "Cast" => number("to"),
        "CastLike" => operand(1),
        "Constant" => {
            let attributes = node.attributes.iter().filter_map(|own| resolved(own, outer));
            let mut tensors = attributes.filter_map(|found| found.tensor.as_ref());
            tensors.find_map(|tensor| Few::of(tensor.element))
        }
        "QuantizeLinear" => operand(2).or_else(|| number("output_dtype")),
        "Concat" | "Pad" => operand(0),
        op if MOVING.contains(&op) => operand(0),
        _ => None,
    }
}

fn is_named(input: &ValueFile<'_>, name: &str) -> bool {
    let symbol = |dim: &Dimension<'_>| matches!(dim, Dimension::Open(symbol) if *symbol == name);
    let items = input.items.as_ref().and_then(|item| item.dims.as_deref());
    let dims = input.dims.as_deref().or(items).unwrap_or_default();
    input.name == name || dims.iter().any(symbol)
}

/// Refuses a sequence of `len` tensors if one of them has the name of another port.
fn ensure_own_names(name: &str, len: usize, ports: &HashSet<&str>) -> Result<()> {
    let mut names = (0..len).map(|place| item_name(name, place));
    match names.find(|name| ports.contains(name.as_str())) {
        Some(other) => Err(format!(
            "{other:?} is a tensor of it, and another input or output too: rename that"
        )),
        None => Ok(()),
    }
}

/// Name of a tensor of a sequence that goes in or out.
fn item_name(name: &str, place: usize) -> String {
    format!("{name}.{place}")
}
