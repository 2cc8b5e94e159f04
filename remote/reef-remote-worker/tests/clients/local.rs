//! Calls that the client's library answers by itself.

use crate::alone::wait_for_turn;
use crate::common::{self, call};
use crate::support::{client, serve, socket};
use std::ffi::{CStr, c_char};

#[test]
fn option_of_one_image_of_a_link_is_refused() {
    let _one = wait_for_turn();
    let driver = client("link-options");
    let address = serve(&socket("link-options"));
    // SAFETY: one test at a time reads or writes the environment.
    unsafe { std::env::set_var("REEF_REMOTE", &address) };
    assert_eq!(call!(driver, cuInit(0)), 0);
    let (mut link, option, value) = (0_usize, 0_u32, 32_usize); // CU_JIT_MAX_REGISTERS
    let (names, values) = (&raw const option, &raw const value);
    assert_eq!(call!(driver, cuLinkCreate_v2(0, 0, 0, &raw mut link)), 0);
    let text = c".version 8.0\n.target sm_70\n";
    let (data, bytes) = (text.as_ptr(), text.to_bytes_with_nul().len());
    let add = |count: usize| {
        call!(driver, cuLinkAddData_v2(link, 1, data, bytes, 0, count, names, values))
    };
    assert_eq!([add(1), add(0)], [801, 0]);
    let path = c"/no/such/file".as_ptr();
    let add_file =
        |count: usize| call!(driver, cuLinkAddFile_v2(link, 1, path, count, names, values));
    assert_eq!([add_file(1), add_file(0)], [801, 301]);
    assert_eq!(call!(driver, cuLinkDestroy(link)), 0);
}

#[test]
fn host_memory_and_errors_are_answered_here() {
    let _one = wait_for_turn();
    let driver = client("local");
    let address = serve(&socket("local"));
    // SAFETY: one test at a time reads or writes the environment.
    unsafe { std::env::set_var("REEF_REMOTE", &address) };
    assert_eq!(call!(driver, cuInit(0)), 0);
    let (mut at, mut flags) = (0_usize, 9_u32);
    assert_eq!(call!(driver, cuMemHostAlloc(&raw mut at, 100, 3)), 0);
    assert_eq!(call!(driver, cuMemHostGetFlags(&raw mut flags, at)), 0);
    assert_eq!(flags, 3);
    assert_eq!(call!(driver, cuMemHostRegister_v2(at, 10, 0)), 712);
    assert_eq!(call!(driver, cuMemFreeHost(at)), 0);
    assert_eq!(call!(driver, cuMemFreeHost(at)), 1);
    let mut name = [0_u8; 8];
    assert_eq!(call!(driver, cuDeviceGetName(name.as_mut_ptr(), 8, 0)), 0);
    assert_eq!(&name[..5], b"fake\0");
    let mut text: *const c_char = std::ptr::null();
    assert_eq!(call!(driver, cuGetErrorName(1, &raw mut text)), 0);
    // SAFETY: a text of the library's.
    let text = unsafe { CStr::from_ptr(text) };
    assert_eq!(text, c"CUDA_ERROR_OF_THE_FAKE");
    assert_eq!(call!(driver, cuDeviceGet(&raw mut flags, 5)), 101);
}
