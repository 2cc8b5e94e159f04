//! Products of matrices, and what whole images come to.

use super::operands::{Floats, Operands, elements, image};
use crate::memory::list::List;
use crate::onnx::constant::Constant;
use crate::onnx::fault::Result;

/// A matrix, perhaps with rows and columns exchanged.
struct Matrix {
    of: Floats,
    transposed: bool,
}

impl Matrix {
    fn new(of: Floats, transposed: bool) -> Result<Self> {
        match of.dims.len() {
            2 => Ok(Self { of, transposed }),
            _ => Err(format!("a matrix must have 2 dimensions, got {:?}", of.dims)),
        }
    }

    fn rows(&self) -> usize {
        self.of.dims[usize::from(self.transposed)]
    }

    fn columns(&self) -> usize {
        self.of.dims[usize::from(!self.transposed)]
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        let [r, c] = if self.transposed { [column, row] } else { [row, column] };
        self.of.values[r * self.of.dims[1] + c].into()
    }

    fn times(&self, other: &Self, row: usize, column: usize) -> f64 {
        (0..self.columns()).map(|i| self.at(row, i) * other.at(i, column)).sum()
    }
}

/// `alpha * a · b + beta * c`.
pub(super) fn gemm(of: &Operands<'_, '_>) -> Result<Constant> {
    let a = Matrix::new(of.floats(0)?, of.node.int("transA", 0)? != 0)?;
    let b = Matrix::new(of.floats(1)?, of.node.int("transB", 0)? != 0)?;
    let alpha = f64::from(of.node.float("alpha")?.unwrap_or(1.0));
    let beta = f64::from(of.node.float("beta")?.unwrap_or(1.0));
    let c = if of.node.operand(2).is_some() { Some(of.floats(2)?) } else { None };
    let added = |row: usize, column: usize| -> Result<f64> {
        let Some(c) = &c else { return Ok(0.0) };
        let [rows, columns] = match *c.dims.as_slice() {
            [] => [1, 1],
            [columns] => [1, columns],
            [rows, columns] => [rows, columns],
            _ => return Err(format!("a tensor of {:?} is added", c.dims)),
        };
        let place =
            row.min(rows.saturating_sub(1)) * columns + column.min(columns.saturating_sub(1));
        let fits = [1, a.rows()].contains(&rows) && [1, b.columns()].contains(&columns);
        let value = c.values.get(place).filter(|_| fits);
        value.map(|&value| value.into()).ok_or_else(|| format!("a tensor of {:?} is added", c.dims))
    };
    matrix(of, &a, &b, |row, column| {
        Ok(alpha * a.times(&b, row, column) + beta * added(row, column)?)
    })
}

pub(super) fn matmul(of: &Operands<'_, '_>) -> Result<Constant> {
    let (a, b) = (Matrix::new(of.floats(0)?, false)?, Matrix::new(of.floats(1)?, false)?);
    matrix(of, &a, &b, |row, column| Ok(a.times(&b, row, column)))
}

fn matrix(
    of: &Operands<'_, '_>,
    a: &Matrix,
    b: &Matrix,
    value: impl Fn(usize, usize) -> Result<f64>,
) -> Result<Constant> {
    let [rows, columns] = [a.rows(), b.columns()];
    if a.columns() != b.rows() {
        return Err(format!("matrices of {:?} and {:?}", a.of.dims, b.of.dims));
    }
    let len = elements(&[rows, columns])?;
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let values = places.map(|(row, column)| Ok::<_, String>(value(row, column)? as f32));
    Ok(Constant::floats(vec![rows, columns], List::try_of(len, values, of.ledger())?))
}

/// Reduces all pixels of each channel of each image to one value by `come_to`.
pub(super) fn global(of: &Operands<'_, '_>, come_to: impl Fn(&[f32]) -> f32) -> Result<Constant> {
    let Floats { dims, values } = of.floats(0)?;
    let [batch, channels, height, width] = image(&dims)?;
    let planes = values.chunks((height * width).max(1));
    of.make_floats(vec![batch, channels, 1, 1], planes.len(), planes.map(come_to))
}

pub(super) fn mean(values: &[f32]) -> f32 {
    (values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64) as f32
}

pub(super) fn maximum(values: &[f32]) -> f32 {
    values.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max || x.is_nan() { x } else { max })
}

/// Means over some axes.
pub(super) fn reduce_mean(of: &Operands<'_, '_>) -> Result<Constant> {
    let Floats { dims, values } = of.floats(0)?;
    let axes = of.axes("axes", dims.len())?;
    let kept: Vec<usize> = (0..dims.len()).filter(|axis| !axes.contains(axis)).collect();
    let mut parts = vec![Vec::new(); kept.iter().map(|&axis| dims[axis]).product()];
    for (i, &value) in values.iter().enumerate() {
        let index = |axis: usize| i / dims[axis + 1..].iter().product::<usize>() % dims[axis];
        parts[kept.iter().fold(0, |place, &axis| place * dims[axis] + index(axis))].push(value);
    }
    let keeps = of.node.int("keepdims", 1)? != 0;
    let size = |axis: usize| if axes.contains(&axis) { 1 } else { dims[axis] };
    let left = (0..dims.len()).filter(|axis| keeps || kept.contains(axis)).map(size).collect();
    of.make_floats(left, parts.len(), parts.iter().map(|part| mean(part)))
}
