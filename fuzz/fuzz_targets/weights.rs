//! Files of weights: any bytes are tensors or an error, within the memory that the reader was
//! given. The first byte says of which kind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::param::Params;
use reef_models::{Budget, safetensors};

/// Memory limit, as `-malloc_limit_mb` and `-rss_limit_mb` of tools/fuzz.sh set it.
const BUDGET: u64 = 32 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let budget = Budget::new(BUDGET);
    match kind % 2 {
        0 => drop(safetensors::from_bytes(bytes, "fuzz", &budget)),
        _ => drop(Params::from_bytes(bytes, &budget)),
    }
});
