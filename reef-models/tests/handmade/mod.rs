//! ONNX files made by hand, field by field.

#![allow(dead_code)] // each test file uses some of it

pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

pub(crate) fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

pub(crate) fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

pub(crate) fn ints(name: &str, values: &[i64]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|&value| number(8, value)).collect();
    bytes(5, [bytes(1, name), values].concat())
}

pub(crate) fn int(name: &str, value: i64) -> Vec<u8> {
    bytes(5, [bytes(1, name), number(3, value)].concat())
}

pub(crate) fn float(name: &str, value: f32) -> Vec<u8> {
    let value = [varint(2 << 3 | 5), value.to_le_bytes().to_vec()].concat();
    bytes(5, [bytes(1, name), value].concat())
}

pub(crate) fn text(name: &str, value: &str) -> Vec<u8> {
    bytes(5, [bytes(1, name), bytes(4, value)].concat())
}

/// A list of texts.
pub(crate) fn texts(name: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|value| bytes(9, value)).collect();
    bytes(5, [bytes(1, name), values].concat())
}

pub(crate) fn floats(name: &str, values: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    bytes(5, [bytes(1, name), bytes(7, raw)].concat())
}

/// A node with several outputs, called after the first; without a name an output or input is left
/// out.
pub(crate) fn node_of(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    named_node("node", bytes(4, op), inputs, outputs, attributes)
}

/// A node called after what it makes.
pub(crate) fn node(op: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    named_node(output, bytes(4, op), inputs, &[output], attributes)
}

/// A node of a domain.
pub(crate) fn node_in(
    domain: &str,
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    let op = [bytes(4, op), bytes(7, domain)].concat();
    named_node(outputs[0], op, inputs, outputs, attributes)
}

/// A node with the fields of its operator.
fn named_node(
    name: &str,
    op: Vec<u8>,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| bytes(1, input)).collect();
    let outputs: Vec<u8> = outputs.iter().flat_map(|output| bytes(2, output)).collect();
    bytes(1, [inputs, outputs, bytes(3, name), op, attributes.concat()].concat())
}

/// An attribute that is a graph.
pub(crate) fn graph(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(5, [bytes(1, name), bytes(6, parts.concat())].concat())
}

/// An attribute that is a tensor.
pub(crate) fn tensor(name: &str, element: i64, dims: &[i64], raw: &[u8]) -> Vec<u8> {
    bytes(5, [bytes(1, name), bytes(5, message(element, dims, raw))].concat())
}

/// An initializer of any type, by its bytes.
pub(crate) fn stored(name: &str, element: i64, dims: &[i64], raw: &[u8]) -> Vec<u8> {
    bytes(5, [message(element, dims, raw), bytes(8, name)].concat())
}

/// An initializer of texts.
pub(crate) fn stored_texts(name: &str, dims: &[i64], values: &[&str]) -> Vec<u8> {
    let sizes: Vec<u8> = dims.iter().flat_map(|&size| number(1, size)).collect();
    let values: Vec<u8> = values.iter().flat_map(|value| bytes(6, value)).collect();
    bytes(5, [sizes, number(2, 8), values, bytes(8, name)].concat())
}

fn message(element: i64, dims: &[i64], raw: &[u8]) -> Vec<u8> {
    let sizes: Vec<u8> = dims.iter().flat_map(|&size| number(1, size)).collect();
    [sizes, number(2, element), bytes(9, raw)].concat()
}

/// An input or output of which some sizes, by their names, are open.
pub(crate) fn open(field: u64, name: &str, element: i64, dims: &[&str]) -> Vec<u8> {
    let size = |text: &&str| match text.parse() {
        Ok(size) => bytes(1, number(1, size)),
        Err(_) => bytes(1, bytes(2, text)),
    };
    let sizes: Vec<u8> = dims.iter().flat_map(size).collect();
    let tensor = [number(1, element), bytes(2, sizes)].concat();
    bytes(field, [bytes(1, name), bytes(2, bytes(1, tensor))].concat())
}

/// An input or output that is a sequence of tensors, as an optional value or not.
pub(crate) fn sequence(
    field: u64,
    name: &str,
    element: i64,
    dims: &[i64],
    is_optional: bool,
) -> Vec<u8> {
    let sizes: Vec<u8> = dims.iter().flat_map(|&size| bytes(1, number(1, size))).collect();
    let tensor = [number(1, element), bytes(2, sizes)].concat();
    let list = bytes(4, bytes(1, bytes(1, tensor)));
    let kind = if is_optional { bytes(9, bytes(1, list)) } else { list };
    bytes(field, [bytes(1, name), bytes(2, kind)].concat())
}

/// A tensor of ones.
pub(crate) fn ones(name: &str, dims: &[i64]) -> Vec<u8> {
    singles(name, dims, |_| 1.0)
}

/// A tensor of singles, each made of its place.
pub(crate) fn singles(name: &str, dims: &[i64], make: impl Fn(i64) -> f32) -> Vec<u8> {
    let raw: Vec<u8> = (0..dims.iter().product()).flat_map(|k| make(k).to_le_bytes()).collect();
    let sizes: Vec<u8> = dims.iter().flat_map(|&size| number(1, size)).collect();
    bytes(5, [sizes, number(2, 1), bytes(8, name), bytes(9, raw)].concat())
}

/// A tensor of one number, without dimensions.
pub(crate) fn scalar(name: &str, value: f32) -> Vec<u8> {
    bytes(5, [number(2, 1), bytes(8, name), bytes(9, value.to_le_bytes())].concat())
}

pub(crate) fn value(field: u64, name: &str, dims: &[i64]) -> Vec<u8> {
    typed(field, name, 1, dims)
}

/// An input (field 11) or output (12) with elements of ONNX's type `element`.
pub(crate) fn typed(field: u64, name: &str, element: i64, dims: &[i64]) -> Vec<u8> {
    let sizes: Vec<u8> = dims.iter().flat_map(|&size| bytes(1, number(1, size))).collect();
    let tensor = [number(1, element), bytes(2, sizes)].concat();
    bytes(field, [bytes(1, name), bytes(2, bytes(1, tensor))].concat())
}

pub(crate) fn file(opset: i64, graph: &[Vec<u8>]) -> Vec<u8> {
    [bytes(8, number(2, opset)), bytes(7, graph.concat())].concat()
}
