//! One node of a graph: its operands and attributes, each checked when it is asked for.

use super::constant::Constant;
use super::fault::{Result, few};
use super::file::{AttributeFile, NodeFile};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use std::cell::{Cell, RefCell};
use std::path::Path;

/// A node that is being read.
pub(super) struct Node<'a> {
    pub(super) file: &'a NodeFile<'a>,
    pub(super) folder: Option<&'a Path>,
    /// What is made for it is charged here.
    pub(super) ledger: &'a Ledger,
    /// Attributes that were asked for.
    known: RefCell<Vec<&'static str>>,
    /// How many operands there are up to the last one that was asked for.
    asked: Cell<usize>,
}

impl<'a> Node<'a> {
    pub(super) fn new(
        file: &'a NodeFile<'a>,
        folder: Option<&'a Path>,
        ledger: &'a Ledger,
    ) -> Self {
        Self { file, folder, ledger, known: RefCell::default(), asked: Cell::default() }
    }

    /// Its own name, or that of what it makes.
    pub(super) fn name(&self) -> &'a str {
        let output = self.file.outputs.first().copied().unwrap_or_default();
        if self.file.name.is_empty() { output } else { self.file.name }
    }

    /// Name of operand `index`; `None` if it is left out.
    pub(super) fn operand(&self, index: usize) -> Option<&'a str> {
        self.asked.set(self.asked.get().max(index + 1));
        self.file.inputs.get(index).copied().filter(|name| !name.is_empty())
    }

    fn attribute(&self, name: &'static str) -> Option<&'a AttributeFile<'a>> {
        self.known.borrow_mut().push(name);
        self.file.attributes.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn int(&self, name: &'static str, default: i64) -> Result<i64> {
        Ok(self.read(name, "integer", |attribute| attribute.int)?.unwrap_or(default))
    }

    /// An attribute as `read` sees it; an error if it is there and isn't `what`.
    fn read<T>(
        &self,
        name: &'static str,
        what: &str,
        read: impl FnOnce(&'a AttributeFile<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        read(attribute).map(Some).ok_or_else(|| format!("attribute {name} is no {what}"))
    }

    pub(super) fn float(&self, name: &'static str) -> Result<Option<f32>> {
        self.read(name, "float", |attribute| attribute.float)
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a [u8]>> {
        self.read(name, "text", |attribute| attribute.text)
    }

    pub(super) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>> {
        let list = |attribute: &'a AttributeFile<'a>| {
            (!attribute.is_no_list() && attribute.floats.is_empty()).then_some(&*attribute.ints)
        };
        self.read(name, "list of integers", list)
    }

    /// The tensor that a `Constant` is.
    pub(super) fn constant(&self) -> Result<Constant> {
        if let Some(attribute) = self.attribute("value") {
            let tensor = attribute.tensor.as_ref().ok_or("attribute value is no tensor")?;
            return Constant::read(tensor, self.folder, self.ledger);
        }
        if let Some(AttributeFile { ints, .. }) = self.attribute("value_ints") {
            return Ok(Constant::ints(vec![ints.len()], List::copied(ints, self.ledger)?));
        }
        if let Some(AttributeFile { floats, .. }) = self.attribute("value_floats") {
            return Ok(Constant::floats(vec![floats.len()], List::copied(floats, self.ledger)?));
        }
        if let Some(value) = self.attribute("value_int").and_then(|attribute| attribute.int) {
            return Ok(Constant::ints(Vec::new(), List::copied(&[value], self.ledger)?));
        }
        match self.attribute("value_float").and_then(|attribute| attribute.float) {
            Some(value) => Ok(Constant::floats(Vec::new(), List::copied(&[value], self.ledger)?)),
            None => Err("neither tensor nor number".into()),
        }
    }

    /// Two sizes that an attribute lists, for rows and columns.
    pub(super) fn pair(&self, name: &'static str, default: usize) -> Result<[usize; 2]> {
        match self.ints(name)? {
            None => Ok([default; 2]),
            Some(&[rows, columns]) => Ok([size(name, rows)?, size(name, columns)?]),
            Some(other) => Err(format!("attribute {name} = {}, 2 sizes wanted", few(other))),
        }
    }

    /// Refuses attributes that the operator does not read, and operands behind the last one that it reads.
    pub(super) fn ensure_all_known(&self) -> Result<()> {
        let known = self.known.borrow();
        let unknown = |attribute: &&AttributeFile<'_>| !known.contains(&attribute.name);
        if let Some(attribute) = self.file.attributes.iter().find(unknown) {
            return Err(format!("attribute {} is not supported", attribute.name));
        }
        let mut more = self.asked.get()..self.file.inputs.len();
        match more.find(|&index| !self.file.inputs[index].is_empty()) {
            Some(index) => Err(format!("operand {index} is not supported")),
            None => Ok(()),
        }
    }
}

/// A size that a window can have.
pub(super) fn size(name: &str, number: i64) -> Result<usize> {
    let size = usize::try_from(number).ok().filter(|&size| size <= 1 << 16);
    size.ok_or_else(|| format!("attribute {name}: {number} is out of range"))
}
