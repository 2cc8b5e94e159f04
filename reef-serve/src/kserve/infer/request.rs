//! An inference as the standard protocol asks for it.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::kserve::parameter::{Parameter, Place};
use crate::net::quota::charge::Charge;
use bytes::Bytes;

/// The header with which a client says the class of its requests that name no priority.
pub(crate) const CLASS_HEADER: &str = "reef-class";

/// A request for an inference, as both protocols read it.
#[derive(Debug, Default)]
pub(crate) struct InferRequest {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) id: String,
    pub(crate) priority: u64,
    /// Microseconds; 0 is no timeout.
    pub(crate) timeout: u64,
    /// The period and the budget that its client states, in microseconds; 0 is none.
    pub(crate) rate_us: (u64, u64),
    /// Whether an answer in a stream has to say that it is its request's last one.
    pub(crate) wants_final: bool,
    /// The client's default class.
    pub(crate) class: Option<Class>,
    /// What its bytes are charged to; the answer's are as well.
    pub(crate) charge: Option<Charge>,
    pub(crate) inputs: Vec<InputTensor>,
    /// Those that are wanted; none for all.
    pub(crate) outputs: Vec<RequestedOutput>,
    /// Whether outputs are wanted as binary data that don't say themselves.
    pub(crate) binary: bool,
}

/// An input tensor of a request.
#[derive(Debug)]
pub(crate) struct InputTensor {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) from: TensorData,
}

/// Where the data of an input tensor is.
#[derive(Debug)]
pub(crate) enum TensorData {
    Bytes(Bytes),
    Region(Place),
}

/// An output tensor that the request names.
#[derive(Debug)]
pub(crate) struct RequestedOutput {
    pub(crate) name: String,
    pub(crate) to: Option<Place>,
    /// Whether it is wanted as binary data, where a protocol has another form.
    pub(crate) binary: Option<bool>,
    /// How many of its largest values are wanted in its place; 0: all of it as it is.
    pub(crate) classes: usize,
}

impl InferRequest {
    /// Notes a parameter of the request. Those that are not known are the client's own.
    ///
    /// # Errors
    ///
    /// `Invalid`; `Unimplemented` for sequences.
    pub(crate) fn parameter(&mut self, key: &str, value: &Parameter) -> Result<()> {
        match key {
            "priority" => self.priority = value.small(key)?.into(),
            "timeout" => self.timeout = value.number(key)?,
            "reef_period_us" => self.rate_us.0 = value.number(key)?,
            "reef_budget_us" => self.rate_us.1 = value.number(key)?,
            "sequence_id" | "sequence_start" | "sequence_end" if !value.is_nothing() => {
                return Err(Error::Unimplemented(format!("parameter {key}: sequences")));
            }
            "triton_enable_empty_final_response" => self.wants_final = value.flag(key)?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_their_types() {
        let mut request = InferRequest::default();
        request.parameter("priority", &Parameter::Number(1)).unwrap();
        request.parameter("timeout", &Parameter::Number(5000)).unwrap();
        request.parameter("my own", &Parameter::Other).unwrap();
        assert_eq!((request.priority, request.timeout), (1, 5000));
        assert!(request.parameter("priority", &Parameter::Text("1".into())).is_err());
        assert!(!request.wants_final);
        request.parameter("triton_enable_empty_final_response", &Parameter::Flag(true)).unwrap();
        assert!(request.wants_final);
        assert!(
            request.parameter("triton_enable_empty_final_response", &Parameter::Number(1)).is_err()
        );
        for (key, value) in [
            ("sequence_id", Parameter::Number(7)),
            ("sequence_id", Parameter::Text("a".into())),
            ("sequence_start", Parameter::Flag(true)),
            ("sequence_end", Parameter::Flag(true)),
        ] {
            let said = request.parameter(key, &value).unwrap_err();
            assert_eq!(said, Error::Unimplemented(format!("parameter {key}: sequences")));
        }
        request.parameter("sequence_start", &Parameter::Flag(false)).unwrap();
        request.parameter("sequence_id", &Parameter::Number(0)).unwrap();
    }
}
