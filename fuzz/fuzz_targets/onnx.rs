//! ONNX: any bytes are a network or an error, within the memory that the reader was given.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::Model;

/// Memory limit, as `-malloc_limit_mb` and `-rss_limit_mb` of tools/fuzz.sh set it.
const BUDGET: u64 = 32 << 20;

fuzz_target!(|bytes: &[u8]| {
    let open = || Model::from_onnx(bytes, "fuzz").memory_limit(BUDGET);
    if let Ok(model) = open().images_only().read() {
        let _ = model.image().expect("as asked").0.tensors();
    }
    if let Ok(model) = open().tensors_only().read() {
        let _ = model.tensors().expect("as asked").arena();
    }
});
