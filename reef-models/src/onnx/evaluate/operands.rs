//! The values of names so far, and a node's operands among them.

use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::onnx::constant::Constant;
use crate::onnx::fault::Result;
use crate::onnx::file::{GraphFile, TensorFile};
use crate::onnx::node::Node;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::rc::Rc;

/// Tensors that stand in the file, and those that nodes have made.
pub(super) struct Values<'a> {
    stored: HashMap<&'a str, &'a TensorFile<'a>>,
    made: HashMap<&'a str, Rc<Constant>>,
    pub(super) folder: Option<&'a Path>,
    pub(super) ledger: &'a Ledger,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        graph: &'a GraphFile<'a>,
        folder: Option<&'a Path>,
        ledger: &'a Ledger,
    ) -> Self {
        let stored = graph.initializers.iter().map(|tensor| (tensor.name, tensor)).collect();
        Self { stored, made: HashMap::new(), folder, ledger }
    }

    pub(super) fn insert(&mut self, name: &'a str, value: Rc<Constant>) {
        self.made.insert(name, value);
    }

    pub(super) fn get(&self, name: &str) -> Result<Rc<Constant>> {
        if let Some(made) = self.made.get(name) {
            return Ok(made.clone());
        }
        let stored = self.stored.get(name).ok_or_else(|| format!("nothing makes {name:?}"))?;
        Constant::read(stored, self.folder, self.ledger).map(Rc::new)
    }
}

/// A node and what its operands may be.
pub(super) struct Operands<'s, 'a> {
    pub(super) node: &'s Node<'a>,
    pub(super) values: &'s Values<'a>,
}

/// Floats and their sizes.
pub(super) struct Floats {
    pub(super) dims: Vec<usize>,
    pub(super) values: FloatsOf,
}

/// The values of a constant that is known to have floats.
pub(super) struct FloatsOf(Rc<Constant>);

impl Deref for FloatsOf {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.0.as_floats().expect("looked at when it was made")
    }
}

impl Operands<'_, '_> {
    /// As [`any`](Self::any), to be changed.
    pub(super) fn own(&self, index: usize) -> Result<Constant> {
        Constant::own(self.any(index)?, self.ledger())
    }

    /// Ledger that results are charged to.
    pub(super) fn ledger(&self) -> &Ledger {
        self.node.ledger
    }

    /// `len` floats of a tensor of `dims`.
    pub(super) fn make_floats(
        &self,
        dims: Vec<usize>,
        len: usize,
        values: impl IntoIterator<Item = f32>,
    ) -> Result<Constant> {
        Ok(Constant::floats(dims, List::of(len, values, self.ledger())?))
    }

    /// Number of operands; some may be left out.
    pub(super) fn count(&self) -> usize {
        self.node.file.inputs.len()
    }

    /// Operand `index`; `None` if it is left out.
    pub(super) fn optional(&self, index: usize) -> Result<Option<Rc<Constant>>> {
        self.node.operand(index).map(|name| self.values.get(name)).transpose()
    }

    /// Operand `index`, which must be there.
    pub(super) fn any(&self, index: usize) -> Result<Rc<Constant>> {
        self.optional(index)?.ok_or_else(|| format!("operand {index} is missing"))
    }

    /// Operand `index`, of floats.
    pub(super) fn floats(&self, index: usize) -> Result<Floats> {
        let value = self.any(index)?;
        value.as_floats()?;
        Ok(Floats { dims: value.dims.clone(), values: FloatsOf(value) })
    }

    /// Operand `index`, of integers.
    pub(super) fn ints(&self, index: usize) -> Result<Vec<i64>> {
        Ok(self.any(index)?.as_ints()?.to_vec())
    }

    /// The one number that operand `index` is; `None` if it is left out.
    pub(super) fn number(&self, index: usize) -> Result<Option<f32>> {
        let Some(value) = self.optional(index)? else { return Ok(None) };
        match value.as_floats()? {
            &[number] => Ok(Some(number)),
            other => Err(format!("operand {index} must have 1 value, got {}", other.len())),
        }
    }

    /// Axes that an attribute or operand 1 lists, counted from the front; all if none of them is
    /// there.
    pub(super) fn axes(&self, name: &'static str, rank: usize) -> Result<Vec<usize>> {
        let list = match (self.node.ints(name)?, self.node.operand(1)) {
            (Some(list), _) => list.to_vec(),
            (None, Some(_)) => self.ints(1)?,
            (None, None) => return Ok((0..rank).collect()),
        };
        list.into_iter().map(|axis| from_front(axis, rank)).collect()
    }
}

/// The number of an axis or an index, counted from the front.
pub(super) fn from_front(index: i64, of: usize) -> Result<usize> {
    let index = if index < 0 { index.saturating_add(of as i64) } else { index };
    let fits = usize::try_from(index).ok().filter(|&index| index < of);
    fits.ok_or_else(|| format!("{index} of {of}"))
}

/// Elements of the largest tensor that a node may make.
const MAX_ELEMENTS: usize = 1 << 31;

/// Number of elements of a tensor of `dims`, if it may be made.
pub(super) fn elements(dims: &[usize]) -> Result<usize> {
    let all = dims.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    all.filter(|&n| n < MAX_ELEMENTS).ok_or_else(|| format!("a tensor of {dims:?} is out of range"))
}

/// The four sizes of an image.
pub(super) fn image(dims: &[usize]) -> Result<[usize; 4]> {
    dims.try_into().map_err(|_| format!("must be a tensor of four sizes, got {dims:?}"))
}
