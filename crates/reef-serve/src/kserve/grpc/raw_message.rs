//! Messages that have arrived and are not decoded yet.
//!
//! Decoding can create structures a hundred times as large as the message: two bytes are an empty
//! tensor. So the thread that reads the connection keeps the messages of inferences as bytes. Their
//! decoded size is computed, and charged or refused, before they are decoded, long ones on a worker
//! thread.

use crate::error::{Error, Result};
use crate::kserve::parameter::MAX_TEXT_BYTES;
use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{
    DecodeContext, WireType, check_wire_type, decode_key, decode_varint, skip_field,
};
use prost::{DecodeError, Message};

/// Maximum number of tensors, parameters, dimensions and contents in a message: enough for 1,024
/// inputs of four dimensions with their names and types, and as many outputs.
const MAX_ENTRIES: usize = 16_384;

/// Fields with a map of parameters, of inference.proto; no message has the last.
const PARAMETERS_OF_INFER: u32 = 4;
const PARAMETERS_OF_LOAD: u32 = 3;
const PARAMETERS_OF_INPUT: u32 = 4;
const PARAMETERS_OF_OUTPUT: u32 = 2;
const NO_MAP: u32 = 0;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RawMessage(pub(crate) Bytes);

impl Message for RawMessage {
    fn decode(mut buf: impl Buf) -> Result<Self, DecodeError> {
        Ok(Self(buf.copy_to_bytes(buf.remaining())))
    }

    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        kind: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(kind, tag, buf, context) // never called: it decodes no fields
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl RawMessage {
    /// Returns the bytes that a decoded `ModelInferRequest` takes in addition to the message, which
    /// it shares.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is not one, has more entries than a request needs, or has an id, a name or a
    /// parameter of more than [`MAX_TEXT_BYTES`], which would be copied.
    pub(crate) fn decoded_bytes(&self) -> Result<u64> {
        let (mut entries, mut bytes) = (0, 0);
        fields(&self.0, PARAMETERS_OF_INFER, &mut |tag, field| {
            count_entry(&mut entries)?;
            match tag {
                1..=3 => check_text(field),
                PARAMETERS_OF_INFER => parameter(field, &mut entries),
                5 => input(field, &mut entries, &mut bytes),
                6 => output(field, &mut entries),
                _ => Ok(()),
            }
        })?;
        Ok(bytes)
    }

    /// Refuses a `RepositoryModelLoadRequest` with too many fields.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(crate) fn check_entries(&self) -> Result<()> {
        let mut entries = 0;
        fields(&self.0, PARAMETERS_OF_LOAD, &mut |_, _| count_entry(&mut entries))
    }

    /// Decodes it as a message type.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(crate) fn decode_as<M: Message + Default>(self) -> Result<M> {
        M::decode(self.0).map_err(|e| wrong(&e))
    }
}

/// Counts an entry of a map of parameters: its name (1) and its value (2), which is a message.
fn parameter(entry: &[u8], entries: &mut usize) -> Result<()> {
    fields(entry, NO_MAP, &mut |tag, field| {
        count_entry(entries)?;
        match tag {
            1 => check_text(field),
            2 => fields(field, NO_MAP, &mut |_, value| check_text(value)),
            _ => Ok(()),
        }
    })
}

/// Counts an `InferRequestedOutputTensor`: its name (1) and parameters (2).
fn output(message: &[u8], entries: &mut usize) -> Result<()> {
    fields(message, PARAMETERS_OF_OUTPUT, &mut |tag, field| {
        count_entry(entries)?;
        match tag {
            1 => check_text(field),
            PARAMETERS_OF_OUTPUT => parameter(field, &mut 0), // it is one entry
            _ => Ok(()),
        }
    })
}

/// Counts an `InferInputTensor`: its name (1), datatype (2), shape (3), parameters (4) and contents
/// (5).
fn input(message: &[u8], entries: &mut usize, bytes: &mut u64) -> Result<()> {
    fields(message, PARAMETERS_OF_INPUT, &mut |tag, field| {
        count_entry(entries)?;
        match tag {
            1 | 2 => check_text(field),
            3 => {
                *entries += field.len(); // a dimension takes at least a byte
                count_entry(entries)
            }
            PARAMETERS_OF_INPUT => parameter(field, entries),
            5 => fields(field, NO_MAP, &mut |tag, field| contents(tag, field, entries, bytes)),
            _ => Ok(()),
        }
    })
}

/// Counts a field of `InferTensorContents`: numbers of at least a byte each, except field 8 with
/// texts.
fn contents(tag: u32, field: &[u8], entries: &mut usize, bytes: &mut u64) -> Result<()> {
    *bytes += field.len() as u64
        * match tag {
            2 | 4 => 4,
            3 | 5 => 8,
            _ => 1,
        };
    if tag == 8 { count_entry(entries) } else { Ok(()) }
}

fn count_entry(entries: &mut usize) -> Result<()> {
    *entries += 1;
    if *entries <= MAX_ENTRIES {
        return Ok(());
    }
    let text = "tensors, parameters, dimensions and texts of a request must be at most";
    Err(Error::Invalid(format!("{text} {MAX_ENTRIES}")))
}

fn check_text(text: &[u8]) -> Result<()> {
    let bytes = text.len();
    if bytes <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let text = "ids, names and parameters of a request must have at most";
    Err(Error::Invalid(format!("{text} {MAX_TEXT_BYTES} bytes each, got {bytes}")))
}

/// Calls `see` for each field of a message, with its tag and its bytes without the length. The
/// field `map` must have entries: `prost` decodes it as such whatever its type says, and would go
/// on at another byte than this function.
fn fields(mut rest: &[u8], map: u32, see: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
    while !rest.is_empty() {
        let (tag, kind) = decode_key(&mut rest).map_err(|e| wrong(&e))?;
        if tag == map {
            check_wire_type(WireType::LengthDelimited, kind).map_err(|e| wrong(&e))?;
        }
        let field = match kind {
            WireType::LengthDelimited => {
                let length = decode_varint(&mut rest).map_err(|e| wrong(&e))?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let (field, after) = rest
                    .split_at_checked(length)
                    .ok_or_else(|| wrong(&"it must not be truncated"))?;
                rest = after;
                field
            }
            kind => {
                let from = rest;
                skip_field(kind, tag, &mut rest, DecodeContext::default())
                    .map_err(|e| wrong(&e))?;
                &from[..from.len() - rest.len()]
            }
        };
        see(tag, field)?;
    }
    Ok(())
}

fn wrong(why: &dyn std::fmt::Display) -> Error {
    Error::Invalid(format!("message: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kserve::grpc::proto::infer_parameter::ParameterChoice;
    use crate::kserve::grpc::proto::model_infer_request::{
        InferInputTensor, InferRequestedOutputTensor,
    };
    use crate::kserve::grpc::proto::{InferParameter, InferTensorContents, ModelInferRequest};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn undecoded(request: &ModelInferRequest) -> RawMessage {
        RawMessage(request.encode_to_vec().into())
    }

    fn with(contents: InferTensorContents) -> ModelInferRequest {
        let input = InferInputTensor { contents: Some(contents), ..InferInputTensor::default() };
        ModelInferRequest { inputs: vec![input], ..ModelInferRequest::default() }
    }

    #[test]
    fn decoded_size_is_known_before_decoding() {
        let floats = InferTensorContents { fp32_contents: vec![0.5; 1000], ..Default::default() };
        assert_eq!(undecoded(&with(floats)).decoded_bytes(), Ok(4000));
        let numbers = InferTensorContents { int64_contents: vec![1; 1000], ..Default::default() };
        assert_eq!(undecoded(&with(numbers)).decoded_bytes(), Ok(8000));
        let raw = ModelInferRequest {
            raw_input_contents: vec![vec![0; 1 << 20].into()],
            ..ModelInferRequest::default()
        };
        assert_eq!(undecoded(&raw).decoded_bytes(), Ok(0), "they are shared");
        assert_eq!(undecoded(&raw).decode_as(), Ok(raw));
    }

    #[test]
    fn message_with_many_small_entries_is_refused() {
        let empty = InferInputTensor::default();
        let shape = InferInputTensor { shape: vec![1; 20_000], ..empty.clone() };
        for inputs in [vec![empty; 20_000], vec![shape]] {
            let request = ModelInferRequest { inputs, ..ModelInferRequest::default() };
            let said = undecoded(&request).decoded_bytes().unwrap_err().to_string();
            assert!(said.ends_with("must be at most 16384"), "{said}");
        }
        let raw_input_contents = vec![Bytes::new(); 20_000];
        let request = ModelInferRequest { raw_input_contents, ..ModelInferRequest::default() };
        assert!(undecoded(&request).decoded_bytes().is_err());
        let bytes_contents = vec![Bytes::new(); 20_000];
        let texts = InferTensorContents { bytes_contents, ..Default::default() };
        assert!(undecoded(&with(texts)).decoded_bytes().is_err());
    }

    #[test]
    fn request_of_1024_tensors_each_way_is_read() {
        let input = InferInputTensor {
            name: "past_key_values.511.value".into(),
            datatype: "FP32".into(),
            shape: vec![1, 300, 1000, 64],
            ..InferInputTensor::default()
        };
        let output = InferRequestedOutputTensor {
            name: "present.511.value".into(),
            ..InferRequestedOutputTensor::default()
        };
        let request = ModelInferRequest {
            inputs: vec![input; 1024],
            outputs: vec![output; 1024],
            raw_input_contents: vec![Bytes::new(); 1024],
            ..ModelInferRequest::default()
        };
        assert_eq!(undecoded(&request).decoded_bytes(), Ok(0));
    }

    #[test]
    fn message_with_a_long_text_is_refused() {
        let parameter = |text: &str| InferParameter {
            parameter_choice: Some(ParameterChoice::StringParam(text.into())),
        };
        let named = |name: &str, text: &str| HashMap::from([(name.to_owned(), parameter(text))]);
        let each = |text: &str| {
            let (none, text) = (ModelInferRequest::default(), text.to_owned());
            let input = InferInputTensor { name: text.clone(), ..InferInputTensor::default() };
            let typed = InferInputTensor { datatype: text.clone(), ..InferInputTensor::default() };
            let output = InferRequestedOutputTensor {
                name: text.clone(),
                ..InferRequestedOutputTensor::default()
            };
            let to = InferRequestedOutputTensor {
                parameters: named("region", &text),
                ..InferRequestedOutputTensor::default()
            };
            [
                ModelInferRequest { id: text.clone(), ..none.clone() },
                ModelInferRequest { model_name: text.clone(), ..none.clone() },
                ModelInferRequest { parameters: named(&text, "x"), ..none.clone() },
                ModelInferRequest { parameters: named("x", &text), ..none.clone() },
                ModelInferRequest { inputs: vec![input], ..none.clone() },
                ModelInferRequest { inputs: vec![typed], ..none.clone() },
                ModelInferRequest { outputs: vec![output], ..none.clone() },
                ModelInferRequest { outputs: vec![to], ..none },
            ]
        };
        for request in each(&"x".repeat(MAX_TEXT_BYTES)) {
            assert_eq!(undecoded(&request).decoded_bytes(), Ok(0));
        }
        for request in each(&"x".repeat(MAX_TEXT_BYTES + 1)) {
            let said = undecoded(&request).decoded_bytes().unwrap_err().to_string();
            assert!(said.ends_with("must have at most 4096 bytes each, got 4097"), "{said}");
        }
    }

    /// `prost` reads the entry of a map whatever the type of its field: a type of fixed length
    /// would hide what comes after eight bytes.
    #[test]
    fn map_of_another_type_is_refused() {
        let hidden = |tag: u32| {
            let tensors = vec![InferInputTensor::default(); MAX_ENTRIES + 1];
            let tensors = ModelInferRequest { inputs: tensors, ..Default::default() };
            let tensors = tensors.encode_to_vec();
            let fixed_length = (tag << 3 | WireType::SixtyFourBit as u32) as u8;
            let unknown = (15 << 3 | WireType::LengthDelimited as u32) as u8;
            let mut len = Vec::new();
            prost::encoding::encode_varint(tensors.len() as u64, &mut len);
            let hidden = 6 + len.len() as u8;
            // As a fixed length, these are eight bytes and an unknown field with all tensors; as a
            // map, an entry with an unknown field of so many that only the tensors follow.
            let map = [fixed_length, hidden + 2, unknown, hidden, 0, 0, 0, 0, 0, unknown];
            [&map[..], &len, &tensors].concat()
        };
        let message = RawMessage(hidden(PARAMETERS_OF_INFER).into());
        let decoded = message.clone().decode_as::<ModelInferRequest>();
        assert!(decoded.is_ok_and(|d| d.inputs.len() > MAX_ENTRIES), "it would be decoded");
        let said = message.decoded_bytes().unwrap_err().to_string();
        assert!(said.contains("wire type"), "{said}");
        let load = RawMessage(hidden(PARAMETERS_OF_LOAD).into());
        assert!(load.check_entries().is_err());
    }

    proptest! {
        /// Any message that prost decodes is accepted by the count, but for maps of another type.
        #[test]
        fn random_message_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let undecoded = RawMessage(bytes.into());
            if undecoded.clone().decode_as::<ModelInferRequest>().is_ok()
                && let Err(error) = undecoded.decoded_bytes()
            {
                prop_assert!(error.to_string().contains("wire type"), "{error}");
            }
        }
    }
}
