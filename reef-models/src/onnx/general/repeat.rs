//! `Loop`, `Scan` and `SequenceMap`, whose bodies are read again for each iteration.
//!
//! Their number is known when the network is read, by constants or shapes, or it has a bound, such
//! as the most rows that there may be. An iteration that data may end sooner is computed, and its
//! results are taken if it was reached. A check says after the inference whether the loop would
//! have gone on.

use super::bounds::points::whole;
use super::call::{Outer, attribute_of, int_of};
use super::stored::element;
use super::walk::{ITEM, NodeResult, Scope, Walk, body, selected};
use crate::model::ports::Port;
use crate::onnx::fault::{Fault, Result, beyond};
use crate::onnx::file::{Dimension, GraphFile, NodeFile, ValueFile};
use crate::onnx::node::name_of;
use crate::tensors::axes::{axis, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Array, Binary, Domain, Element, FoldKind, Spec, Truth};
use std::collections::HashMap;

/// Maximum number of iterations of all loops of a file.
pub(super) const MAX_ITERATIONS: usize = 1 << 14;

/// Iterations after which a loop that data end has ended, if neither its trip count nor the caller
/// says so.
const LOOP_BOUND: usize = 64;

/// Most integers of an input that decides about a trip count and is given when the network is read.
const MAX_GIVEN: usize = 16;

/// Trip count of a loop.
enum Trips {
    Endless,
    Known(usize),
    /// One integer that data decide: at most `most`, if it is computed of a number of rows, and
    /// `rows` itself, if it is that number.
    Open {
        number: Value,
        most: Option<usize>,
        rows: Option<Value>,
    },
}

impl Trips {
    /// The most that it can be, if that is known.
    fn maximum(&self) -> Option<usize> {
        match self {
            Self::Endless => None,
            Self::Known(number) => Some(*number),
            Self::Open { most, .. } => *most,
        }
    }

    /// As [`maximum`](Self::maximum), if it is a bound for the loop.
    fn bound(&self) -> Option<usize> {
        self.maximum().filter(|&most| most <= MAX_ITERATIONS)
    }
}

/// A body with the names around it.
struct Body<'a, 's> {
    node: &'a NodeFile<'a>,
    graph: &'a GraphFile<'a>,
    scope: Scope<'a, 's>,
    outer: &'s Outer<'a>,
    depth: usize,
}

/// Results that an iteration hands to the next one, and those that all iterations give.
struct Turn {
    state: Vec<NodeResult>,
    given: Vec<Vec<Value>>,
}

impl<'a> Walk<'a, '_> {
    /// Results of a `Loop`: operands are the trip count, the condition, and the state. Sizes of the
    /// results that data decide go to `bounds`.
    pub(super) fn repeated(
        &mut self,
        node: &'a NodeFile<'a>,
        operands: &[Option<&Value>],
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
        bounds: &mut HashMap<&'a str, Bound>,
    ) -> Result<Vec<NodeResult>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let body = self.body(node, scope, outer, depth)?;
        let state = self.named_operands(node, operands, 2).map_err(fault)?;
        let fixed = state.len() + 2;
        body.ensure_ports(fixed, state.len() + 1).map_err(fault)?;
        let trips = self.trip_count(node, operands.first().copied().flatten()).map_err(fault)?;
        let mut condition = match operands.get(1).copied().flatten() {
            Some(given) => given.clone(),
            None => self.truth(true).map_err(fault)?,
        };
        let first = state.len() + 1;
        let gives_rows = body.graph.outputs.len() > first;
        let asked = self.options.loop_bound;
        let most = asked.or(trips.bound()).unwrap_or(LOOP_BOUND);
        let mut turn = Turn { state, given: Vec::new() };
        let (mut count, mut open) = (0, Vec::new());
        while trips.maximum().is_none_or(|trips| count < trips) {
            if known_condition(&condition).map_err(fault)? == Some(false) {
                break;
            }
            let going = self.within(&condition, count, &trips).map_err(fault)?;
            let is_known = going.known_values().is_some();
            if !is_known && count >= most {
                self.check_ended(node, most, &going).map_err(fault)?;
                break;
            }
            if !is_known {
                let is_open = gives_rows && condition.known_values().is_none();
                if asked.is_none() && (is_open || trips.bound().is_none()) {
                    self.ensure_open(&going, 1).map_err(fault)?;
                }
                open.push(going.clone());
                self.guards.push((going.clone(), true));
            }
            let made = self.iteration(&body, count, &condition, &turn.state);
            if !is_known {
                self.guards.pop();
            }
            let made = made.map_err(|failed| self.unreached(failed, count, &going))?;
            condition = self.advance(&mut turn, &condition, &going, made).map_err(fault)?;
            count += 1;
        }
        let stacked = if count == 0 && gives_rows {
            let never = self.truth(false).map_err(fault)?;
            self.guards.push((never, true));
            let made = self.iteration(&body, 0, &condition, &turn.state);
            self.guards.pop();
            self.of_none(&body, made, first, &[])?
        } else {
            let made = stacked(&mut self.builder, &turn.given, &[]);
            if let (Err(_), Some(going)) = (&made, open.last()) {
                self.want_values(going);
            }
            made.map_err(fault)?
        };
        if gives_rows && !open.is_empty() {
            let size = match trips {
                // Nothing else has ended it.
                Trips::Open { most: Some(most), rows: Some(rows), .. }
                    if count == most && condition.known_values().is_some() =>
                {
                    rows
                }
                _ => self.reached(count - open.len(), &open).map_err(fault)?,
            };
            let rows = node.outputs.iter().skip(turn.state.len()).filter(|name| !name.is_empty());
            bounds.extend(rows.map(|&name| (name, Bound { axis: 0, size: size.clone() })));
        }
        Ok(turn.state.into_iter().chain(stacked.into_iter().map(NodeResult::Tensor)).collect())
    }

    /// Operands from `first` on: tensors and sequences.
    fn named_operands(
        &self,
        node: &NodeFile<'a>,
        operands: &[Option<&Value>],
        first: usize,
    ) -> Result<Vec<NodeResult>> {
        let mut given = Vec::new();
        for (name, operand) in node.inputs.iter().zip(operands).skip(first) {
            given.push(match operand {
                Some(value) => NodeResult::Tensor(Value::clone(value)),
                None => self.sequence_named(name)?.ok_or("an operand is missing")?,
            });
        }
        Ok(given)
    }

    /// The body of a node, with its constants.
    fn body<'s>(
        &mut self,
        node: &'a NodeFile<'a>,
        scope: &'s Scope<'a, 's>,
        outer: &'s Outer<'a>,
        depth: usize,
    ) -> Result<Body<'a, 's>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let graph = body(node, "body", outer).map_err(fault)?;
        let mut scope = Scope { outer: Some(scope), ..Scope::default() };
        self.initializers(graph, &mut scope)?;
        Ok(Body { node, graph, scope, outer, depth })
    }

    fn trip_count(&mut self, node: &NodeFile<'a>, given: Option<&Value>) -> Result<Trips> {
        let Some(given) = given else { return Ok(Trips::Endless) };
        if given.spec.elements() != 1 {
            return Err(format!("the trip count must be one number, got {}", given.spec));
        }
        if let Some(known) = given.known_values() {
            return Ok(Trips::Known(known.array.values().to_i64()[0].max(0) as usize));
        }
        let (most, rows) = self.number_of_rows(node).unwrap_or_default();
        if self.options.loop_bound.is_none() && most.is_none() {
            self.ensure_open(given, MAX_GIVEN)?;
        }
        let number = self.builder.reshape(given, Vec::new())?;
        Ok(Trips::Open { number, most, rows })
    }

    /// The most that a trip count can be which is computed of a number of rows that data decide, if
    /// it is a bound; and this number, if it is the trip count.
    fn number_of_rows(&self, node: &NodeFile<'a>) -> Option<(Option<usize>, Option<Value>)> {
        let points = self.names.points.get(node.inputs.first()?)?;
        let [least, most, marked] = points.each_ref().map(|point| whole(point).first().copied());
        let (least, most, marked) = (least?, most?.max(0) as usize, marked?);
        let rows = self.marks.get(marked).filter(|_| least == 0);
        Some((Some(most).filter(|&most| most <= MAX_ITERATIONS), rows))
    }

    /// Refuses a value that follows from inputs of at most `len` integers or truth values: given
    /// when the network is read, they say how many iterations there are.
    fn ensure_open(&mut self, value: &Value, len: usize) -> Result<()> {
        let roots = self.builder.roots(value);
        let is_small = |port: &Port| {
            let Spec { element, .. } = &port.spec;
            let is_whole = matches!(element, Element::Bool | Element::I32 | Element::I64);
            is_whole && port.spec.elements() <= len
        };
        let inputs = self.builder.inputs();
        let is_given =
            |name: &String| inputs.iter().any(|port| port.name == *name && is_small(port));
        if roots.is_empty() || !roots.iter().all(is_given) {
            return Ok(());
        }
        self.unbound = roots;
        Err(beyond(
            "inputs decide about the number of iterations: give their values, or a bound of the \
             loop (`loop_bound`)",
        ))
    }

    /// A condition that holds if this one does, and iteration `count` is below the trip count.
    fn within(&mut self, condition: &Value, count: usize, trips: &Trips) -> Result<Value> {
        let Trips::Open { number: trips, .. } = trips else { return Ok(condition.clone()) };
        let number = self.builder.whole(Vec::new(), vec![count as i64])?;
        let condition = self.builder.reshape(condition, Vec::new())?;
        let inputs = [&number, trips, &condition];
        self.builder.map_in(Domain::I64, Element::Bool, &inputs, |w| {
            let (number, trips, condition) = (w.input(0), w.input(1), w.input(2));
            let is_within = w.bin(Binary::Less, number, trips);
            w.bin(Binary::Min, is_within, condition)
        })
    }

    /// Asks for the values of inputs that decide whether a loop goes on: sizes may change from one
    /// iteration to the next, and those that are never reached may not fit. Returns whether there
    /// are any. Sizes that were guessed are tried first, and other faults stay.
    fn want_values(&mut self, going: &Value) -> bool {
        let is_other = !self.unbound.is_empty()
            || self.iterations > MAX_ITERATIONS
            || self.options.guessed.get()
            || self.builder.ledger.refusal().is_some();
        if is_other {
            return false;
        }
        self.unbound = self.builder.roots(going);
        !self.unbound.is_empty()
    }

    /// A fault of iteration `count`, which data may not reach, with the ways to leave it out.
    fn unreached(&mut self, fault: Fault, count: usize, going: &Value) -> Fault {
        if count == 0 || !self.want_values(going) {
            return fault; // the first one tells whether the body can be read
        }
        let Fault { at, why } = fault;
        let at = format!("{at}: {why}, in iteration {count}, which `loop_bound` may leave out");
        Fault { at, why }
    }

    /// Notes that a loop must have ended by its bound, if what is around it is reached.
    fn check_ended(&mut self, node: &NodeFile<'_>, most: usize, condition: &Value) -> Result<()> {
        let is_never = |(guard, holds): &(Value, bool)| {
            known_condition(guard).is_ok_and(|known| known == Some(!*holds))
        };
        if self.guards.iter().any(is_never) {
            return Ok(());
        }
        let name = format!("node {:?} (Loop): {most} iterations", name_of(node));
        let condition = self.builder.reshape(condition, Vec::new())?;
        let mut left = self.builder.cast(&condition, Element::I64)?;
        for (guard, holds) in &self.guards {
            let guard = self.builder.reshape(guard, Vec::new())?;
            let none = self.builder.whole(Vec::new(), vec![0])?;
            left =
                self.builder.map_in(Domain::I64, Element::I64, &[&guard, &left, &none], |w| {
                    let (guard, left, none) = (w.input(0), w.input(1), w.input(2));
                    let [reached, other] = if *holds { [left, none] } else { [none, left] };
                    w.select(guard, reached, other)
                })?;
        }
        match self.checks.iter_mut().find(|(of, _)| *of == name) {
            Some((_, other)) => {
                let both = [&*other, &left];
                *other = self.builder.map_in(Domain::I64, Element::I64, &both, |w| {
                    let (a, b) = (w.input(0), w.input(1));
                    w.bin(Binary::Max, a, b)
                })?;
            }
            None => self.checks.push((name, left)),
        }
        Ok(())
    }

    /// Number of iterations that were reached: the first ones, and others as their conditions say.
    fn reached(&mut self, first: usize, open: &[Value]) -> Result<Value> {
        let mut each = vec![self.builder.whole(vec![1], vec![first as i64])?];
        for condition in open {
            let condition = self.builder.reshape(condition, vec![1])?;
            each.push(self.builder.cast(&condition, Element::I64)?);
        }
        let all = self.builder.concat(&each.iter().collect::<Vec<_>>(), 0)?;
        let sum = self.builder.fold_axes(&all, &[0], FoldKind::Sum)?;
        self.builder.reshape(&sum, Vec::new())
    }

    /// Results of one iteration of a `Loop`.
    fn iteration(
        &mut self,
        body: &Body<'a, '_>,
        count: usize,
        condition: &Value,
        state: &[NodeResult],
    ) -> Result<Vec<NodeResult>, Fault> {
        let number = self.builder.whole(Vec::new(), vec![count as i64]);
        let number = number.map_err(|why| body.fault(why))?;
        let given = [number, condition.clone()].into_iter().map(NodeResult::Tensor);
        self.run_body(body, given.chain(state.iter().cloned()).collect())
    }

    /// Results of a body for these inputs.
    fn run_body(
        &mut self,
        body: &Body<'a, '_>,
        given: Vec<NodeResult>,
    ) -> Result<Vec<NodeResult>, Fault> {
        self.iterations += 1;
        if self.iterations > MAX_ITERATIONS {
            let why =
                format!("loops have more than {MAX_ITERATIONS} iterations: let them have fewer");
            return Err(body.fault(beyond(&why)));
        }
        let mut own = HashMap::new();
        for (input, given) in body.graph.inputs.iter().zip(given) {
            let kept = self.keep_hidden(input.name, Some(&body.scope));
            kept.map_err(|why| body.fault(why.into()))?;
            self.names.forget(input.name);
            match given {
                NodeResult::Tensor(value) => {
                    own.insert(input.name, value);
                }
                NodeResult::Sequence(list) => {
                    let kept = self.builder.ledger.keep(ITEM * list.len() as u64);
                    kept.map_err(|why| body.fault(why.into()))?;
                    self.names.sequences.insert(input.name, list);
                }
            }
        }
        let mut scope = Scope { own, outer: Some(&body.scope), ..Scope::default() };
        self.nodes(&body.graph.nodes, &mut scope, body.outer, body.depth)?;
        let names = body.graph.outputs.iter().map(|output| output.name);
        self.ensure_plain(body.node, names, &scope)?;
        let result = |output: &ValueFile<'a>| self.result_named(output.name, &scope);
        let made: Result<_> = body.graph.outputs.iter().map(result).collect();
        made.map_err(|why| body.fault(why))
    }

    /// Takes the results of an iteration, where it was reached: where `going` holds, the body's
    /// condition within the trip count. Returns the condition of the next.
    fn advance(
        &mut self,
        turn: &mut Turn,
        condition: &Value,
        going: &Value,
        made: Vec<NodeResult>,
    ) -> Result<Value> {
        let mut made = made.into_iter();
        let next = made.next().ok_or("no condition")?.tensor()?;
        let fresh: Vec<NodeResult> = made.by_ref().take(turn.state.len()).collect();
        turn.given.push(tensors(made)?);
        if going.known_values().is_some() {
            turn.state = fresh;
            return Ok(next);
        }
        let pairs = fresh.iter().zip(&turn.state);
        let chosen = pairs.map(|(new, old)| selected(&mut self.builder, going, new, old));
        let chosen: Result<Vec<NodeResult>> = chosen.collect();
        if chosen.is_err() {
            self.want_values(going);
        }
        turn.state = chosen?;
        if [condition, &next].iter().all(|value| value.known_values().is_some()) {
            return Ok(next); // the trip count alone decides so far
        }
        let [next, going] = [&next, going].map(|value| self.builder.reshape(value, vec![]));
        self.builder.map_in(Domain::I64, Element::Bool, &[&next?, &going?], |w| {
            let (next, going) = (w.input(0), w.input(1));
            w.bin(Binary::Min, next, going)
        })
    }

    fn truth(&self, holds: bool) -> Result<Value> {
        self.builder.constant(Vec::new(), Array::Bool(vec![Truth(holds.into())]))
    }

    /// Results of a `Scan`: operands are the state, and sequences.
    pub(super) fn scanned(
        &mut self,
        node: &'a NodeFile<'a>,
        operands: &[Option<&Value>],
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<Vec<NodeResult>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let body = self.body(node, scope, outer, depth)?;
        if self.opset >= 9 {
            return self.scan(&body, all(operands).map_err(fault)?, "scan_input_directions");
        }
        // Of operator set 8: the first axis of all is that of a batch, and the next one is walked.
        let batches = batches(&mut self.builder, operands).map_err(fault)?;
        let mut given = Vec::new();
        for operands in batches {
            let made = self.scan(&body, operands, "directions")?;
            given.push(tensors(made).map_err(fault)?);
        }
        let stacked = stacked(&mut self.builder, &given, &[]).map_err(fault)?;
        Ok(stacked.into_iter().map(NodeResult::Tensor).collect())
    }

    /// Results of a body for each part of the sequences, which follow the state. `directions` is
    /// the attribute that says from which end they are walked.
    fn scan(
        &mut self,
        body: &Body<'a, '_>,
        mut operands: Vec<Value>,
        directions: &str,
    ) -> Result<Vec<NodeResult>, Fault> {
        let (node, outer) = (body.node, body.outer);
        let fault = |why| body.fault(why);
        let count = number(node, "num_scan_inputs", outer).and_then(|count| {
            operands
                .len()
                .checked_sub(count)
                .ok_or_else(|| format!("{count} sequences are missing"))
        });
        let sequences = operands.split_off(count.map_err(fault)?);
        body.ensure_ports(operands.len() + sequences.len(), operands.len()).map_err(fault)?;
        let outputs = body.graph.outputs.len() - operands.len();
        let sequences =
            Sequences::of(node, outer, sequences, outputs, directions).map_err(fault)?;
        let state = operands.into_iter().map(NodeResult::Tensor).collect();
        let mut turn = Turn { state, given: Vec::new() };
        for at in 0..sequences.len {
            let parts = sequences.at(&mut self.builder, at).map_err(fault)?;
            let parts = parts.into_iter().map(NodeResult::Tensor);
            let given = turn.state.iter().cloned().chain(parts).collect();
            let mut made = self.run_body(body, given)?;
            let parts = made.split_off(turn.state.len());
            turn.given.push(tensors(parts).map_err(fault)?);
            turn.state = made;
        }
        let ends = &sequences.outputs;
        let stacked = if sequences.len == 0 {
            let parts = sequences.zeros(&mut self.builder).map_err(fault)?;
            let parts = parts.into_iter().map(NodeResult::Tensor);
            let never = self.truth(false).map_err(fault)?;
            self.guards.push((never, true));
            let made = self.run_body(body, turn.state.iter().cloned().chain(parts).collect());
            self.guards.pop();
            self.of_none(body, made, turn.state.len(), ends)?
        } else {
            stacked(&mut self.builder, &turn.given, ends).map_err(fault)?
        };
        Ok(turn.state.into_iter().chain(stacked.into_iter().map(NodeResult::Tensor)).collect())
    }

    /// Results of a `SequenceMap`: a sequence of each of its body's, for all places of the first
    /// operand. Other operands are sequences as long, or tensors for all places.
    pub(super) fn mapped(
        &mut self,
        node: &'a NodeFile<'a>,
        operands: &[Option<&Value>],
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
    ) -> Result<Vec<NodeResult>, Fault> {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let body = self.body(node, scope, outer, depth)?;
        let given = self.named_operands(node, operands, 0).map_err(fault)?;
        let Some(NodeResult::Sequence(first)) = given.first() else {
            return Err(fault("operand 0 must be a sequence".into()));
        };
        let len = first.len();
        body.ensure_ports(given.len(), node.outputs.len()).map_err(fault)?;
        let other_len = |operand: &NodeResult| match operand {
            NodeResult::Sequence(list) => Some(list.len()).filter(|&other| other != len),
            NodeResult::Tensor(_) => None,
        };
        if let Some(other) = given.iter().find_map(other_len) {
            return Err(fault(format!("sequences must have one length, got {len} and {other}")));
        }
        let mut made = vec![Vec::new(); body.graph.outputs.len()];
        for at in 0..len {
            let part = |operand: &NodeResult| match operand {
                NodeResult::Sequence(list) => NodeResult::Tensor(list[at].clone()),
                NodeResult::Tensor(value) => NodeResult::Tensor(value.clone()),
            };
            let results = self.run_body(&body, given.iter().map(part).collect())?;
            for (list, value) in made.iter_mut().zip(tensors(results).map_err(fault)?) {
                list.push(value);
            }
        }
        Ok(made.into_iter().map(NodeResult::Sequence).collect())
    }

    /// Results from `first` on of a body that never runs: none of each. It was read for their types
    /// and sizes alone. A body that can't be read, such as one that takes a row of a tensor without
    /// rows, has those that the file says; open sizes are 0, as in ONNX Runtime.
    fn of_none(
        &self,
        body: &Body<'a, '_>,
        made: Result<Vec<NodeResult>, Fault>,
        first: usize,
        ways: &[Way],
    ) -> Result<Vec<Value>, Fault> {
        let made = made
            .and_then(|made| tensors(made.into_iter().skip(first)).map_err(|why| body.fault(why)));
        let specs: Vec<Spec> = match made {
            Ok(made) => made.into_iter().map(|value| value.spec).collect(),
            Err(fault) => {
                let is_final = self.builder.ledger.refusal().is_some() || !self.unbound.is_empty();
                let said = body.graph.outputs.iter().skip(first).map(declared);
                said.collect::<Option<Vec<_>>>().filter(|_| !is_final).ok_or(fault)?
            }
        };
        let none = |(k, Spec { element, mut dims }): (usize, Spec)| {
            let (at, _) = ways.get(k).copied().unwrap_or_default();
            dims.insert(axis(at, dims.len() + 1)?, 0);
            self.builder.constant(dims, Array::with_capacity(element, 0))
        };
        specs
            .into_iter()
            .enumerate()
            .map(none)
            .collect::<Result<_>>()
            .map_err(|why| body.fault(why))
    }
}

/// Type and sizes of an output, if the file says them.
fn declared(output: &ValueFile<'_>) -> Option<Spec> {
    let known = |dim: &Dimension<'_>| match dim {
        Dimension::Fixed(number) => size(*number).ok(),
        Dimension::Open(_) => Some(0),
    };
    let dims = output.dims.as_ref()?.iter().map(known).collect::<Option<_>>()?;
    Some(Spec { element: element(output.element).ok()?, dims })
}

impl Body<'_, '_> {
    fn fault(&self, why: String) -> Fault {
        Fault::at_node(name_of(self.node), self.node.op, why)
    }

    /// Refuses a body with another number of inputs, or with fewer outputs, and a node that names
    /// more results than there are.
    fn ensure_ports(&self, inputs: usize, outputs: usize) -> Result<()> {
        let (own, made) = (self.graph.inputs.len(), self.graph.outputs.len());
        if own != inputs || made < outputs {
            return Err(format!(
                "its body must have {inputs} inputs and at least {outputs} outputs, got {own} and \
                 {made}"
            ));
        }
        let (named, have) = (self.node.outputs.len(), made - usize::from(self.node.op == "Loop"));
        if named > have {
            return Err(format!("its body must have {named} results, got {have}"));
        }
        Ok(())
    }
}

/// An axis, and whether it is walked from its end.
type Way = (i64, bool);

/// Tensors of which each iteration gets a part.
struct Sequences {
    each: Vec<(Value, usize, bool)>,
    len: usize,
    outputs: Vec<Way>,
}

impl Sequences {
    fn of<'a>(
        node: &'a NodeFile<'a>,
        outer: &Outer<'a>,
        values: Vec<Value>,
        outputs: usize,
        directions: &str,
    ) -> Result<Self> {
        let list = |name: &str, count: usize| numbers(node, name, outer, count);
        let inputs = values.len();
        let axes = list("scan_input_axes", inputs)?;
        let ways = ways(axes, list(directions, inputs)?);
        let axes = list("scan_output_axes", outputs)?;
        let outputs = self::ways(axes, list("scan_output_directions", outputs)?);
        let mut each = Vec::new();
        for (value, (at, is_reverse)) in values.into_iter().zip(ways) {
            let at = axis(at, value.rank())?;
            each.push((value, at, is_reverse));
        }
        let lens: Vec<usize> = each.iter().map(|(value, at, _)| value.dims()[*at]).collect();
        match lens.first() {
            Some(&len) if lens.iter().all(|&other| other == len) => Ok(Self { each, len, outputs }),
            _ => Err(format!("sequences must have one length, got {lens:?}")),
        }
    }

    /// The parts of iteration `at`.
    fn at(&self, b: &mut Builder<'_>, at: usize) -> Result<Vec<Value>> {
        let mut parts = Vec::new();
        for (value, axis, is_reverse) in &self.each {
            let mut dims = value.dims().to_vec();
            dims.remove(*axis);
            let at = if *is_reverse { self.len - 1 - at } else { at };
            let part = b.cut(value, *axis, at, at + 1)?;
            parts.push(b.reshape(&part, dims)?);
        }
        Ok(parts)
    }

    /// Zeros as large as the parts of an iteration.
    fn zeros(&self, b: &mut Builder<'_>) -> Result<Vec<Value>> {
        let mut parts = Vec::new();
        for (value, axis, _) in &self.each {
            let mut dims = value.dims().to_vec();
            dims.remove(*axis);
            let zero = b.scalar(value.element(), 0.0)?;
            parts.push(b.expand(&zero, &dims)?);
        }
        Ok(parts)
    }
}

/// A number of an attribute for each of `count` sequences; 0 for all if the node says nothing: the
/// first axis, from its start.
fn numbers<'a>(
    node: &'a NodeFile<'a>,
    name: &str,
    outer: &Outer<'a>,
    count: usize,
) -> Result<Vec<i64>> {
    let found = attribute_of(node, name, outer);
    let list = found.map_or(vec![0; count], |found| found.ints.to_vec());
    if list.len() == count {
        return Ok(list);
    }
    Err(format!("attribute {name} must have {count} numbers, got {}", list.len()))
}

/// Axes with their directions.
fn ways(axes: Vec<i64>, directions: Vec<i64>) -> Vec<Way> {
    axes.into_iter().zip(directions).map(|(axis, direction)| (axis, direction != 0)).collect()
}

/// A number that an attribute must say.
fn number<'a>(node: &'a NodeFile<'a>, name: &str, outer: &Outer<'a>) -> Result<usize> {
    size(int_of(node, name, outer).ok_or_else(|| format!("attribute {name} is missing"))?)
}

/// Results of all iterations along a new axis, the first unless `ways` says otherwise.
fn stacked(b: &mut Builder<'_>, given: &[Vec<Value>], ways: &[Way]) -> Result<Vec<Value>> {
    let outputs = given.first().map_or(0, Vec::len);
    let mut made = Vec::new();
    for k in 0..outputs {
        let (at, is_reverse) = ways.get(k).copied().unwrap_or_default();
        let at = axis(at, given[0][k].rank() + 1)?;
        let mut parts = Vec::new();
        for values in given {
            let mut dims = values[k].dims().to_vec();
            dims.insert(at.min(dims.len()), 1);
            parts.push(b.reshape(&values[k], dims)?);
        }
        if is_reverse {
            parts.reverse();
        }
        made.push(b.concat(&parts.iter().collect::<Vec<_>>(), at)?);
    }
    Ok(made)
}

/// Results, each of which must be a tensor.
fn tensors(results: impl IntoIterator<Item = NodeResult>) -> Result<Vec<Value>> {
    results.into_iter().map(NodeResult::tensor).collect()
}

/// Operands, none of which may be left out.
fn all(operands: &[Option<&Value>]) -> Result<Vec<Value>> {
    let each = operands.iter().map(|operand| operand.cloned());
    each.collect::<Option<_>>().ok_or_else(|| "an operand is missing".into())
}

/// Operands of each entry of the batch that a `Scan` of operator set 8 has, whose first operand is
/// the lengths of its sequences.
fn batches(b: &mut Builder<'_>, operands: &[Option<&Value>]) -> Result<Vec<Vec<Value>>> {
    let (lengths, others) = operands.split_first().ok_or("operand 0 is missing")?;
    if lengths.is_some() {
        let why = "sequences have lengths of their own in operator set 8: convert the file to 9 or \
                   later";
        return Err(beyond(why));
    }
    let others = all(others)?;
    let first = |value: &Value| value.dims().first().copied();
    let batch = others.first().and_then(first).ok_or("a batch is missing")?;
    if batch == 0 || others.iter().any(|value| first(value) != Some(batch)) {
        let shown: Vec<_> = others.iter().map(|value| value.spec.to_string()).collect();
        let shown = shown.join(", ");
        return Err(format!("operands must have one batch of at least 1, got {shown}"));
    }
    let _making = b.ledger.charge((ITEM * others.len() as u64).saturating_mul(batch as u64))?;
    let mut made = Vec::new();
    for at in 0..batch {
        let mut entry = Vec::new();
        for value in &others {
            let part = b.cut(value, 0, at, at + 1)?;
            entry.push(b.reshape(&part, value.dims()[1..].to_vec())?);
        }
        made.push(entry);
    }
    Ok(made)
}

/// A condition, if it is known.
fn known_condition(condition: &Value) -> Result<Option<bool>> {
    if condition.spec.elements() != 1 {
        return Err(format!("the condition must be one truth value, got {}", condition.spec));
    }
    let known = condition.known_values();
    Ok(known.map(|known| known.array.values().to_i64()[0] != 0))
}
