//! Maxima and means over rows and columns.

use super::shapes::{all_axes, picture};
use crate::ir::value::{Make, POINT};
use crate::onnx::fault::Result;
use crate::onnx::node::Node;
use crate::onnx::scope::{Form, Reader, Tensor};
use crate::onnx::window::Sliding;
use reef_core::op::{PoolKind, Window};

pub(super) fn pool<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let [batch, channels, height, width] = reader.shape(x);
    let sliding = Sliding::of(node, node.pair("kernel_shape", 0)?, [height, width])?;
    let (kind, counts_padding) = match node.file.op {
        "MaxPool" => (PoolKind::Max, None),
        _ => (PoolKind::Average, Some(node.int("count_include_pad", 0)? != 0)),
    };
    node.int("storage_order", 0)?; // of the second output
    let window = sliding.of_pool([height, width], counts_padding)?;
    if window == POINT {
        return picture(x);
    }
    let [height, width] = window.over([height, width]);
    let make = Make::Pool { x, kind, window };
    picture(reader.push(node.name(), [batch, channels, height, width], make)?)
}

pub(super) fn global_pool<'a>(
    reader: &mut Reader<'a>,
    node: &Node<'a>,
    kind: PoolKind,
) -> Result<Tensor> {
    let x = reader.picture(node, 0)?;
    let [batch, channels, height, width] = reader.shape(x);
    let make = Make::Pool { x, kind, window: Window { size: [height, width], ..POINT } };
    picture(reader.push(node.name(), [batch, channels, 1, 1], make)?)
}

/// The mean of rows and columns, which is a global pool.
pub(super) fn reduce_mean<'a>(reader: &mut Reader<'a>, node: &Node<'a>) -> Result<Tensor> {
    let keeps = node.int("keepdims", 1)? != 0;
    node.int("noop_with_empty_axes", 0)?;
    let over = all_axes(reader, node, "axes", 4)?;
    if over != [2, 3].into() {
        return Err(format!("axes {over:?}, only rows and columns (2 and 3) are supported"));
    }
    let pooled = global_pool(reader, node, PoolKind::Average)?;
    Ok(if keeps { pooled } else { Tensor { form: Form::Flat, ..pooled } })
}
