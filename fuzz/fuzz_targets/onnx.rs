//! ONNX: any bytes are a network or an error, within the memory that the reader was given.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::Budget;
use reef_models::onnx::{Options, TensorOptions, from_bytes_within, tensors_from_bytes};

/// Memory limit, as `-malloc_limit_mb` and `-rss_limit_mb` of tools/fuzz.sh set it.
const BUDGET: u64 = 32 << 20;

fuzz_target!(|bytes: &[u8]| {
    let budget = Budget::new(BUDGET);
    if let Ok(imported) = from_bytes_within(bytes, "fuzz", &Options::default(), &budget) {
        let _ = imported.model.tensors();
    }
    let budget = Budget::new(BUDGET); // what the first reader took is its network's
    if let Ok(model) = tensors_from_bytes(bytes, "fuzz", &TensorOptions::default(), &budget) {
        let _ = model.arena();
    }
});
