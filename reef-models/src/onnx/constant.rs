//! Tensors whose values stand in the file, and what is computed from them alone.

use super::external::External;
use super::fault::Result;
use super::file::TensorFile;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use std::path::Path;
use std::rc::Rc;

/// `TensorProto.DataType` of the elements that networks are made of.
const FLOAT: i64 = 1;
const INT32: i64 = 6;
const INT64: i64 = 7;
const BOOL: i64 = 9;
const DOUBLE: i64 = 11;

/// Most dimensions of a tensor.
pub(super) const MAX_RANK: usize = 32;

/// A tensor with its values, row-major.
#[derive(Debug, PartialEq)]
pub(super) struct Constant {
    pub(super) dims: Vec<usize>,
    pub(super) data: Data,
}

/// Values of one of two kinds.
#[derive(Debug, PartialEq)]
pub(super) enum Data {
    Floats(List<f32>),
    Ints(List<i64>),
}

impl Constant {
    pub(super) fn floats(dims: Vec<usize>, values: List<f32>) -> Self {
        Self { dims, data: Data::Floats(values) }
    }

    pub(super) fn ints(dims: Vec<usize>, values: List<i64>) -> Self {
        Self { dims, data: Data::Ints(values) }
    }

    /// Decodes what a file holds; `folder` has the file that keeps its data, if another one does.
    pub(super) fn read(
        tensor: &TensorFile<'_>,
        folder: Option<&Path>,
        ledger: &Ledger,
    ) -> Result<Self> {
        let dims = dims(&tensor.dims)?;
        let external = if tensor.external.is_empty() {
            None
        } else {
            Some(External::of(tensor)?.read(folder, bytes(tensor, &dims)?, ledger)?)
        };
        let raw = external.as_deref().or(tensor.raw);
        let data = data(tensor, raw, ledger)?;
        let (have, want) = (data.len(), elements(&dims)?);
        if have != want {
            return Err(format!("{have} values for a tensor of {dims:?}"));
        }
        Ok(Self { dims, data })
    }

    /// Its integers, whatever the shape.
    pub(super) fn as_ints(&self) -> Result<&[i64]> {
        match &self.data {
            Data::Ints(values) => Ok(values),
            Data::Floats(_) => Err("must be integers, got floats".into()),
        }
    }

    /// Its floats, whatever the shape.
    pub(super) fn as_floats(&self) -> Result<&[f32]> {
        match &self.data {
            Data::Floats(values) => Ok(values),
            Data::Ints(_) => Err("must be floats, got integers".into()),
        }
    }

    /// One that is not shared: itself, or a copy if others have it too.
    pub(super) fn own(shared: Rc<Self>, ledger: &Ledger) -> Result<Self> {
        Rc::try_unwrap(shared).or_else(|shared| shared.copied(ledger))
    }

    pub(super) fn copied(&self, ledger: &Ledger) -> Result<Self> {
        let data = match &self.data {
            Data::Floats(values) => Data::Floats(List::copied(values, ledger)?),
            Data::Ints(values) => Data::Ints(List::copied(values, ledger)?),
        };
        Ok(Self { dims: self.dims.clone(), data })
    }

    /// Returns the values in another shape.
    pub(super) fn shaped(self, dims: Vec<usize>) -> Result<Self> {
        if elements(&dims)? == self.data.len() {
            Ok(Self { dims, ..self })
        } else {
            Err(format!("{:?} can't become {dims:?}", self.dims))
        }
    }

    /// A tensor of `dims` with the values at these places, all of which it has.
    pub(super) fn pick(
        &self,
        dims: Vec<usize>,
        places: impl Iterator<Item = usize>,
        ledger: &Ledger,
    ) -> Result<Self> {
        let len = elements(&dims)?;
        let data = match &self.data {
            Data::Floats(v) => Data::Floats(List::of(len, places.map(|at| v[at]), ledger)?),
            Data::Ints(v) => Data::Ints(List::of(len, places.map(|at| v[at]), ledger)?),
        };
        Ok(Self { dims, data })
    }
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Ints(values) => values.len(),
        }
    }
}

/// Sizes as numbers that a tensor can have.
pub(super) fn dims(dims: &[i64]) -> Result<Vec<usize>> {
    if dims.len() > MAX_RANK {
        return Err(format!("a tensor of {} dimensions, most is {MAX_RANK}", dims.len()));
    }
    let size = |&n: &i64| usize::try_from(n).map_err(|_| format!("a tensor of {dims:?}"));
    dims.iter().map(size).collect()
}

pub(super) fn elements(dims: &[usize]) -> Result<usize> {
    let product = dims.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
    product.ok_or_else(|| format!("a tensor of {dims:?}"))
}

/// Bytes that raw data of this tensor takes.
fn bytes(tensor: &TensorFile<'_>, dims: &[usize]) -> Result<u64> {
    let size = match tensor.element {
        FLOAT | INT32 => 4,
        INT64 | DOUBLE => 8,
        BOOL => 1,
        other => return Err(unknown(other)),
    };
    let bytes = elements(dims)?.checked_mul(size);
    bytes.map(|bytes| bytes as u64).ok_or_else(|| format!("a tensor of {dims:?}"))
}

fn unknown(element: i64) -> String {
    format!("elements of type {element} (have: 1, 6, 7, 9 and 11)")
}

fn data(tensor: &TensorFile<'_>, raw: Option<&[u8]>, ledger: &Ledger) -> Result<Data> {
    let Some(raw) = raw else {
        return match tensor.element {
            FLOAT => Ok(Data::Floats(List::copied(&tensor.floats, ledger)?)),
            BOOL | INT32 | INT64 => Ok(Data::Ints(List::copied(&tensor.ints, ledger)?)),
            other => Err(unknown(other)),
        };
    };
    match tensor.element {
        FLOAT => Ok(Data::Floats(numbers(raw, f32::from_le_bytes, ledger)?)),
        DOUBLE => Ok(Data::Floats(numbers(raw, |b| f64::from_le_bytes(b) as f32, ledger)?)),
        INT64 => Ok(Data::Ints(numbers(raw, i64::from_le_bytes, ledger)?)),
        INT32 => Ok(Data::Ints(numbers(raw, |b| i32::from_le_bytes(b).into(), ledger)?)),
        BOOL => Ok(Data::Ints(numbers(raw, |[byte]: [u8; 1]| byte.into(), ledger)?)),
        other => Err(unknown(other)),
    }
}

fn numbers<T, const N: usize>(
    raw: &[u8],
    number: impl Fn([u8; N]) -> T,
    ledger: &Ledger,
) -> Result<List<T>> {
    match raw.as_chunks::<N>() {
        (words, []) => Ok(List::of(words.len(), words.iter().map(|&word| number(word)), ledger)?),
        _ => Err(format!("{} bytes of numbers that take {N}", raw.len())),
    }
}
