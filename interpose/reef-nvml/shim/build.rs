//! Gives the library NVIDIA's name, and makes a function of each of its names: `names.txt`, from
//! the headers of CUDA 11.8 and 13.4.

#![allow(clippy::disallowed_methods)] // of the crate's own files

use std::path::PathBuf;

/// Functions that are answered here.
const ANSWERED: [&str; 20] = [
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetConfComputeProtectedMemoryUsage",
    "nvmlDeviceGetConfComputeMemSizeInfo",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetAccountingPids",
    "nvmlDeviceGetProcessUtilization",
    "nvmlErrorString",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=names.txt");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1,-z,nodelete,-Bsymbolic");
    let names = std::fs::read_to_string("names.txt").expect("names.txt is next to build.rs");
    let names: Vec<_> = names.lines().collect();
    let strings: String = names.iter().map(|name| format!("    c\"{name}\",\n")).collect();
    let mut text =
        format!("pub(crate) const NAMES: [&std::ffi::CStr; {}] = [\n{strings}];\n", names.len());
    for (slot, name) in names.iter().enumerate() {
        if ANSWERED.contains(name) {
            text += &format!("pub(crate) const {name}: usize = {slot};\n");
        } else {
            text += &format!("thunk!({name}, {slot});\n");
        }
        if *name == "nvmlDeviceGetUUID" {
            text += &format!("pub(crate) const UUID: usize = {slot};\n");
        }
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("names.rs"), text).expect("OUT_DIR can be written");
}
