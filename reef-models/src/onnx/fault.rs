//! Faults of a file, with their places.

use super::protobuf::Malformed;
use crate::errors::error::Error;
use crate::memory::ledger::Ledger;

/// Result with a fault in words that follow the name of a node or a tensor.
pub(super) type Result<T, E = String> = std::result::Result<T, E>;

/// A fault and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: String,
    pub(super) why: String,
}

impl Fault {
    pub(super) fn at_node(name: &str, op: &str, why: String) -> Self {
        Self { at: format!("node {name:?} ({op})"), why }
    }

    pub(super) fn at_input(name: &str, why: String) -> Self {
        Self { at: format!("input {name:?}"), why }
    }

    /// Fault of bytes that are not an ONNX file.
    pub(super) fn no_file(why: String) -> Self {
        Self { at: "no ONNX file".into(), why }
    }

    pub(super) fn of_graph(why: String) -> Self {
        Self { at: "graph".into(), why }
    }

    /// As an error of `file`, whose reader charged `ledger`.
    pub(super) fn of(self, file: String, ledger: &Ledger) -> Error {
        match ledger.refusal() {
            Some(why) => Error::Memory { file, at: self.at, why },
            None if is_unsupported(&self.why) => {
                Error::Unsupported { file, at: self.at, why: self.why }
            }
            None => Error::Onnx { file, at: self.at, why: self.why },
        }
    }
}

impl From<Malformed> for Fault {
    fn from(Malformed(why): Malformed) -> Self {
        Self::no_file(why)
    }
}

/// End of each fault by what isn't read.
const UNSUPPORTED: &str = " not supported";

/// Remedy that may follow.
const REMEDY: &str = ": run the file by another engine, under `reef exec`";

/// End of each fault by what REEF reads within bounds of its own.
const BEYOND: &str = ", or run the file by another engine";

/// A refusal of what is beyond a bound of REEF's, and not of ONNX's.
pub(super) fn beyond(what: &str) -> String {
    format!("{what}{BEYOND}")
}

/// A refusal of what isn't read, with its remedy.
pub(super) fn unsupported(what: &str) -> String {
    format!("{what}{UNSUPPORTED}{REMEDY}")
}

/// The remedy for an operator of a kind that no device computes.
pub(super) fn remedy(domain: &str, op: &str) -> Option<&'static str> {
    if domain == "ai.onnx.contrib" {
        return Some(
            "it is one of onnxruntime-extensions, for texts, images and sounds: let the client do \
             it, and begin the file behind it",
        );
    }
    Some(match op {
        "RegexFullMatch" | "StringConcat" | "StringNormalizer" | "StringSplit" | "Tokenizer" => {
            "it reads texts: let the client do it, and begin the file with the numbers"
        }
        "Bernoulli" | "Multinomial" | "RandomNormal" | "RandomNormalLike" | "RandomUniform"
        | "RandomUniformLike" => "its numbers are random: make them an input of the file",
        "BeamSearch" | "GreedySearch" | "Sampling" | "WhisperBeamSearch" => {
            "it runs a network for each token: export that network, and let the client choose tokens"
        }
        "ImageDecoder" => {
            "it decodes images: let the client do it, and begin the file with their pixels"
        }
        "PackedAttention" | "PackedMultiHeadAttention" | "RemovePadding" | "RestorePadding" => {
            "it leaves out the padding of a batch: save the file before it is optimized so"
        }
        "DecoderMaskedMultiHeadAttention" | "DecoderMaskedSelfAttention" => {
            "it writes into the cache that it reads: export the file with a past and a present"
        }
        "EPContext" => {
            "it has a network for one device: save the file before it is compiled for one"
        }
        _ => return None,
    })
}

/// True if a fault is a refusal of what isn't read. Names from a file don't end a fault.
fn is_unsupported(why: &str) -> bool {
    why.strip_suffix(REMEDY).unwrap_or(why).ends_with(UNSUPPORTED) || why.ends_with(BEYOND)
}

/// A list in an error: its first values, and how many there are.
pub(super) fn few<T: std::fmt::Debug>(values: &[T]) -> String {
    match values {
        [first @ .., _] if first.len() >= FEW => {
            format!("{:?}, … ({})", &values[..FEW], values.len())
        }
        _ => format!("{values:?}"),
    }
}

/// Values of a list that an error shows.
const FEW: usize = 8;
