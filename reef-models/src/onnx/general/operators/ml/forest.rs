//! A forest as operations: which leaf of each tree a row comes to, and what the leaves give.

use super::nodes::{Branch, Mode, Nodes};
use crate::memory::budget::Charge;
use crate::onnx::fault::Result;
use crate::onnx::general::operators::places::indexed::gather_elements;
use crate::tensors::axes::elements;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{
    Array, Binary, Domain, Element, FoldKind, Gather, Kind, Spec, Target, Unary,
};

/// Combination of the leaves of a row's trees to one number for each target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

/// Weights of each leaf for each target; `None` is nothing.
pub(super) struct Leaves {
    pub(super) targets: usize,
    pub(super) weights: Vec<Option<f64>>,
    /// Type of the sums.
    pub(super) element: Element,
    _memory: Charge,
}

impl Leaves {
    pub(super) fn new(
        b: &Builder<'_>,
        leaves: usize,
        targets: usize,
        element: Element,
    ) -> Result<Self> {
        let count = elements(&[leaves, targets])?;
        let _memory = b.ledger.charge((count * size_of::<Option<f64>>()) as u64)?;
        Ok(Self { targets, weights: vec![None; count], element, _memory })
    }

    /// Adds a weight of a leaf. Several of one target are aggregated as those of trees are. If
    /// there is one target alone, the first one counts, as in ONNX Runtime: the converter of
    /// scikit-learn writes the number of a leaf once for each class.
    pub(super) fn add(
        &mut self,
        leaf: usize,
        target: i64,
        weight: f64,
        by: Aggregate,
    ) -> Result<()> {
        let at = usize::try_from(target).ok().filter(|&target| target < self.targets);
        let at = at.ok_or_else(|| format!("target {target} of {}", self.targets))?;
        let slot = &mut self.weights[leaf * self.targets + at];
        *slot = Some(match (*slot, by) {
            (None, _) => weight,
            (Some(have), _) if self.targets == 1 => have,
            (Some(have), Aggregate::Min) => have.min(weight),
            (Some(have), Aggregate::Max) => have.max(weight),
            (Some(have), _) => have + weight,
        });
        Ok(())
    }

    /// Table of the weights; what a leaf doesn't give changes nothing.
    fn table(&self, b: &Builder<'_>, by: Aggregate) -> Result<Value> {
        let nothing = match by {
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
            _ => 0.0,
        };
        let _making = b.ledger.charge(8 * self.weights.len() as u64)?;
        let numbers = self.weights.iter().map(|weight| weight.unwrap_or(nothing)).collect();
        let rows = self.weights.len() / self.targets.max(1);
        numbers_of(b, vec![rows, self.targets], numbers, self.element)
    }
}

/// Numbers of a type, single or double.
pub(super) fn numbers_of(
    b: &Builder<'_>,
    dims: Vec<usize>,
    numbers: Vec<f64>,
    element: Element,
) -> Result<Value> {
    let array = match element {
        Element::F64 => Array::F64(numbers),
        _ => Array::F32(numbers.into_iter().map(|number| number as f32).collect()),
    };
    b.constant(dims, array)
}

/// Sums of all trees for each row of `x` (`[rows, columns]`) and each target.
pub(super) fn aggregated(
    b: &mut Builder<'_>,
    x: &Value,
    nodes: &Nodes,
    leaves: &Leaves,
    by: Aggregate,
) -> Result<Value> {
    let at = reached(b, x, nodes)?;
    let table = leaves.table(b, by)?;
    let (rows, trees) = (x.dims()[0], nodes.roots.len());
    let given = lookup(b, &table, &at, leaves.targets)?;
    let given = b.reshape(&given, vec![at.dims()[0], trees, leaves.targets])?;
    let kind = match by {
        Aggregate::Sum | Aggregate::Average => FoldKind::Sum,
        Aggregate::Min => FoldKind::Min,
        Aggregate::Max => FoldKind::Max,
    };
    let made = b.fold_axes(&given, &[1], kind)?;
    let made = b.reshape(&made, vec![at.dims()[0], leaves.targets])?;
    let made = b.expand(&made, &[rows, leaves.targets])?;
    match by {
        Aggregate::Sum => Ok(made),
        Aggregate::Average => b.with_number(Binary::Div, &made, trees as f64),
        Aggregate::Min | Aggregate::Max => without_infinite(b, &made),
    }
}

/// 0 for a target that no tree gave anything.
fn without_infinite(b: &mut Builder<'_>, value: &Value) -> Result<Value> {
    b.map(value.element(), &[value], |w| {
        let x = w.input(0);
        let (is, zero) = (w.un(Unary::IsInf, x), w.real(0.0));
        w.select(is, zero, x)
    })
}

/// Rows of a table `[count, inner]` by numbers.
pub(super) fn lookup(
    b: &mut Builder<'_>,
    table: &Value,
    at: &Value,
    inner: usize,
) -> Result<Value> {
    let mut dims = at.dims().to_vec();
    if inner > 1 {
        dims.push(inner);
    }
    let sizes = vec![table.dims()[0]];
    let tuples = at.spec.elements();
    let target = Target::Tuples { batches: 1, shared: true, sizes, inner, tuples };
    b.emit(Kind::Gather(Gather { target }), &[table, at], Spec { element: table.element(), dims })
}

/// Tables with an entry for each node.
struct Tables {
    features: Value,
    thresholds: Value,
    /// Numbers of modes, if there are several.
    modes: Option<Value>,
    /// 1 where a missing value holds, if it does anywhere.
    missing: Option<Value>,
    /// Both children of each node; those of a leaf are itself.
    children: Value,
    /// Modes of branches, each once.
    all: Vec<Mode>,
}

impl Tables {
    fn of(b: &Builder<'_>, nodes: &Nodes) -> Result<Self> {
        let count = nodes.leaves + nodes.branches.len();
        let _making = b.ledger.charge(64 * count as u64)?;
        let leaf = |of: fn(&Branch) -> i64| -> Vec<i64> {
            std::iter::repeat_n(0, nodes.leaves).chain(nodes.branches.iter().map(of)).collect()
        };
        let mut all: Vec<Mode> = nodes.branches.iter().map(|branch| branch.mode).collect();
        all.sort_unstable();
        all.dedup();
        let thresholds = std::iter::repeat_n(0.0, nodes.leaves)
            .chain(nodes.branches.iter().map(|branch| branch.threshold))
            .collect();
        let own = (0..nodes.leaves).flat_map(|leaf| [leaf as i64; 2]);
        let others = nodes.branches.iter().flat_map(|branch| branch.children);
        let children = own.chain(others.map(|child| nodes.number(child) as i64)).collect();
        let has_missing = nodes.branches.iter().any(|branch| branch.takes_missing);
        let modes = (all.len() > 1).then(|| b.whole(vec![count], leaf(|of| of.mode as i64)));
        let missing = has_missing.then(|| b.whole(vec![count], leaf(|of| of.takes_missing.into())));
        Ok(Self {
            features: b.whole(vec![count], leaf(|of| of.feature as i64))?,
            thresholds: b.constant(vec![count], Array::F64(thresholds))?,
            modes: modes.transpose()?,
            missing: missing.transpose()?,
            children: b.whole(vec![2 * count], children)?,
            all,
        })
    }

    /// Numbers of the nodes that follow `at` for values of `x`.
    fn step(&self, b: &mut Builder<'_>, x: &Value, at: &Value) -> Result<Value> {
        let feature = lookup(b, &self.features, at, 1)?;
        let feature = b.expand(&feature, &[x.dims()[0], at.dims()[1]])?;
        let value = gather_elements(b, x, &feature, 1)?;
        let threshold = lookup(b, &self.thresholds, at, 1)?;
        let mut inputs = vec![value, threshold, at.clone()];
        for table in [&self.modes, &self.missing].into_iter().flatten() {
            inputs.push(lookup(b, table, at, 1)?);
        }
        let inputs: Vec<&Value> = inputs.iter().collect();
        let place = b.map_in(Domain::F64, Element::I64, &inputs, |w| self.place(w))?;
        lookup(b, &self.children, &place, 1)
    }

    /// Writes the place among the children: twice the node's number, and 1 more for the second.
    fn place(&self, w: &mut Writer) -> usize {
        let (value, threshold, at) = (w.input(0), w.input(1), w.input(2));
        let mode = self.modes.as_ref().map(|_| w.input(3));
        let missing = self.missing.as_ref().map(|_| w.input(3 + usize::from(mode.is_some())));
        let mut holds = condition(w, self.all[0], value, threshold);
        for &other in &self.all[1..] {
            let (number, mode) = (w.whole(other as i64), mode.expect("of several"));
            let (is, then) =
                (w.bin(Binary::Equal, mode, number), condition(w, other, value, threshold));
            holds = w.select(is, then, holds);
        }
        if let Some(missing) = missing {
            let is_nan = w.un(Unary::IsNan, value);
            let taken = w.mul(is_nan, missing);
            holds = w.bin(Binary::Max, holds, taken);
        }
        let (two, second) = (w.whole(2), w.un(Unary::Not, holds));
        let first = w.mul(two, at);
        w.add(first, second)
    }
}

fn condition(w: &mut Writer, mode: Mode, value: usize, threshold: usize) -> usize {
    match mode {
        Mode::LessOrEqual => w.bin(Binary::LessOrEqual, value, threshold),
        Mode::Less => w.bin(Binary::Less, value, threshold),
        Mode::GreaterOrEqual => w.bin(Binary::LessOrEqual, threshold, value),
        Mode::Greater => w.bin(Binary::Less, threshold, value),
        Mode::Equal => w.bin(Binary::Equal, value, threshold),
        Mode::NotEqual => {
            let is = w.bin(Binary::Equal, value, threshold);
            w.un(Unary::Not, is)
        }
    }
}

/// Numbers of the leaves that each row's trees come to, `[rows, trees]`, or `[1, trees]` if all
/// trees are leaves.
fn reached(b: &mut Builder<'_>, x: &Value, nodes: &Nodes) -> Result<Value> {
    nodes.check_features(x.dims()[1])?;
    let roots = nodes.roots.iter().map(|&root| nodes.number(root) as i64).collect();
    let mut at = b.whole(vec![1, nodes.roots.len()], roots)?;
    let depth = nodes.depth()?;
    if depth == 0 {
        return Ok(at);
    }
    let tables = Tables::of(b, nodes)?;
    for _ in 0..depth {
        at = tables.step(b, x, &at)?;
    }
    Ok(at)
}
