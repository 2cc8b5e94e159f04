//! One node of a graph: its operands and attributes, each checked when it is asked for.

use super::constant::Constant;
use super::fault::{Result, few};
use super::file::{AttributeFile, NodeFile};
use super::reads::Attribute;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use std::path::Path;

/// The name of a node, or of what it makes.
pub(super) fn name_of<'a>(node: &NodeFile<'a>) -> &'a str {
    let output = node.outputs.first().copied().unwrap_or_default();
    if node.name.is_empty() { output } else { node.name }
}

/// A node that is being read.
pub(super) struct Node<'a> {
    pub(super) file: &'a NodeFile<'a>,
    pub(super) folder: Option<&'a Path>,
    /// Charged with all that is made for the node.
    pub(super) ledger: &'a Ledger,
}

impl<'a> Node<'a> {
    pub(super) fn new(
        file: &'a NodeFile<'a>,
        folder: Option<&'a Path>,
        ledger: &'a Ledger,
    ) -> Self {
        Self { file, folder, ledger }
    }

    pub(super) fn name(&self) -> &'a str {
        name_of(self.file)
    }

    /// Name of operand `index`; `None` if it is left out.
    pub(super) fn operand(&self, index: usize) -> Option<&'a str> {
        self.file.inputs.get(index).copied().filter(|name| !name.is_empty())
    }

    fn attribute(&self, name: &'static str) -> Option<&'a AttributeFile<'a>> {
        self.file.attributes.iter().find(|attribute| attribute.name == name)
    }

    fn named(&self, name: &'static str) -> Attribute<'a> {
        Attribute { name, found: self.attribute(name) }
    }

    pub(super) fn int(&self, name: &'static str, default: i64) -> Result<i64> {
        Ok(self.named(name).int()?.unwrap_or(default))
    }

    pub(super) fn float(&self, name: &'static str) -> Result<Option<f32>> {
        self.named(name).float()
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a [u8]>> {
        self.named(name).text()
    }

    pub(super) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>> {
        self.named(name).ints()
    }

    /// The tensor that a `Constant` is.
    pub(super) fn constant(&self) -> Result<Constant> {
        if let Some(attribute) = self.attribute("value") {
            let tensor = attribute.tensor.as_ref().ok_or("attribute value must be a tensor")?;
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
            Some(other) => Err(format!("attribute {name} must have 2 sizes, got {}", few(other))),
        }
    }
}

/// A size that a window can have.
pub(super) fn size(name: &str, number: i64) -> Result<usize> {
    let size = usize::try_from(number).ok().filter(|&size| size <= 1 << 16);
    size.ok_or_else(|| format!("attribute {name}: {number} is out of range"))
}
