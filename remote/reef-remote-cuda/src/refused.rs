//! Functions that are not there: each says its name once, and does nothing.

#![allow(missing_docs, non_snake_case)]

use crate::state::lock::lock;
use reef_cuda_abi::codes::NOT_SUPPORTED;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::Mutex;

/// Says, once, that a function or a use of one is not supported.
pub(crate) fn refuse(what: &CStr) -> u32 {
    static SAID: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    if lock(&SAID).insert(what.to_bytes().to_vec()) {
        eprintln!("reef: {} is not supported on a remote device", what.to_string_lossy());
    }
    NOT_SUPPORTED
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
