//! Tensors of a file as arrays.

use super::few::Few;
use crate::errors::error;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::onnx::constant;
use crate::onnx::external::External;
use crate::onnx::fault::{Fault, Result, unsupported};
use crate::onnx::file::TensorFile;
use crate::onnx::protobuf::Malformed;
use reef_op::tensor::{Array, Brain, Element, Half, Spec, Truth};
use std::path::Path;

/// The type that `TensorProto.DataType` calls so, or the one that holds its numbers.
pub(crate) fn element(number: i64) -> Result<Element> {
    if let Some(few) = Few::of(number) {
        return Ok(few.element());
    }
    Ok(match number {
        1 => Element::F32,
        2 => Element::U8,
        3 => Element::I8,
        4 => Element::U16,
        5 => Element::I16,
        6 => Element::I32,
        7 => Element::I64,
        9 => Element::Bool,
        10 => Element::F16,
        11 => Element::F64,
        12 => Element::U32,
        13 => Element::U64,
        16 => Element::BF16,
        0 => {
            return Err(unsupported("no tensor (a sequence, a map or an optional), which is"));
        }
        other => return Err(unsupported(&format!("elements of type {} are", unread(other)))),
    })
}

/// Types that aren't read, by name.
fn unread(number: i64) -> String {
    let known = match number {
        8 => "string",
        14 => "complex64",
        15 => "complex128",
        24 => "float8e8m0",
        other => return other.to_string(),
    };
    known.into()
}

/// Decodes a tensor; `folder` has the file that keeps its data, if another one does.
pub(crate) fn array(
    tensor: &TensorFile<'_>,
    folder: Option<&Path>,
    ledger: &Ledger,
) -> Result<(Spec, Array)> {
    let few = Few::of(tensor.element);
    let element = element(tensor.element)?;
    let dims = constant::dims(&tensor.dims)?;
    let count = constant::elements(&dims)?;
    let bytes = (count as u64).checked_mul(element.bytes() as u64);
    let bytes = bytes.ok_or_else(|| format!("a tensor of {dims:?}"))?;
    let _reading = ledger.charge(bytes)?;
    let bytes = few.map_or(bytes, |few| (count as u64 * u64::from(few.bits())).div_ceil(8));
    let external = if tensor.external.is_empty() {
        None
    } else {
        Some(External::of(tensor)?.read(folder, bytes, ledger)?)
    };
    let array = match external.as_deref().or(tensor.raw) {
        Some(raw) if raw.len() as u64 != bytes => {
            return Err(format!("{} bytes for a tensor {element}{dims:?}", raw.len()));
        }
        Some(raw) => match few {
            Some(few) => few.unpacked(raw.iter().copied(), count),
            None => Array::from_le_bytes(element, raw),
        },
        None => match few {
            Some(few) => few.unpacked(tensor.ints.iter().map(|&byte| byte as u8), count),
            None => listed(tensor, element),
        },
    };
    if array.len() == count {
        Ok((Spec { element, dims }, array))
    } else {
        Err(format!("{} values for a tensor of {dims:?}", array.len()))
    }
}

/// Values that stand in lists of numbers. Halves stand as their bits.
fn listed(tensor: &TensorFile<'_>, element: Element) -> Array {
    let ints = || tensor.ints.iter();
    match element {
        Element::F32 => Array::F32(tensor.floats.to_vec()),
        Element::F64 => Array::F64(tensor.doubles.to_vec()),
        Element::F16 => Array::F16(ints().map(|&bits| Half(bits as u16)).collect()),
        Element::BF16 => Array::BF16(ints().map(|&bits| Brain(bits as u16)).collect()),
        Element::I64 => Array::I64(tensor.ints.to_vec()),
        Element::I32 => Array::I32(ints().map(|&x| x as i32).collect()),
        Element::I16 => Array::I16(ints().map(|&x| x as i16).collect()),
        Element::I8 => Array::I8(ints().map(|&x| x as i8).collect()),
        Element::U64 => Array::U64(ints().map(|&x| x as u64).collect()),
        Element::U32 => Array::U32(ints().map(|&x| x as u32).collect()),
        Element::U16 => Array::U16(ints().map(|&x| x as u16).collect()),
        Element::U8 => Array::U8(ints().map(|&x| x as u8).collect()),
        Element::Bool => Array::Bool(ints().map(|&x| Truth((x != 0).into())).collect()),
    }
}

/// Reads a file that holds a single tensor (`TensorProto`), as ONNX's test data do.
///
/// # Errors
///
/// `Onnx` if it is none.
pub fn read_tensor(bytes: &[u8], name: &str) -> error::Result<(Spec, Array)> {
    let ledger = Ledger::new(&Budget::default());
    let malformed = |Malformed(why): Malformed| why;
    let read = TensorFile::read(bytes, &ledger).map_err(malformed);
    let read = read.and_then(|tensor| array(&tensor, None, &ledger));
    read.map_err(|why| Fault { at: "no tensor".into(), why }.of(name.into(), &ledger))
}
