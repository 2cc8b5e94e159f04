//! The values of names so far, and a node's operands among them.

use crate::onnx::constant::Constant;
use crate::onnx::fault::Result;
use crate::onnx::file::{GraphFile, TensorFile};
use crate::onnx::node::Node;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// Tensors that stand in the file, and those that nodes have made.
pub(super) struct Values<'a> {
    stored: HashMap<&'a str, &'a TensorFile<'a>>,
    made: HashMap<&'a str, Constant>,
    folder: Option<&'a Path>,
}

impl<'a> Values<'a> {
    pub(super) fn new(graph: &'a GraphFile<'a>, folder: Option<&'a Path>) -> Self {
        let stored = graph.initializers.iter().map(|tensor| (tensor.name, tensor)).collect();
        Self { stored, made: HashMap::new(), folder }
    }

    pub(super) fn insert(&mut self, name: &'a str, value: Constant) {
        self.made.insert(name, value);
    }

    pub(super) fn get(&self, name: &str) -> Result<Cow<'_, Constant>> {
        if let Some(made) = self.made.get(name) {
            return Ok(Cow::Borrowed(made));
        }
        let stored = self.stored.get(name).ok_or_else(|| format!("nothing makes {name:?}"))?;
        Constant::read(stored, self.folder).map(Cow::Owned)
    }
}

/// A node and what its operands may be.
pub(super) struct Operands<'s, 'a> {
    pub(super) node: &'s Node<'a>,
    pub(super) values: &'s Values<'a>,
}

/// Floats and their sizes.
pub(super) struct Floats<'v> {
    pub(super) dims: Vec<usize>,
    pub(super) values: Cow<'v, [f32]>,
}

impl<'s> Operands<'s, '_> {
    /// How many there are; some may be left out.
    pub(super) fn count(&self) -> usize {
        self.node.file.inputs.len()
    }

    /// Operand `index`; `None` if it is left out.
    pub(super) fn optional(&self, index: usize) -> Result<Option<Cow<'s, Constant>>> {
        self.node.operand(index).map(|name| self.values.get(name)).transpose()
    }

    /// Operand `index`, which must be there.
    pub(super) fn any(&self, index: usize) -> Result<Cow<'s, Constant>> {
        self.optional(index)?.ok_or_else(|| format!("operand {index} is missing"))
    }

    /// Operand `index`, of floats.
    pub(super) fn floats(&self, index: usize) -> Result<Floats<'s>> {
        Ok(match self.any(index)? {
            Cow::Borrowed(value) => {
                Floats { dims: value.dims.clone(), values: value.as_floats()?.into() }
            }
            Cow::Owned(value) => {
                Floats { dims: value.dims.clone(), values: value.into_floats()?.into() }
            }
        })
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
            other => Err(format!("operand {index} has {} values, one is wanted", other.len())),
        }
    }

    /// Axes that an attribute or operand 1 lists, counted from the front; all if none of them is there.
    pub(super) fn axes(&self, name: &'static str, rank: usize) -> Result<Vec<usize>> {
        let list = match (self.node.ints(name), self.node.operand(1)) {
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

/// How many elements a tensor of `dims` has, if it may be made.
pub(super) fn elements(dims: &[usize]) -> Result<usize> {
    let all = dims.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    all.filter(|&n| n < MAX_ELEMENTS).ok_or_else(|| format!("a tensor of {dims:?} is out of range"))
}

/// The four sizes of a picture.
pub(super) fn picture(dims: &[usize]) -> Result<[usize; 4]> {
    dims.try_into().map_err(|_| format!("a tensor of {dims:?}, four sizes wanted"))
}
