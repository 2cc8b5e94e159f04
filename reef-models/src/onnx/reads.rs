//! Reads of a node's attributes and operands, for networks of all kinds. An attribute is checked
//! when it is read, and one that no operator reads is refused.

use super::fault::Result;
use super::file::{AttributeFile, NodeFile};
use std::cell::{Cell, RefCell};

/// Attributes and operands of a node that its operator has read.
#[derive(Default)]
pub(super) struct Reads {
    attributes: RefCell<Vec<&'static str>>,
    /// Number of operands up to the last one that was read.
    operands: Cell<usize>,
}

impl Reads {
    pub(super) fn operand(&self, index: usize) {
        self.operands.set(self.operands.get().max(index + 1));
    }

    /// The attribute of this name, as the node itself has it.
    pub(super) fn attribute<'a>(
        &self,
        file: &'a NodeFile<'a>,
        name: &'static str,
    ) -> Option<&'a AttributeFile<'a>> {
        self.attributes.borrow_mut().push(name);
        file.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Refuses attributes that the operator does not read, and operands behind the last one that it
    /// reads. `operands`: whether each is there.
    pub(super) fn ensure_all(
        &self,
        file: &NodeFile<'_>,
        operands: impl Iterator<Item = bool>,
    ) -> Result<()> {
        let known = self.attributes.borrow();
        let unknown = |attribute: &&AttributeFile<'_>| !known.contains(&attribute.name);
        if let Some(attribute) = file.attributes.iter().find(unknown) {
            return Err(format!("attribute {} is not supported", attribute.name));
        }
        let mut more = operands.enumerate().skip(self.operands.get());
        match more.find(|(_, is_there)| *is_there) {
            Some((index, _)) => Err(format!("operand {index} is not supported")),
            None => Ok(()),
        }
    }
}

/// An attribute by the name that it was asked for, if it is there.
pub(super) struct Attribute<'a> {
    pub(super) name: &'static str,
    pub(super) found: Option<&'a AttributeFile<'a>>,
}

impl<'a> Attribute<'a> {
    pub(super) fn int(&self) -> Result<Option<i64>> {
        self.read("an integer", |attribute| attribute.int)
    }

    pub(super) fn float(&self) -> Result<Option<f32>> {
        self.read("a float", |attribute| attribute.float)
    }

    pub(super) fn text(&self) -> Result<Option<&'a [u8]>> {
        self.read("text", |attribute| attribute.text)
    }

    pub(super) fn ints(&self) -> Result<Option<&'a [i64]>> {
        self.read("a list of integers", |attribute| {
            (!attribute.is_no_list() && attribute.floats.is_empty()).then_some(&*attribute.ints)
        })
    }

    pub(super) fn floats(&self) -> Result<Option<&'a [f32]>> {
        self.read("a list of floats", |attribute| {
            (!attribute.is_no_list() && attribute.ints.is_empty()).then_some(&*attribute.floats)
        })
    }

    pub(super) fn texts(&self) -> Result<Option<Vec<&'a str>>> {
        self.read("a list of texts", |attribute| {
            let texts = attribute.texts.iter().map(|text| std::str::from_utf8(text).ok());
            texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
        })
    }

    /// Reads it by `read`; an error if it is there and isn't `what`.
    fn read<T>(
        &self,
        what: &str,
        read: impl FnOnce(&'a AttributeFile<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(found) = self.found else { return Ok(None) };
        read(found).map(Some).ok_or_else(|| format!("attribute {} must be {what}", self.name))
    }
}
