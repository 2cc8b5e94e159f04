//! Sequences of tensors, which are known when the network is read: lists of values.

use super::call::{Outer, int_of};
use super::walk::{ITEM, NodeResult, Scope, Walk};
use crate::onnx::fault::{Fault, Result, beyond, unsupported};
use crate::onnx::file::NodeFile;
use crate::onnx::node::name_of;
use crate::tensors::axes::{axis, size};
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Truth};

impl<'a> Walk<'a, '_> {
    /// The result of an operator on sequences; `None` if it is none.
    pub(super) fn of_sequences(
        &mut self,
        node: &'a NodeFile<'a>,
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
    ) -> Result<Option<NodeResult>, Fault> {
        let is_sequence =
            node.inputs.first().is_some_and(|name| self.names.sequences.contains_key(name));
        let is_new = matches!(node.op, "SequenceConstruct" | "SequenceEmpty" | "SplitToSequence");
        let is_own = matches!(node.domain, "" | "ai.onnx") && node.op != "SequenceMap";
        if !is_own || !is_sequence && !is_new {
            return Ok(None);
        }
        self.ensure_plain(node, node.inputs.iter().copied(), scope)?;
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        let ledger = self.builder.ledger;
        let held = node.inputs.first().and_then(|name| self.names.sequences.get(name));
        let items = held.map_or(0, Vec::len) + node.inputs.len();
        let making = ledger.charge(ITEM * items as u64).map_err(|why| fault(why.into()))?;
        let result = self.apply(node, scope, outer);
        if result.is_err() {
            // The place in the list, or the sizes of the parts.
            let decides = node.inputs.get(if node.op == "SequenceInsert" { 2 } else { 1 });
            let unknown = decides.and_then(|name| scope.get(name));
            let unknown = unknown.filter(|value| value.known_values().is_none());
            self.unbound.extend(unknown.into_iter().flat_map(|value| self.builder.roots(value)));
        }
        drop(making);
        Ok(Some(result.map_err(fault)?))
    }

    fn apply(
        &mut self,
        node: &'a NodeFile<'a>,
        scope: &Scope<'a, '_>,
        outer: &Outer<'a>,
    ) -> Result<NodeResult> {
        let tensor = |index: usize| {
            let name = node.inputs.get(index);
            let name = name.filter(|name| !name.is_empty() && !scope.is_left_out(name));
            name.map(|name| scope.get(name).cloned().ok_or_else(|| format!("no tensor {name:?}")))
        };
        let needed =
            |index| tensor(index).unwrap_or_else(|| Err(format!("operand {index} is missing")));
        let mut list = node.inputs.first().and_then(|name| self.names.sequences.get(name)).cloned();
        let mut list = list.take().unwrap_or_default();
        let place = |index, len: usize, usual: i64| match tensor(index) {
            None => at(usual, len),
            Some(given) => at(number(&given?)?, len),
        };
        Ok(match node.op {
            "Identity" | "Optional" | "OptionalGetElement" => NodeResult::Sequence(list),
            "OptionalHasElement" => {
                let there = Array::Bool(vec![Truth(1)]);
                NodeResult::Tensor(self.builder.constant(Vec::new(), there)?)
            }
            "SequenceEmpty" => NodeResult::Sequence(Vec::new()),
            "SequenceConstruct" => {
                NodeResult::Sequence((0..node.inputs.len()).map(needed).collect::<Result<_>>()?)
            }
            "SequenceInsert" => {
                let len = list.len();
                let wanted = tensor(2).map_or(Ok(len as i64), |given| number(&given?))?;
                let place = if wanted == len as i64 { len } else { at(wanted, len)? };
                list.insert(place, needed(1)?);
                NodeResult::Sequence(list)
            }
            "SequenceErase" => {
                list.remove(place(1, list.len(), -1)?);
                NodeResult::Sequence(list)
            }
            "SequenceAt" => NodeResult::Tensor(list.swap_remove(place(1, list.len(), 0)?)),
            "SequenceLength" => {
                NodeResult::Tensor(self.builder.whole(Vec::new(), vec![list.len() as i64])?)
            }
            "SplitToSequence" => {
                let along = int_of(node, "axis", outer).unwrap_or(0);
                let keeps = int_of(node, "keepdims", outer) != Some(0);
                let sizes = tensor(1).transpose()?;
                NodeResult::Sequence(self.split(&needed(0)?, along, keeps, sizes)?)
            }
            "ConcatFromSequence" => {
                let along = int_of(node, "axis", outer).ok_or("attribute axis is missing")?;
                let is_new = int_of(node, "new_axis", outer).unwrap_or(0) != 0;
                NodeResult::Tensor(self.joined(&list, along, is_new)?)
            }
            other => return Err(unsupported(&format!("a sequence as an operand of {other} is"))),
        })
    }

    /// Parts of a tensor: of one size, of several, or of one element each.
    fn split(
        &mut self,
        x: &Value,
        along: i64,
        keeps: bool,
        sizes: Option<Value>,
    ) -> Result<Vec<Value>> {
        let along = axis(along, x.rank())?;
        let len = x.dims()[along];
        let drops = sizes.is_none() && !keeps;
        let each = match &sizes {
            Some(one) if one.rank() != 1 => size(number(one)?)?,
            _ => 1,
        };
        if each == 0 {
            return Err(format!("parts of 0 of {len}"));
        }
        let count = match &sizes {
            Some(list) if list.rank() == 1 => list.spec.elements(),
            _ => len.div_ceil(each),
        };
        let _making = self.builder.ledger.charge(ITEM.saturating_mul(count as u64))?;
        let parts: Vec<usize> = match &sizes {
            Some(list) if list.rank() == 1 => {
                constants(list)?.into_iter().map(size).collect::<Result<_>>()?
            }
            _ => (0..len).step_by(each).map(|from| each.min(len - from)).collect(),
        };
        if parts.iter().fold(0usize, |sum, &part| sum.saturating_add(part)) != len {
            return Err(format!("parts {parts:?} of {len}"));
        }
        let mut from = 0;
        let mut made = Vec::new();
        for part in parts {
            let value = self.builder.cut(x, along, from, from + part)?;
            from += part;
            let mut dims = value.dims().to_vec();
            if drops {
                dims.remove(along);
            }
            made.push(self.builder.reshape(&value, dims)?);
        }
        Ok(made)
    }

    fn joined(&mut self, list: &[Value], along: i64, is_new: bool) -> Result<Value> {
        let first = list.first().ok_or("an empty sequence")?;
        let along = axis(along, first.rank() + usize::from(is_new))?;
        let mut parts = Vec::new();
        for value in list {
            let mut dims = value.dims().to_vec();
            if is_new {
                dims.insert(along.min(dims.len()), 1);
            }
            parts.push(self.builder.reshape(value, dims)?);
        }
        self.builder.concat(&parts.iter().collect::<Vec<_>>(), along)
    }
}

/// Integers that must be known when the network is read.
fn constants(value: &Value) -> Result<Vec<i64>> {
    let known = value.known_values().filter(|_| !value.element().is_float());
    known.map(|known| known.array.values().to_i64()).ok_or_else(|| {
        beyond(
            "places and sizes of a sequence must be integers that are known when the network is read",
        )
    })
}

fn number(value: &Value) -> Result<i64> {
    match constants(value)?[..] {
        [number] => Ok(number),
        ref other => Err(format!("must be one number, got {}", other.len())),
    }
}

/// A place among `len`; negative ones count from the end.
fn at(place: i64, len: usize) -> Result<usize> {
    let from_front = if place < 0 { place.saturating_add(len as i64) } else { place };
    let place_ok = usize::try_from(from_front).ok().filter(|&at| at < len);
    place_ok.ok_or_else(|| format!("place {place} of {len} in a sequence"))
}
