//! One node with its operands, whose attributes are checked when they are asked for.

use super::few::Few;
use super::marks::Marks;
use super::texts::{numbers_or_places, place_of};
use crate::memory::ledger::Ledger;
use crate::model::texts::Texts;
use crate::onnx::fault::Result;
use crate::onnx::file::{AttributeFile, NodeFile, TensorFile};
use crate::onnx::reads::{Attribute, Reads};
use crate::tensors::axes::{axes, axis};
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Array, Spec};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;

/// Bounds of numbers that data decide: at the least, at the most, and of marks in the place
/// of sizes.
pub(crate) type Points = [Value; 3];

/// Attributes of the function around a node, by the names that its body has for them.
pub(crate) type Outer<'a> = [(&'a str, &'a AttributeFile<'a>)];

/// The attribute itself, or that of the function around its node to which it refers.
pub(crate) fn resolved<'a>(
    own: &'a AttributeFile<'a>,
    outer: &Outer<'a>,
) -> Option<&'a AttributeFile<'a>> {
    match own.refers_to {
        None => Some(own),
        Some(name) => outer.iter().find(|(outer, _)| *outer == name).map(|(_, found)| *found),
    }
}

/// The attribute of this name that a node has, its own or that of the function around it.
pub(crate) fn attribute_of<'a>(
    node: &'a NodeFile<'a>,
    name: &str,
    outer: &Outer<'a>,
) -> Option<&'a AttributeFile<'a>> {
    let own = node.attributes.iter().find(|attribute| attribute.name == name)?;
    resolved(own, outer)
}

/// As [`attribute_of`], its integer.
pub(crate) fn int_of<'a>(node: &'a NodeFile<'a>, name: &str, outer: &Outer<'a>) -> Option<i64> {
    attribute_of(node, name, outer)?.int
}

/// A node that is being read.
pub(crate) struct Call<'a> {
    pub(crate) file: &'a NodeFile<'a>,
    /// Its inputs; `None` are left out.
    pub(crate) operands: Vec<Option<&'a Value>>,
    /// Version of the operator set.
    pub(crate) opset: i64,
    pub(crate) folder: Option<&'a Path>,
    /// Attributes of the function in whose body the node stands.
    pub(crate) outer: &'a Outer<'a>,
    /// Types of few bits that tensors have, by their names.
    pub(crate) few: &'a HashMap<&'a str, Few>,
    /// All texts of the file.
    table: &'a Texts,
    /// Set if the first result is of texts.
    pub(crate) makes_texts: Cell<bool>,
    reads: Reads,
    /// Number of the operand whose values were asked for in vain.
    pub(crate) unknown: Cell<Option<usize>>,
    /// Sizes of operands that data decide.
    pub(crate) given: Vec<Option<Bound>>,
    /// Bounds of operands that are computed of such sizes.
    points: Vec<Option<Points>>,
    pub(crate) marks: &'a Marks,
    /// Rows of the first result that are read at most; `None` if all may be.
    pub(crate) rows: Option<usize>,
    /// Results of which data decide one size, by their numbers.
    pub(crate) bounds: RefCell<Vec<(usize, Bound)>>,
}

/// Facts of the file and the functions around a node.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) opset: i64,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) outer: &'a Outer<'a>,
    pub(crate) few: &'a HashMap<&'a str, Few>,
    pub(crate) table: &'a Texts,
    pub(crate) marks: &'a Marks,
    pub(crate) rows: Option<usize>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        file: &'a NodeFile<'a>,
        operands: Vec<Option<&'a Value>>,
        around: Around<'a>,
        given: Vec<Option<Bound>>,
        points: Vec<Option<Points>>,
    ) -> Self {
        let Around { opset, folder, outer, few, table, marks, rows } = around;
        Self {
            file,
            operands,
            opset,
            folder,
            outer,
            few,
            table,
            makes_texts: Cell::default(),
            reads: Reads::default(),
            unknown: Cell::default(),
            given,
            points,
            marks,
            rows,
            bounds: RefCell::default(),
        }
    }

    pub(crate) fn op(&self) -> &'a str {
        self.file.op
    }

    /// Number of results, including those in between that have no name.
    pub(crate) fn results(&self) -> usize {
        self.file.outputs.len()
    }

    /// Returns whether result `index` has a name, so that it is used.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.file.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// The type of few bits that operand `index` has.
    pub(crate) fn few_bits(&self, index: usize) -> Option<Few> {
        self.file.inputs.get(index).and_then(|name| self.few.get(name)).copied()
    }

    /// Returns whether operand `index` is of texts.
    pub(crate) fn is_text(&self, index: usize) -> bool {
        let operand = self.operands.get(index).copied().flatten();
        operand.is_some_and(|value| value.texts.is_some())
    }

    /// Operand `index`; `None` if it is left out.
    pub(crate) fn maybe(&self, index: usize) -> Option<&Value> {
        self.reads.operand(index);
        *self.operands.get(index)?
    }

    /// The size of operand `index` that data decide.
    pub(crate) fn bound(&self, index: usize) -> Option<&Bound> {
        self.given.get(index)?.as_ref()
    }

    /// Returns the bounds of operand `index`, if data decide it.
    pub(crate) fn points(&self, index: usize) -> Option<&Points> {
        self.points.get(index)?.as_ref()
    }

    /// Known integers of operand `index`; the most that they are where data decide them.
    pub(crate) fn upper_bounds(&self, index: usize) -> Result<Option<Vec<i64>>> {
        match self.points(index).and_then(|points| points[1].known_values()) {
            Some(known) => {
                self.reads.operand(index);
                Ok(Some(known.array.values().to_i64()))
            }
            None => self.numbers(index),
        }
    }

    /// Operand `index`, which must be there.
    pub(crate) fn get(&self, index: usize) -> Result<&Value> {
        self.maybe(index).ok_or_else(|| format!("operand {index} is missing"))
    }

    /// All operands, none of which may be left out.
    pub(crate) fn all(&self) -> Result<Vec<&Value>> {
        (0..self.operands.len()).map(|index| self.get(index)).collect()
    }

    /// Values of operand `index`, which must be known when the network is read; `None` if it is
    /// left out.
    pub(crate) fn array(&self, index: usize) -> Result<Option<&Array>> {
        let Some(value) = self.maybe(index) else { return Ok(None) };
        let known = value.known_values().ok_or_else(|| {
            self.unknown.set(Some(index));
            format!("operand {index} decides about shapes, so it must be a constant")
        })?;
        Ok(Some(&known.array))
    }

    /// Known integers of operand `index`.
    pub(crate) fn numbers(&self, index: usize) -> Result<Option<Vec<i64>>> {
        let integers = |array: &Array| {
            if array.element().is_float() {
                Err(format!(
                    "operand {index} must have integers, got elements of type {}",
                    array.element()
                ))
            } else {
                Ok(array.values().to_i64())
            }
        };
        self.array(index)?.map(integers).transpose()
    }

    /// Known floats of operand `index`.
    pub(crate) fn reals(&self, index: usize) -> Result<Option<Vec<f64>>> {
        Ok(self.array(index)?.map(|array| array.values().to_f64()))
    }

    /// One known number of operand `index`.
    pub(crate) fn number(&self, index: usize) -> Result<Option<f64>> {
        match self.reals(index)?.as_deref() {
            None => Ok(None),
            Some(&[number]) => Ok(Some(number)),
            Some(other) => Err(format!("operand {index} must have one value, got {}", other.len())),
        }
    }

    pub(crate) fn attribute(&self, name: &'static str) -> Result<Option<&'a AttributeFile<'a>>> {
        let Some(own) = self.reads.attribute(self.file, name) else { return Ok(None) };
        Ok(resolved(own, self.outer))
    }

    fn named(&self, name: &'static str) -> Result<Attribute<'a>> {
        Ok(Attribute { name, found: self.attribute(name)? })
    }

    pub(crate) fn maybe_int(&self, name: &'static str) -> Result<Option<i64>> {
        self.named(name)?.int()
    }

    pub(crate) fn int(&self, name: &'static str, default: i64) -> Result<i64> {
        Ok(self.maybe_int(name)?.unwrap_or(default))
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool> {
        Ok(self.int(name, default.into())? != 0)
    }

    pub(crate) fn maybe_float(&self, name: &'static str) -> Result<Option<f64>> {
        Ok(self.named(name)?.float()?.map(f64::from))
    }

    pub(crate) fn float(&self, name: &'static str, default: f64) -> Result<f64> {
        Ok(self.maybe_float(name)?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str> {
        let text = self.named(name)?.text()?;
        let text = text.map(|text| {
            std::str::from_utf8(text).map_err(|_| format!("attribute {name} must be UTF-8"))
        });
        Ok(text.transpose()?.unwrap_or(default))
    }

    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>> {
        self.named(name)?.ints()
    }

    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>> {
        self.named(name)?.floats()
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<&'a str>>> {
        self.named(name)?.texts()
    }

    /// Places of an attribute's texts.
    pub(crate) fn places(&self, name: &'static str) -> Result<Option<Vec<i64>>> {
        let Some(texts) = self.texts(name)? else { return Ok(None) };
        let mut places = Vec::with_capacity(texts.len());
        for text in texts {
            places.push(self.place(text)?);
        }
        Ok(Some(places))
    }

    /// The place of a text of the file.
    pub(crate) fn place(&self, text: &str) -> Result<i64> {
        place_of(self.table, text)
    }

    /// Numbers of a tensor, or places of its texts. The last value says if it is of texts.
    pub(crate) fn stored(
        &self,
        tensor: &TensorFile<'_>,
        ledger: &Ledger,
    ) -> Result<(Spec, Array, bool)> {
        numbers_or_places(tensor, self.folder, ledger, self.table)
    }

    /// Integers of an attribute in older operator sets, of an operand in newer ones.
    pub(crate) fn ints_of(&self, name: &'static str, operand: usize) -> Result<Option<Vec<i64>>> {
        match self.ints(name)? {
            Some(ints) => Ok(Some(ints.to_vec())),
            None => self.numbers(operand),
        }
    }

    /// The axis that attribute `axis` names, of `rank` dimensions.
    pub(crate) fn axis(&self, default: i64, rank: usize) -> Result<usize> {
        axis(self.int("axis", default)?, rank)
    }

    /// Axes that an attribute or an operand lists, in order.
    pub(crate) fn axes_of(&self, operand: usize, rank: usize) -> Result<Option<Vec<usize>>> {
        self.ints_of("axes", operand)?.map(|list| axes(&list, rank)).transpose()
    }

    /// Refuses attributes that the operator does not read, and operands behind the last one that it
    /// reads.
    pub(crate) fn ensure_all_known(&self) -> Result<()> {
        self.reads.ensure_all(self.file, self.operands.iter().map(Option::is_some))
    }
}

/// One result.
pub(crate) fn one(value: Value) -> Result<Option<Vec<Value>>> {
    Ok(Some(vec![value]))
}
