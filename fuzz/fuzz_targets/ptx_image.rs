//! Programs, fatbins, CUBINs and PTX as `reef check` reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_ptx::Image;
use reef_ptx::image::{link_form, load_form};

fuzz_target!(|bytes: &[u8]| {
    let _ = (load_form(bytes), link_form(bytes));
    if let Ok(image) = Image::read(bytes) {
        assert!(image.sources.iter().all(|source| !source.text.contains('\0')));
    }
});
