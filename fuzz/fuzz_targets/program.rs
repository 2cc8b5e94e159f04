//! Kernels that come as source, behind the schedule that calls them and a line `---`: a program, or
//! an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_models::kinds::ProgramModel;

fuzz_target!(|text: &str| {
    let Some((schedule, source)) = text.split_once("\n---\n") else { return };
    let sources = [("fuzz.cu".to_owned(), source.to_owned())];
    if let Ok(model) = ProgramModel::new("fuzz", schedule, &sources, None) {
        let _ = (model.text(), model.input_bytes(), model.unguarded().count());
    }
});
