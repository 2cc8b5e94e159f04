//! Request for an inference of the standard protocol.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::kserve::parameter::{Parameter, RegionPart};
use crate::name::excerpt;
use crate::net::quota::charge::Charge;
use crate::requests::device_memory::DeviceSlice;
use bytes::Bytes;
use reef::did_you_mean;

/// Header with the default class of a client's requests.
pub(crate) const CLASS_HEADER: &str = "reef-class";

/// Parameters whose names begin as no client's own may.
const RESERVED: [&str; 3] =
    ["reef_period_us", "reef_budget_us", "triton_enable_empty_final_response"];

/// Request for an inference, common to both protocols.
#[derive(Debug, Default)]
pub(crate) struct InferRequest {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) id: String,
    pub(crate) priority: u64,
    /// Timeout in microseconds; 0 is none.
    pub(crate) timeout: u64,
    /// Period and budget that its client states, in microseconds; 0 is none.
    pub(crate) rate_us: (u64, u64),
    /// True if an answer in a stream must mark itself as its request's last one.
    pub(crate) has_final_marker: bool,
    /// Default class of the client.
    pub(crate) class: Option<Class>,
    /// Sequence that it is a part of.
    pub(crate) sequence: SequenceParameters,
    /// Charge for the bytes of request and answer.
    pub(crate) charge: Option<Charge>,
    pub(crate) inputs: Vec<InputTensor>,
    /// Requested outputs; empty for all.
    pub(crate) outputs: Vec<RequestedOutput>,
    /// Default form of outputs: whether they are binary data.
    pub(crate) is_binary: bool,
}

/// Parameters of a request of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SequenceParameters {
    pub(crate) id: Option<String>,
    pub(crate) starts: bool,
    pub(crate) ends: bool,
}

/// An input tensor of a request.
#[derive(Debug)]
pub(crate) struct InputTensor {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) from: TensorData,
}

/// Data of an input tensor.
#[derive(Debug)]
pub(crate) enum TensorData {
    Bytes(Bytes),
    Region(RegionPart),
    /// State of its sequence.
    State(DeviceSlice),
    /// State that its sequence begins with: as many as the network takes, once there is one.
    Zeros,
}

/// An output tensor that the request names.
#[derive(Debug)]
pub(crate) struct RequestedOutput {
    pub(crate) name: String,
    pub(crate) to: Option<RegionPart>,
    /// True if it is binary data, where the protocol has another form.
    pub(crate) is_binary: Option<bool>,
    /// Number of its largest values to return in its place; 0 is the output itself.
    pub(crate) classes: usize,
}

impl InferRequest {
    /// Applies a parameter of the request. Unknown ones are the client's own, unless their names
    /// begin as those of this server and of Triton do.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(crate) fn parameter(&mut self, key: &str, value: &Parameter) -> Result<()> {
        match key {
            "priority" => self.priority = value.small(key)?.into(),
            "timeout" => self.timeout = value.number(key)?,
            "reef_period_us" => self.rate_us.0 = value.number(key)?,
            "reef_budget_us" => self.rate_us.1 = value.number(key)?,
            "sequence_id" if !value.is_absent() => self.sequence.id = value.id(key)?,
            "sequence_start" if !value.is_absent() => self.sequence.starts = value.flag(key)?,
            "sequence_end" if !value.is_absent() => self.sequence.ends = value.flag(key)?,
            "triton_enable_empty_final_response" => self.has_final_marker = value.flag(key)?,
            _ => check_own(key)?,
        }
        Ok(())
    }
}

/// Refuses the name of a parameter that begins as no client's own may.
fn check_own(key: &str) -> Result<()> {
    if !["reef_", "triton_"].iter().any(|begin| key.starts_with(begin)) {
        return Ok(());
    }
    let (key, have, meant) = (excerpt(key), RESERVED.join(", "), did_you_mean(key, RESERVED));
    Err(Error::Invalid(format!("parameter {key}: unknown (have: {have}){meant}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_of_wrong_type_is_refused() {
        let mut request = InferRequest::default();
        request.parameter("priority", &Parameter::Number(1)).unwrap();
        request.parameter("timeout", &Parameter::Number(5000)).unwrap();
        request.parameter("my own", &Parameter::Other).unwrap();
        assert_eq!((request.priority, request.timeout), (1, 5000));
        let said = request.parameter("reef_perod_us", &Parameter::Number(1)).unwrap_err();
        let said = said.to_string();
        assert!(said.starts_with("parameter reef_perod_us: unknown (have: reef_"), "{said}");
        assert!(said.ends_with("): did you mean reef_period_us?"), "{said}");
        assert!(request.parameter("triton_x", &Parameter::Number(1)).is_err());
        assert!(request.parameter("priority", &Parameter::Text("1".into())).is_err());
        assert!(!request.has_final_marker);
        request.parameter("triton_enable_empty_final_response", &Parameter::Flag(true)).unwrap();
        assert!(request.has_final_marker);
        assert!(
            request.parameter("triton_enable_empty_final_response", &Parameter::Number(1)).is_err()
        );
    }

    #[test]
    fn sequence_of_a_request_is_read() {
        let mut request = InferRequest::default();
        for (key, value) in [
            ("sequence_start", Parameter::Flag(false)),
            ("sequence_id", Parameter::Number(0)),
            ("sequence_id", Parameter::Text(String::new())),
        ] {
            request.parameter(key, &value).unwrap();
        }
        assert_eq!(request.sequence, SequenceParameters::default());
        request.parameter("sequence_id", &Parameter::Number(7)).unwrap();
        request.parameter("sequence_start", &Parameter::Flag(true)).unwrap();
        let started = SequenceParameters { id: Some("7".into()), starts: true, ends: false };
        assert_eq!(request.sequence, started);
        request.parameter("sequence_id", &Parameter::Text("a".into())).unwrap();
        assert_eq!(request.sequence.id.as_deref(), Some("a"));
        assert!(request.parameter("sequence_end", &Parameter::Number(1)).is_err());
        let said = request.parameter("sequence_id", &Parameter::Other).unwrap_err().to_string();
        assert!(said.starts_with("parameter sequence_id: must be a positive integer or a text"));
    }
}
