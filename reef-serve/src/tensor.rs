//! What a model takes and gives, and checking what a client says about it.

use crate::error::{Error, Result};
use reef::models::{Port, Ports};
use reef::tensor::Element;

/// A tensor's name, type and shape, and where it lies among a model's inputs or outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    pub(crate) name: String,
    pub(crate) element: Element,
    pub(crate) shape: Vec<i64>,
    /// Its first byte.
    pub(crate) offset: usize,
}

/// All inputs or all outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorInfos {
    pub(crate) each: Vec<TensorInfo>,
    /// Of all, and of what lies between them.
    pub(crate) bytes: usize,
}

impl TensorInfos {
    pub(crate) fn of(ports: &Ports) -> Self {
        let info = |(offset, port): (usize, &Port)| TensorInfo {
            name: port.name.clone(),
            element: port.spec.element,
            shape: port.spec.dims.iter().map(|&size| size as i64).collect(),
            offset,
        };
        Self { each: ports.iter().map(info).collect(), bytes: ports.bytes() }
    }

    /// The number of a tensor, by its name.
    ///
    /// # Errors
    ///
    /// `Invalid` with the names that there are.
    pub(crate) fn find(&self, name: &str) -> Result<usize> {
        let found = self.each.iter().position(|info| info.name == name);
        let have = || self.names().join(", ");
        found.ok_or_else(|| {
            Error::Invalid(format!("no tensor {:?} (have: {})", short(name), have()))
        })
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.each.iter().map(|info| info.name.as_str()).collect()
    }

    /// Whether it is a single tensor of FP32.
    pub(crate) fn is_floats(&self) -> bool {
        matches!(&*self.each, [info] if info.element == Element::F32)
    }
}

impl TensorInfo {
    pub(crate) fn elements(&self) -> usize {
        let sizes = self.shape.iter().map(|&size| usize::try_from(size).unwrap_or_default());
        sizes.fold(1, usize::saturating_mul)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.element.bytes())
    }

    /// Its type as the protocol calls it.
    pub(crate) fn datatype(&self) -> &'static str {
        datatype(self.element)
    }

    /// Refuses a tensor of another type or shape.
    ///
    /// # Errors
    ///
    /// `Invalid` with both.
    pub(crate) fn check(&self, given: &str, shape: &[i64]) -> Result<()> {
        let (name, want) = (&self.name, self.datatype());
        if given != want {
            let shown = short(given);
            return Err(Error::Invalid(format!("tensor {name}: datatype {shown:?}, it is {want}")));
        }
        if shape != self.shape {
            let given = &shape[..shape.len().min(8)];
            let text = format!("tensor {name}: shape {given:?}, it is {:?}", self.shape);
            return Err(Error::Invalid(text));
        }
        Ok(())
    }

    /// Refuses another number of bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` with both.
    pub(crate) fn check_bytes(&self, given: usize) -> Result<()> {
        let want = self.bytes();
        if given == want {
            return Ok(());
        }
        Err(Error::Invalid(format!("tensor {}: {given} bytes given, {want} wanted", self.name)))
    }
}

/// All types, with the protocol's names of them.
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

fn datatype(element: Element) -> &'static str {
    let named = DATATYPES.iter().find(|(each, _)| *each == element);
    named.map_or("BYTES", |(_, name)| name)
}

/// The type that the protocol calls so.
pub(crate) fn element(datatype: &str) -> Option<Element> {
    DATATYPES.iter().find(|(_, name)| *name == datatype).map(|(element, _)| *element)
}

/// The beginning of a client's text, to be shown to it.
pub(crate) fn short(text: &str) -> &str {
    let end = text.char_indices().nth(64).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Floats as the wire has them.
#[cfg(test)]
pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What the wire has, as floats.
#[cfg(test)]
pub(crate) fn to_floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_the_model_is_named() {
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
        let want = "tensor input: datatype \"INT8\", it is FP32";
        assert_eq!(said("INT8", &[2, 3, 32, 32]), want);
        let want = "tensor input: shape [1, 3, 32, 32], it is [2, 3, 32, 32]";
        assert_eq!(said("FP32", &[1, 3, 32, 32]), want);
        let said = input.check_bytes(4).unwrap_err().to_string();
        assert_eq!(said, "tensor input: 4 bytes given, 24576 wanted");
    }

    #[test]
    fn every_type_has_a_name_of_its_own() {
        for (each, name) in DATATYPES {
            assert_eq!((datatype(each), element(name)), (name, Some(each)));
        }
        assert_eq!(element("BYTES"), None);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short(&"ä".repeat(100)).chars().count(), 64);
    }

    #[test]
    fn floats_survive_the_wire() {
        let values = [0.0, -1.5, f32::MAX, f32::MIN_POSITIVE];
        assert_eq!(to_floats(&to_bytes(&values)).collect::<Vec<_>>(), values);
    }
}
