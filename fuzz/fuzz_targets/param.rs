//! Weights: any bytes are `.param` or an error, and what is accepted is written as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::Budget;
use reef_models::param::Params;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(params) = Params::from_bytes(bytes, &Budget::default()) {
        let written = params.to_bytes().expect("what was read can be written");
        let again = Params::from_bytes(&written, &Budget::default()).expect("what was written can be read");
        assert_eq!(again.to_bytes().expect("as before"), written);
    }
});
