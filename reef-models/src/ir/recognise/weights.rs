//! Weights of recognised convolutions, which go over from the reader without a copy.

use super::window::Sliding;
use crate::ir::value::{Id, Make, Net};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::tensors::value::KnownValues;
use reef_op::Window;
use reef_op::tensor::Array;
use std::rc::Rc;

/// Weights of a convolution that has none yet.
#[derive(Debug)]
pub(super) struct Pending {
    /// The convolution.
    pub(super) id: Id,
    /// Outputs of it.
    pub(super) outputs: usize,
    pub(super) from: From,
}

/// Origin of weights.
#[derive(Debug)]
pub(super) enum From {
    /// As they are, but for gaps of this window.
    Filters(Rc<KnownValues>, Sliding, Window),
    /// A matrix `[outputs][inputs]`.
    Rows(Rc<KnownValues>),
    /// A matrix `[inputs][outputs]`.
    Columns(Rc<KnownValues>),
    /// One output for each of these channels, and the number of all channels.
    Picked(List<usize>, usize),
}

impl Pending {
    /// Gives the convolution its weights and a bias of zeros.
    pub(super) fn fill(self, net: &mut Net, ledger: &Ledger) -> Result<(), String> {
        let Self { id, outputs, from } = self;
        let weights = match from {
            From::Filters(known, sliding, window) => {
                sliding.spread(&window, own(known, ledger)?, ledger)?
            }
            From::Rows(known) => own(known, ledger)?,
            From::Columns(known) => transposed(&known, outputs, ledger)?,
            From::Picked(picked, channels) => filters(&picked, channels, ledger)?,
        };
        let bias = List::filled(0.0, outputs, ledger)?;
        if let Make::Conv(conv) = net.make_mut(id) {
            (conv.weights, conv.bias) = (weights, bias);
        }
        Ok(())
    }
}

/// Values of singles.
pub(super) fn singles(known: &KnownValues) -> Result<&[f32], String> {
    match &known.array {
        Array::F32(values) => Ok(values),
        other => Err(format!("constants must be of type float32, got {}", other.element())),
    }
}

/// The values of a constant: itself, or a copy if others have it too.
fn own(known: Rc<KnownValues>, ledger: &Ledger) -> Result<List<f32>, String> {
    match Rc::try_unwrap(known) {
        Ok(KnownValues { array: Array::F32(values), charge }) => Ok(List::charged(values, charge)),
        Ok(known) => Ok(List::copied(singles(&known)?, ledger)?),
        Err(shared) => Ok(List::copied(singles(&shared)?, ledger)?),
    }
}

/// A matrix of `columns` columns with rows and columns exchanged.
fn transposed(known: &KnownValues, columns: usize, ledger: &Ledger) -> Result<List<f32>, String> {
    let values = singles(known)?;
    let rows = values.len() / columns.max(1);
    let places = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
    Ok(List::of(values.len(), places.map(|at| values[at]), ledger)?)
}

/// Filters of one and zeros, which pick channels.
fn filters(picked: &[usize], channels: usize, ledger: &Ledger) -> Result<List<f32>, String> {
    let filter = |&from: &usize| (0..channels).map(move |c| f32::from(u8::from(c == from)));
    let len = picked.len().saturating_mul(channels);
    Ok(List::of(len, picked.iter().flat_map(filter), ledger)?)
}
