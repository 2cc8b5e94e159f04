//! ONNX: any bytes are a network or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::onnx::{Options, from_bytes};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(imported) = from_bytes(bytes, "fuzz", &Options::default()) {
        let _ = imported.model.tensors();
    }
});
