//! What names stand for while a graph is read, and what operators ask of that.

use super::constant::Constant;
use super::fault::Result;
use super::file::TensorFile;
use super::node::Node;
use crate::ir::value::{Id, Make, Net, STEP, Value};
use crate::memory::ledger::Ledger;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// Elements of the largest tensor, and the largest size of one: no network comes near.
const MAX_ELEMENTS: usize = 1 << 31;
const MAX_SIZE: usize = 1 << 20;
/// What a name stands for.
#[derive(Debug)]
pub(super) enum Known<'a> {
    /// A tensor in the file, decoded when it is asked for.
    Stored(&'a TensorFile<'a>),
    /// Computed from others; names that mean the same share it.
    Constant(Rc<Constant>),
    Tensor(Tensor),
}

/// A value of the network, and how ONNX sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) id: Id,
    pub(super) form: Form,
}

/// The dimensions that ONNX gives to `[batch, channels, rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// All four.
    Picture,
    /// Batch, and all others in one.
    Flat,
    /// One channel, whose dimension is left out.
    Plane,
}

/// A graph that is being read.
pub(super) struct Reader<'a> {
    pub(super) folder: Option<&'a Path>,
    /// What is made of the file is charged here.
    pub(super) ledger: &'a Ledger,
    pub(super) known: HashMap<&'a str, Known<'a>>,
    pub(super) net: Net,
}

impl<'a> Reader<'a> {
    pub(super) fn shape(&self, id: Id) -> [usize; 4] {
        self.net.value(id).shape
    }

    /// Its sizes as ONNX counts them.
    pub(super) fn dims(&self, tensor: Tensor) -> Vec<usize> {
        let [batch, channels, height, width] = self.shape(tensor.id);
        match tensor.form {
            Form::Picture => vec![batch, channels, height, width],
            Form::Flat => vec![batch, channels * height * width],
            Form::Plane => vec![batch, height, width],
        }
    }

    /// Appends a value to the network.
    pub(super) fn push(&mut self, name: &str, shape: [usize; 4], make: Make) -> Result<Id> {
        let elements = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        let fits = elements.is_some_and(|n| (1..MAX_ELEMENTS).contains(&n));
        if !fits || shape.iter().any(|&size| size > MAX_SIZE) {
            return Err(format!("a tensor of {shape:?} is out of range"));
        }
        // Parts of a concatenation that lie elsewhere are copied, and each copy is a step.
        let copies = if let Make::Concat { parts } = &make { parts.len() as u64 } else { 0 };
        self.ledger.keep(STEP * (1 + copies))?;
        Ok(self.net.push(Value::new(name, shape, make)))
    }

    /// What operand `index` is.
    pub(super) fn operand(&self, node: &Node<'a>, index: usize) -> Result<&Known<'a>> {
        let name = node.operand(index).ok_or_else(|| format!("operand {index} is missing"))?;
        self.known.get(name).ok_or_else(|| {
            format!("{name:?} is no input, no initializer, and no node before this one makes it")
        })
    }

    /// Operand `index`, which depends on the input.
    pub(super) fn tensor(&self, node: &Node<'a>, index: usize) -> Result<Tensor> {
        match self.operand(node, index)? {
            Known::Tensor(tensor) => Ok(*tensor),
            _ => Err(format!("operand {index} is a constant")),
        }
    }

    /// Operand `index` with all four dimensions.
    pub(super) fn picture(&self, node: &Node<'a>, index: usize) -> Result<Id> {
        let tensor = self.tensor(node, index)?;
        match tensor.form {
            Form::Picture => Ok(tensor.id),
            _ => Err(format!("operand {index} has the shape {:?}", self.dims(tensor))),
        }
    }

    /// Operand `index`, which is a constant; `None` if it is left out.
    pub(super) fn constant(&self, node: &Node<'a>, index: usize) -> Result<Option<Rc<Constant>>> {
        if node.operand(index).is_none() {
            return Ok(None);
        }
        let read = match self.operand(node, index)? {
            Known::Stored(tensor) => Constant::read(tensor, self.folder, self.ledger).map(Rc::new),
            Known::Constant(constant) => Ok(constant.clone()),
            Known::Tensor(_) => return Err(format!("operand {index} is no constant")),
        };
        let named = |why| format!("{:?}: {why}", node.operand(index).unwrap_or_default());
        read.map(Some).map_err(named)
    }

    /// Operand `index`, which must be there.
    pub(super) fn wanted(&self, node: &Node<'a>, index: usize) -> Result<Rc<Constant>> {
        self.constant(node, index)?.ok_or_else(|| format!("operand {index} is missing"))
    }

    /// As [`wanted`](Self::wanted), to be changed.
    pub(super) fn own(&self, node: &Node<'a>, index: usize) -> Result<Constant> {
        Constant::own(self.wanted(node, index)?, self.ledger)
    }
}

/// Numbers of axes, counted from the front.
pub(super) fn axes(axes: &[i64], rank: usize) -> Result<HashSet<usize>> {
    axes.iter().map(|&axis| self::axis(axis, rank)).collect()
}

/// The number of an axis, counted from the front.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let from_front = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let fits = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    fits.ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}
