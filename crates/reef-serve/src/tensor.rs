//! Names, types and shapes of a model's tensors, and checks of requests against them.

use crate::error::{Error, Result};
use reef::did_you_mean;
use reef::models::{Extent, Port, Ports, Texts};
use reef::tensor::Element;
use std::sync::Arc;

/// A tensor's name, type and shape, and its offset among a model's inputs or outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    pub(crate) name: String,
    /// Type of its numbers; `None` if it consists of texts.
    pub(crate) element: Option<Element>,
    pub(crate) shape: Vec<i64>,
    /// Offset of its first byte.
    pub(crate) offset: usize,
    /// Set if data decide one of its sizes; that of `shape` is an upper bound then.
    pub(crate) bound: Option<SizeBound>,
    /// Set if its numbers are places of texts in this list: clients see the texts.
    pub(crate) texts: Option<Arc<Texts>>,
}

/// Size of a tensor that data decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeBound {
    pub(crate) axis: usize,
    /// Offset of the size, among a model's outputs.
    pub(crate) offset: usize,
}

/// All inputs or all outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfos {
    pub(crate) each: Vec<TensorInfo>,
    /// Size of all tensors, including the gaps between them.
    pub(crate) bytes: usize,
    /// True if a loop may not end within its bound: the outputs have no values then.
    pub(crate) has_checks: bool,
}

impl TensorInfos {
    pub(crate) fn of(ports: &Ports) -> Self {
        let info = |(offset, port): (usize, &Port)| TensorInfo {
            name: port.name.clone(),
            element: Some(port.spec.element),
            shape: port.spec.dims.iter().map(|&size| size as i64).collect(),
            offset,
            bound: match (port.extent, ports.size_of(port)) {
                (Extent::Bounded { axis, .. }, Some(offset)) => Some(SizeBound { axis, offset }),
                _ => None,
            },
            texts: port.texts.clone(),
        };
        let has_checks = ports.checks().next().is_some();
        Self { each: ports.iter().map(info).collect(), bytes: ports.bytes(), has_checks }
    }

    /// Returns the index of the tensor called `name`.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the names of all tensors.
    pub(crate) fn find(&self, name: &str) -> Result<usize> {
        let found = self.each.iter().position(|info| info.name == name);
        found.ok_or_else(|| {
            let (name, names) = (short(name), self.names());
            let (have, meant) = (names.join(", "), did_you_mean(name, names.iter().copied()));
            Error::Invalid(format!("no tensor {name:?} (have: {have}){meant}"))
        })
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.each.iter().map(|info| info.name.as_str()).collect()
    }

    /// True if it is a single tensor of FP32, whose size is known, and which has values after each
    /// request.
    pub(crate) fn is_floats(&self) -> bool {
        let is_float =
            |info: &TensorInfo| info.element == Some(Element::F32) && info.bound.is_none();
        !self.has_checks && matches!(&*self.each, [info] if is_float(info))
    }

    /// Returns the tensors as in metadata: -1 is a size that data decide.
    pub(crate) fn with_open_shapes(mut self) -> Self {
        for info in &mut self.each {
            if let Some(SizeBound { axis, .. }) = info.bound {
                info.shape[axis] = -1;
            }
        }
        self
    }
}

impl TensorInfo {
    pub(crate) fn elements(&self) -> usize {
        let sizes = self.shape.iter().map(|&size| usize::try_from(size).unwrap_or_default());
        sizes.fold(1, usize::saturating_mul)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.element_bytes())
    }

    /// Bytes of one place along the axis whose size data decide, in each row before it; and the
    /// number of those rows.
    fn row_bytes(&self, axis: usize) -> (usize, usize) {
        let product = |sizes: &[i64]| {
            sizes.iter().map(|&size| usize::try_from(size).unwrap_or_default()).product::<usize>()
        };
        (product(&self.shape[axis + 1..]) * self.element_bytes(), product(&self.shape[..axis]))
    }

    /// Keeps `size` places of the axis whose size data decide.
    pub(crate) fn cut(&self, bytes: Vec<u8>, size: i64) -> Vec<u8> {
        let Some(SizeBound { axis, .. }) = self.bound else { return bytes };
        let (inner, _) = self.row_bytes(axis);
        let most = usize::try_from(self.shape[axis]).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or_default().min(most);
        let rows = bytes.chunks_exact((most * inner).max(1));
        rows.flat_map(|row| &row[..size * inner]).copied().collect()
    }

    /// Shape of an answer of this number of bytes.
    pub(crate) fn shape_of(&self, bytes: usize) -> Vec<i64> {
        let mut shape = self.shape.clone();
        if let Some(SizeBound { axis, .. }) = self.bound {
            let (inner, outer) = self.row_bytes(axis);
            shape[axis] = bytes.checked_div(inner * outer).unwrap_or_default() as i64;
        }
        shape
    }

    /// Returns the type of its numbers for clients; `None` if they see texts.
    pub(crate) fn wire_element(&self) -> Option<Element> {
        self.element.filter(|_| self.texts.is_none())
    }

    /// Bytes of an element; 0 for texts, each of which has a length of its own.
    fn element_bytes(&self) -> usize {
        self.element.map_or(0, Element::bytes)
    }

    /// Returns the protocol's name of its type.
    pub(crate) fn datatype(&self) -> &'static str {
        self.wire_element().map_or(TEXTS, datatype)
    }

    /// Returns the protocol's name of its type in configurations.
    pub(crate) fn config_type(&self) -> String {
        let name = self.wire_element().map_or("STRING", datatype);
        format!("TYPE_{name}")
    }

    /// Returns the tensor with a shape that it may have: -1 is a size that each request chooses.
    ///
    /// # Errors
    ///
    /// `Invalid` for another type or shape, with both values.
    pub(crate) fn with_shape(&self, given: &str, shape: &[i64]) -> Result<Self> {
        let is_size = |(want, given): (&i64, &i64)| *given >= 0 && [-1, *given].contains(want);
        let fits = self.shape.len() == shape.len() && self.shape.iter().zip(shape).all(is_size);
        let chosen =
            Self { shape: if fits { shape.to_vec() } else { self.shape.clone() }, ..self.clone() };
        chosen.check(given, shape).map(|()| chosen)
    }

    /// Refuses data that do not have as many elements as its shape.
    ///
    /// # Errors
    ///
    /// `Invalid`, with both numbers.
    pub(crate) fn check_data(&self, bytes: &[u8]) -> Result<()> {
        if self.wire_element().is_some() {
            return self.check_bytes(bytes.len());
        }
        let (name, want) = (&self.name, self.elements());
        let wrong = |why: String| Error::Invalid(format!("tensor {name}: {why}"));
        let count = count_texts(bytes);
        let count = count.ok_or_else(|| wrong("each text must follow its length".into()))?;
        if count == want {
            Ok(())
        } else {
            Err(wrong(format!("must have {want} texts, got {count}")))
        }
    }

    /// Refuses a tensor of another type or shape.
    ///
    /// # Errors
    ///
    /// `Invalid`, with both values.
    pub(crate) fn check(&self, given: &str, shape: &[i64]) -> Result<()> {
        let (name, want) = (&self.name, self.datatype());
        if given != want {
            let shown = short(given);
            return Err(Error::Invalid(format!(
                "tensor {name}: datatype must be {want}, got {shown:?}"
            )));
        }
        if shape != self.shape {
            let given = &shape[..shape.len().min(8)];
            let text = format!("tensor {name}: shape must be {:?}, got {given:?}", self.shape);
            return Err(Error::Invalid(text));
        }
        Ok(())
    }

    /// Refuses another number of bytes.
    ///
    /// # Errors
    ///
    /// `Invalid`, with both numbers.
    pub(crate) fn check_bytes(&self, given: usize) -> Result<()> {
        let want = self.bytes();
        if given == want {
            return Ok(());
        }
        Err(Error::Invalid(format!("tensor {}: must have {want} bytes, got {given}", self.name)))
    }
}

/// All types with the protocol's names of them.
const DATATYPES: [(Element, &str); 13] = [
    (Element::F32, "FP32"),
    (Element::F16, "FP16"),
    (Element::BF16, "BF16"),
    (Element::F64, "FP64"),
    (Element::I64, "INT64"),
    (Element::I32, "INT32"),
    (Element::I16, "INT16"),
    (Element::I8, "INT8"),
    (Element::U64, "UINT64"),
    (Element::U32, "UINT32"),
    (Element::U16, "UINT16"),
    (Element::U8, "UINT8"),
    (Element::Bool, "BOOL"),
];

/// The protocol's name of texts.
pub(crate) const TEXTS: &str = "BYTES";

fn datatype(element: Element) -> &'static str {
    let named = DATATYPES.iter().find(|(each, _)| *each == element);
    named.map_or(TEXTS, |(_, name)| name)
}

/// Returns the texts of a tensor's bytes: each follows its length, a number of 32 bits. `None` if
/// the bytes end within one.
pub(crate) fn texts(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (text, rest) = split_text(bytes)?;
        all.push(text);
        bytes = rest;
    }
    Some(all)
}

/// Returns the number of texts, as [`texts`] finds them. A list of empty ones would take four times
/// the memory of their bytes.
fn count_texts(mut bytes: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !bytes.is_empty() {
        bytes = split_text(bytes)?.1;
        count += 1;
    }
    Some(count)
}

/// Returns the first text, and the bytes after it.
fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Appends a text to a tensor's bytes. A text of 4 GiB or more is cut.
pub(crate) fn push_text(bytes: &mut Vec<u8>, text: &[u8]) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_le_bytes());
    bytes.extend(&text[..length as usize]);
}

/// Returns the places in `list` of `count` texts of a tensor's bytes.
pub(crate) fn to_places(list: &Texts, mut bytes: &[u8], count: usize) -> Vec<u8> {
    let mut places = Vec::with_capacity(count * size_of::<i64>());
    while let Some((text, rest)) = split_text(bytes) {
        let place = match std::str::from_utf8(text) {
            Ok(text) => list.place(text),
            Err(_) => list.all().len() as i64, // as all texts that are not in the list
        };
        places.extend(place.to_le_bytes());
        bytes = rest;
    }
    places
}

/// Returns the texts at places in `list` as a tensor's bytes. An unknown one is empty.
pub(crate) fn from_places(list: &Texts, places: &[u8]) -> Vec<u8> {
    let (places, _) = places.as_chunks::<8>();
    let text = |&place: &[u8; 8]| list.get(i64::from_le_bytes(place)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(places.iter().map(|place| 4 + text(place).len()).sum());
    places.iter().for_each(|place| push_text(&mut bytes, text(place).as_bytes()));
    bytes
}

/// Returns the type with this name in the protocol.
pub(crate) fn element(datatype: &str) -> Option<Element> {
    DATATYPES.iter().find(|(_, name)| *name == datatype).map(|(element, _)| *element)
}

/// Returns the beginning of a client's text, to be shown to it.
pub(crate) fn short(text: &str) -> &str {
    let end = text.char_indices().nth(64).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Encodes floats for the wire.
#[cfg(test)]
pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Decodes floats from the wire.
#[cfg(test)]
pub(crate) fn to_floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mismatch_with_model_names_both_values() {
        let model = reef::models::Model::open("resnet18").input_size(32).batch(2).read().unwrap();
        let inputs = TensorInfos::of(&model.inputs());
        let input = &inputs.each[0];
        assert_eq!((input.shape.as_slice(), input.bytes()), (&[2, 3, 32, 32][..], 24_576));
        assert_eq!(TensorInfos::of(&model.outputs()).each[0].shape, [2, 1000]);
        input.check("FP32", &[2, 3, 32, 32]).unwrap();
        let said = |datatype, shape: &[i64]| input.check(datatype, shape).unwrap_err().to_string();
        assert_eq!(inputs.find("input"), Ok(0));
        let unknown = inputs.find("data").unwrap_err().to_string();
        assert_eq!(unknown, "no tensor \"data\" (have: input)");
        let want = "tensor input: datatype must be FP32, got \"INT8\"";
        assert_eq!(said("INT8", &[2, 3, 32, 32]), want);
        let want = "tensor input: shape must be [2, 3, 32, 32], got [1, 3, 32, 32]";
        assert_eq!(said("FP32", &[1, 3, 32, 32]), want);
        let said = input.check_bytes(4).unwrap_err().to_string();
        assert_eq!(said, "tensor input: must have 24576 bytes, got 4");
    }

    #[test]
    fn datatype_names_are_unique() {
        for (each, name) in DATATYPES {
            assert_eq!((datatype(each), element(name)), (name, Some(each)));
        }
        assert_eq!(element(TEXTS), None);
    }

    #[test]
    fn texts_are_counted_as_they_are_read() {
        for bytes in [&b""[..], b"\0\0\0\0", b"\x01\0\0\0a\0\0\0\0", b"\x05\0\0\0a", b"\0\0"] {
            assert_eq!(count_texts(bytes), texts(bytes).map(|all| all.len()), "{bytes:?}");
        }
    }

    #[test]
    fn long_text_is_truncated_between_characters() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short(&"ä".repeat(100)).chars().count(), 64);
    }

    #[test]
    fn floats_survive_the_wire() {
        let values = [0.0, -1.5, f32::MAX, f32::MIN_POSITIVE];
        assert_eq!(to_floats(&to_bytes(&values)).collect::<Vec<_>>(), values);
    }
}
