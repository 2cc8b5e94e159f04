//! Ensembles of trees: classifiers, regressors, and the operator that stands for both since
//! version 5.

use super::forest::{Aggregate, Leaves, aggregated};
use super::nodes::{Branch, Child, Mode, NamedNodes, NodeLists, Nodes};
use super::scores::{Labels, Transform, based, pair};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::stored::array;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Element};
use std::collections::HashMap;

/// The input as rows of columns.
pub(super) fn rows(b: &Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    match x.dims() {
        &[columns] => b.reshape(x, vec![1, columns]),
        [_, _] => Ok(x.clone()),
        _ => Err(format!("the input must have one or two dimensions, got {}", x.spec)),
    }
}

/// Numbers of an attribute, single or, as a tensor, double, and their type.
fn numbers(
    b: &Builder<'_>,
    call: &Call<'_>,
    list: &'static str,
    tensor: &'static str,
) -> Result<(Vec<f64>, Element)> {
    let singles = call.floats(list)?.unwrap_or_default();
    match held(b, call, tensor)? {
        Some(array) => Ok((array.values().to_f64(), array.element())),
        None => Ok((singles.iter().map(|&x| x.into()).collect(), Element::F32)),
    }
}

/// Values of an attribute that is a tensor, if it is there.
fn held(b: &Builder<'_>, call: &Call<'_>, name: &'static str) -> Result<Option<Array>> {
    let Some(attribute) = call.attribute(name)? else { return Ok(None) };
    let tensor = attribute.tensor.as_ref();
    let tensor = tensor.ok_or_else(|| format!("attribute {name} must be a tensor"))?;
    Ok(Some(array(tensor, call.folder, b.ledger)?.1))
}

fn listed(b: &Builder<'_>, call: &Call<'_>) -> Result<NamedNodes> {
    let ints = |name| Ok::<_, String>(call.ints(name)?.unwrap_or_default());
    call.floats("nodes_hitrates")?; // how often each was reached in training
    call.attribute("nodes_hitrates_as_tensor")?;
    let listed = NodeLists {
        trees: ints("nodes_treeids")?,
        ids: ints("nodes_nodeids")?,
        features: ints("nodes_featureids")?,
        modes: call.texts("nodes_modes")?.unwrap_or_default(),
        thresholds: numbers(b, call, "nodes_values", "nodes_values_as_tensor")?.0,
        children: [ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?],
        missing: ints("nodes_missing_value_tracks_true")?,
    };
    let _making = b.ledger.charge(256 * listed.ids.len() as u64)?;
    listed.named()
}

/// Names of the attributes that say what leaves give.
struct LeafAttributes {
    trees: &'static str,
    nodes: &'static str,
    targets: &'static str,
    weights: [&'static str; 2],
}

const OF_CLASSES: LeafAttributes = LeafAttributes {
    trees: "class_treeids",
    nodes: "class_nodeids",
    targets: "class_ids",
    weights: ["class_weights", "class_weights_as_tensor"],
};

const OF_TARGETS: LeafAttributes = LeafAttributes {
    trees: "target_treeids",
    nodes: "target_nodeids",
    targets: "target_ids",
    weights: ["target_weights", "target_weights_as_tensor"],
};

impl LeafAttributes {
    /// Table of what each leaf gives.
    fn read(
        &self,
        b: &Builder<'_>,
        call: &Call<'_>,
        named: &NamedNodes,
        targets: usize,
        by: Aggregate,
    ) -> Result<Leaves> {
        let ints = |name| Ok::<_, String>(call.ints(name)?.unwrap_or_default());
        let (trees, nodes, ids) = (ints(self.trees)?, ints(self.nodes)?, ints(self.targets)?);
        let (weights, element) = numbers(b, call, self.weights[0], self.weights[1])?;
        let lens = [trees.len(), nodes.len(), ids.len()];
        if lens.iter().any(|&len| len != weights.len()) {
            return Err(format!("{} weights of leaves for {lens:?} entries", weights.len()));
        }
        let mut leaves = Leaves::new(b, named.nodes.leaves, targets, element)?;
        for (k, &weight) in weights.iter().enumerate() {
            let leaf = named.leaves.get(&(trees[k], nodes[k]));
            let leaf = leaf.ok_or_else(|| format!("tree {} has no leaf {}", trees[k], nodes[k]))?;
            leaves.add(*leaf, ids[k], weight, by)?;
        }
        Ok(leaves)
    }
}

/// Label and scores of each row.
pub(super) fn classifier(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, named, transform) = (rows(b, call)?, listed(b, call)?, Transform::of(call)?);
    let labels = Labels::of(call, "classlabels_int64s")?;
    let leaves = OF_CLASSES.read(b, call, &named, labels.count, Aggregate::Sum)?;
    let (base, _) = numbers(b, call, "base_values", "base_values_as_tensor")?;
    let sums = aggregated(b, &x, &named.nodes, &leaves, Aggregate::Sum)?;
    let mut ids = call.ints("class_ids")?.unwrap_or_default().to_vec();
    ids.sort_unstable();
    ids.dedup();
    let made = if labels.count == 2 && ids.len() == 1 && base.len() < 2 {
        let column = usize::try_from(ids[0]).unwrap_or_default();
        let sum = b.cut(&sums, 1, column, column + 1)?;
        let score = based(b, &sum, &base)?;
        let all_positive = leaves.weights.iter().flatten().all(|&weight| weight >= 0.0);
        of_one_class(b, &score, column, transform, all_positive, &labels)?
    } else {
        let scores = based(b, &sums, &base)?;
        let compared = if base.is_empty() && labels.count > 2 {
            only_scored(b, &x, &named, &leaves, &scores)?
        } else {
            scores.clone()
        };
        [labels.best(b, &compared)?, transform.applied(b, &scores)?]
    };
    let [label, scores] = made;
    let scores = b.cast(&scores, Element::F32)?;
    Ok(vec![label, scores])
}

/// Scores without those of classes to which no leaf of a row gives one: in ONNX Runtime no such
/// class is the label, even if all others have negative scores.
fn only_scored(
    b: &mut Builder<'_>,
    x: &Value,
    named: &NamedNodes,
    leaves: &Leaves,
    scores: &Value,
) -> Result<Value> {
    let _making = b.ledger.charge(64 * named.leaves.len() as u64)?;
    let mut trees: HashMap<i64, Vec<usize>> = HashMap::new();
    for (&(tree, _), &leaf) in &named.leaves {
        trees.entry(tree).or_default().push(leaf);
    }
    let gives = |leaf: usize, class: usize| leaves.weights[leaf * leaves.targets + class].is_some();
    let is_given =
        |class: usize| trees.values().any(|own| own.iter().all(|&leaf| gives(leaf, class)));
    if (0..leaves.targets).all(is_given) {
        return Ok(scores.clone());
    }
    let mut ones = Leaves::new(b, named.nodes.leaves, leaves.targets, Element::F32)?;
    for (one, weight) in ones.weights.iter_mut().zip(&leaves.weights) {
        *one = weight.map(|_| 1.0);
    }
    let counts = aggregated(b, x, &named.nodes, &ones, Aggregate::Sum)?;
    b.map(scores.element(), &[scores, &counts], |w| {
        let (score, count, none) = (w.input(0), w.input(1), w.real(f64::NEG_INFINITY));
        w.select(count, score, none)
    })
}

/// Label and scores of two classes if leaves give something to one of them alone: that is the
/// score of the second. Probabilities, which are not negative, are compared with a half.
fn of_one_class(
    b: &mut Builder<'_>,
    score: &Value,
    column: usize,
    transform: Transform,
    is_probability: bool,
    labels: &Labels,
) -> Result<[Value; 2]> {
    let label = labels.above(b, score, if is_probability { 0.5 } else { 0.0 })?;
    let scores = if column == 0 {
        pair(b, score, transform, is_probability)?
    } else {
        let none = b.with_number(reef_op::tensor::Binary::Mul, score, 0.0)?;
        let both = b.concat(&[&none, score], 1)?;
        transform.applied(b, &both)?
    };
    Ok([label, scores])
}

pub(super) fn regressor(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, named, transform) = (rows(b, call)?, listed(b, call)?, Transform::of(call)?);
    let by = aggregate(call.text("aggregate_function", "SUM")?)?;
    let targets = size(call.int("n_targets", 1)?)?;
    let leaves = OF_TARGETS.read(b, call, &named, targets, by)?;
    let (base, _) = numbers(b, call, "base_values", "base_values_as_tensor")?;
    let sums = aggregated(b, &x, &named.nodes, &leaves, by)?;
    let scores = based(b, &sums, &base)?;
    let made = transform.applied(b, &scores)?;
    b.cast(&made, Element::F32)
}

fn aggregate(name: &str) -> Result<Aggregate> {
    Ok(match name {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return Err(format!("attribute aggregate_function = {other:?}")),
    })
}

/// Lists of version 5: branches and leaves apart, modes and transforms as numbers.
pub(super) fn ensemble(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = rows(b, call)?;
    let nodes = branches(b, call)?;
    let by = match call.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(format!("attribute aggregate_function = {other}")),
    };
    let transform = match call.int("post_transform", 0)? {
        0 => Transform::None,
        1 => Transform::Softmax,
        2 => Transform::Logistic,
        3 => Transform::SoftmaxZero,
        4 => Transform::Probit,
        other => return Err(format!("attribute post_transform = {other}")),
    };
    let weights = held(b, call, "leaf_weights")?.ok_or("attribute leaf_weights is missing")?;
    let ids = call.ints("leaf_targetids")?.unwrap_or_default();
    if ids.len() != weights.len() {
        return Err(format!("{} weights of leaves for {} targets", weights.len(), ids.len()));
    }
    let mut leaves =
        Leaves::new(b, nodes.leaves, size(call.int("n_targets", 1)?)?, weights.element())?;
    for (leaf, (&id, weight)) in ids.iter().zip(weights.values().to_f64()).enumerate() {
        leaves.add(leaf, id, weight, by)?;
    }
    let sums = aggregated(b, &x, &nodes, &leaves, by)?;
    let made = transform.applied(b, &sums)?;
    b.cast(&made, x.element())
}

/// Number of the mode that tests membership.
const MEMBER: i64 = 6;

/// Branches of version 5, and how many leaves there are.
fn branches(b: &Builder<'_>, call: &Call<'_>) -> Result<Nodes> {
    let ints = |name| Ok::<_, String>(call.ints(name)?.unwrap_or_default());
    let features = ints("nodes_featureids")?;
    let tensor = |name| held(b, call, name)?.ok_or_else(|| missing(name));
    let (splits, modes) = (tensor("nodes_splits")?, tensor("nodes_modes")?);
    let (splits, modes) = (splits.values().to_f64(), modes.values().to_i64());
    let children = [ints("nodes_trueleafs")?, ints("nodes_falseleafs")?];
    let ids = [ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?];
    let missing = ints("nodes_missing_value_tracks_true")?;
    call.attribute("nodes_hitrates")?;
    let (len, leaves) = (features.len(), ints("leaf_targetids")?.len());
    let lens = [splits.len(), modes.len(), ids[0].len(), ids[1].len()];
    let lens = [&lens[..], &[children[0].len(), children[1].len()]].concat();
    let is_whole = missing.is_empty() || missing.len() == len;
    if len == 0 || !is_whole || lens.iter().any(|&other| other != len) {
        return Err(format!(
            "attributes of nodes must have one entry for each, got {len} and {lens:?}"
        ));
    }
    let _making = b.ledger.charge(128 * len as u64)?;
    let child = |side: usize, k: usize| {
        let (is_leaf, id) = (children[side][k] != 0, ids[side][k]);
        let bound = if is_leaf { leaves } else { len };
        let at = usize::try_from(id).ok().filter(|&at| at < bound);
        let at = at.ok_or_else(|| format!("node {k} leads to {id} of {bound}"))?;
        Ok::<_, String>(if is_leaf { Child::Leaf(at) } else { Child::Branch(at) })
    };
    let mut nodes = Nodes { leaves, ..Nodes::default() };
    for k in 0..len {
        nodes.branches.push(Branch {
            feature: size(features[k])?,
            mode: mode(modes[k])?,
            threshold: splits[k],
            takes_missing: missing.get(k).is_some_and(|&flag| flag != 0),
            children: [child(0, k)?, child(1, k)?],
        });
    }
    for &root in ints("tree_roots")? {
        let at = usize::try_from(root).ok().filter(|&at| at < len);
        nodes.roots.push(Child::Branch(at.ok_or_else(|| format!("root {root} of {len} nodes"))?));
    }
    if nodes.roots.is_empty() {
        return Err("attribute tree_roots must list at least one".into());
    }
    expand_members(b, call, &mut nodes, &modes)?;
    Ok(nodes)
}

fn missing(name: &str) -> String {
    format!("attribute {name} is missing")
}

/// Tests of membership as tests of equality, one after the other. Sets end with NaN.
fn expand_members(
    b: &Builder<'_>,
    call: &Call<'_>,
    nodes: &mut Nodes,
    modes: &[i64],
) -> Result<()> {
    let values = held(b, call, "membership_values")?;
    let values = values.map(|array| array.values().to_f64()).unwrap_or_default();
    let _making = b.ledger.charge(128 * values.len() as u64)?;
    let mut sets = values.split(|value| value.is_nan());
    for at in (0..modes.len()).filter(|&at| modes[at] == MEMBER) {
        let set = sets.next().filter(|set| !set.is_empty());
        nodes.expand_member(at, set.ok_or("attribute membership_values has too few sets")?);
    }
    Ok(())
}

fn mode(number: i64) -> Result<Mode> {
    Ok(match number {
        0 => Mode::LessOrEqual,
        1 => Mode::Less,
        2 => Mode::GreaterOrEqual,
        3 => Mode::Greater,
        4 | MEMBER => Mode::Equal,
        5 => Mode::NotEqual,
        other => return Err(format!("attribute nodes_modes: unknown mode {other}")),
    })
}
