//! One node with its operands, whose attributes are checked when they are asked for.

use crate::onnx::fault::Result;
use crate::onnx::file::{AttributeFile, NodeFile};
use crate::tensors::axes::{axes, axis};
use crate::tensors::value::Value;
use reef_core::tensor::Array;
use std::cell::{Cell, RefCell};
use std::path::Path;

/// A node that is being read.
pub(crate) struct Call<'a> {
    pub(crate) file: &'a NodeFile<'a>,
    /// Its inputs; `None` are left out.
    pub(crate) operands: Vec<Option<Value>>,
    /// Version of the operator set.
    pub(crate) opset: i64,
    pub(crate) folder: Option<&'a Path>,
    /// Attributes of the function in whose body the node stands.
    pub(crate) outer: &'a [&'a AttributeFile<'a>],
    /// Attributes that were asked for.
    known: RefCell<Vec<&'static str>>,
    /// How many operands there are up to the last one that was asked for.
    asked: Cell<usize>,
    /// Number of the operand whose values were asked for in vain.
    pub(crate) unknown: Cell<Option<usize>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        file: &'a NodeFile<'a>,
        operands: Vec<Option<Value>>,
        opset: i64,
        folder: Option<&'a Path>,
        outer: &'a [&'a AttributeFile<'a>],
    ) -> Self {
        Self {
            file,
            operands,
            opset,
            folder,
            outer,
            known: RefCell::default(),
            asked: Cell::default(),
            unknown: Cell::default(),
        }
    }

    pub(crate) fn op(&self) -> &'a str {
        self.file.op
    }

    /// How many results are wanted, those that nobody names in between included.
    pub(crate) fn results(&self) -> usize {
        self.file.outputs.len()
    }

    /// Whether anybody wants result `index`.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.file.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// Operand `index`; `None` if it is left out.
    pub(crate) fn maybe(&self, index: usize) -> Option<&Value> {
        self.asked.set(self.asked.get().max(index + 1));
        self.operands.get(index)?.as_ref()
    }

    /// Operand `index`, which must be there.
    pub(crate) fn get(&self, index: usize) -> Result<&Value> {
        self.maybe(index).ok_or_else(|| format!("operand {index} is missing"))
    }

    /// All operands, none of which may be left out.
    pub(crate) fn all(&self) -> Result<Vec<&Value>> {
        (0..self.operands.len()).map(|index| self.get(index)).collect()
    }

    /// Values of operand `index`, which must be known when the network is read; `None` if it is left out.
    pub(crate) fn array(&self, index: usize) -> Result<Option<&Array>> {
        let Some(value) = self.maybe(index) else { return Ok(None) };
        let known = value.known().ok_or_else(|| {
            self.unknown.set(Some(index));
            format!("operand {index} decides about shapes and is no constant")
        })?;
        Ok(Some(&known.array))
    }

    /// Known integers of operand `index`.
    pub(crate) fn numbers(&self, index: usize) -> Result<Option<Vec<i64>>> {
        let integers = |array: &Array| match array.element().is_float() {
            false => Ok(array.values().to_i64()),
            true => Err(format!(
                "operand {index} has elements of type {}, integers wanted",
                array.element()
            )),
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
            Some(other) => Err(format!("operand {index} has {} values, one wanted", other.len())),
        }
    }

    pub(crate) fn attribute(&self, name: &'static str) -> Result<Option<&'a AttributeFile<'a>>> {
        self.known.borrow_mut().push(name);
        let Some(own) = self.file.attributes.iter().find(|attribute| attribute.name == name) else {
            return Ok(None);
        };
        let Some(outer) = own.refers_to else { return Ok(Some(own)) };
        Ok(self.outer.iter().find(|attribute| attribute.name == outer).copied())
    }

    /// An attribute as `read` sees it; an error if it is there and isn't `what`.
    fn read<T>(
        &self,
        name: &'static str,
        what: &str,
        read: impl FnOnce(&'a AttributeFile<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(attribute) = self.attribute(name)? else { return Ok(None) };
        read(attribute).map(Some).ok_or_else(|| format!("attribute {name} is no {what}"))
    }

    pub(crate) fn maybe_int(&self, name: &'static str) -> Result<Option<i64>> {
        self.read(name, "integer", |attribute| attribute.int)
    }

    pub(crate) fn int(&self, name: &'static str, default: i64) -> Result<i64> {
        Ok(self.maybe_int(name)?.unwrap_or(default))
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool> {
        Ok(self.int(name, default.into())? != 0)
    }

    pub(crate) fn maybe_float(&self, name: &'static str) -> Result<Option<f64>> {
        Ok(self.read(name, "float", |attribute| attribute.float)?.map(f64::from))
    }

    pub(crate) fn float(&self, name: &'static str, default: f64) -> Result<f64> {
        Ok(self.maybe_float(name)?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &'static str, default: &'static str) -> Result<&'a str> {
        let text = self.read(name, "text", |attribute| attribute.text)?;
        let text = text.map(|text| {
            std::str::from_utf8(text).map_err(|_| format!("attribute {name} is no UTF-8"))
        });
        Ok(text.transpose()?.unwrap_or(default))
    }

    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>> {
        let list = |attribute: &'a AttributeFile<'a>| {
            (!attribute.is_no_list() && attribute.floats.is_empty()).then_some(&*attribute.ints)
        };
        self.read(name, "list of integers", list)
    }

    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>> {
        let list = |attribute: &'a AttributeFile<'a>| {
            (!attribute.is_no_list() && attribute.ints.is_empty()).then_some(&*attribute.floats)
        };
        self.read(name, "list of floats", list)
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<&'a str>>> {
        self.read(name, "list of texts", |attribute| {
            let texts = attribute.texts.iter().map(|text| std::str::from_utf8(text).ok());
            texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
        })
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

    /// Refuses attributes that the operator does not read, and operands behind the last one that it reads.
    pub(crate) fn ensure_all_known(&self) -> Result<()> {
        let known = self.known.borrow();
        let unknown = |attribute: &&AttributeFile<'_>| !known.contains(&attribute.name);
        if let Some(attribute) = self.file.attributes.iter().find(unknown) {
            return Err(format!("attribute {} is not supported", attribute.name));
        }
        let mut more = self.asked.get()..self.operands.len();
        match more.find(|&index| self.operands[index].is_some()) {
            Some(index) => Err(format!("operand {index} is not supported")),
            None => Ok(()),
        }
    }
}

/// One result.
pub(crate) fn one(value: Value) -> Result<Option<Vec<Value>>> {
    Ok(Some(vec![value]))
}
