//! Kernels that a compiler made, against the same computation here.

use crate::common::{Kernel, Mapped};

#[test]
fn vadd_adds_and_leaves_what_is_past_the_end() {
    let kernel = Kernel::load(include_bytes!("../kernels/vadd.hsaco"), "vadd");
    let n = 1000;
    let a: Vec<f32> = (0..n).map(|k| k as f32 * 0.5).collect();
    let b: Vec<f32> = (0..n).map(|k| 3.0 - k as f32).collect();
    let mut c = vec![-1f32; 1024];
    let mut memory = Mapped::default();
    let arguments = [memory.map(&a), memory.map(&b), memory.map_mut(&mut c), n as u64];
    kernel.launch(&mut memory, [4, 1, 1], [256, 1, 1], &arguments).expect("runs");
    for k in 0..1024 {
        let expected = if k < n { a[k] + b[k] } else { -1.0 };
        assert_eq!(c[k], expected, "at {k}");
    }
}

#[test]
fn gemm_through_shared_memory_is_the_product() {
    let kernel = Kernel::load(include_bytes!("../kernels/gemm.hsaco"), "gemm");
    let (m, n, k) = (33, 18, 41);
    let a: Vec<f32> = (0..m * k).map(|at| (at % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..k * n).map(|at| (at % 5) as f32 * 0.25).collect();
    let mut c = vec![0f32; m * n];
    let mut memory = Mapped::default();
    let sizes = [m as u64 | (n as u64) << 32, k as u64];
    let arguments = [memory.map(&a), memory.map(&b), memory.map_mut(&mut c), sizes[0], sizes[1]];
    kernel.launch(&mut memory, [2, 3, 1], [16, 16, 1], &arguments).expect("runs");
    for row in 0..m {
        for col in 0..n {
            let sum: f32 = (0..k).map(|at| a[row * k + at] * b[at * n + col]).sum();
            assert_eq!(c[row * n + col], sum, "at {row}, {col}");
        }
    }
}

#[test]
fn unmapped_memory_is_a_fault_with_address_and_mnemonic() {
    let kernel = Kernel::load(include_bytes!("../kernels/vadd.hsaco"), "vadd");
    let a = vec![0f32; 64];
    let mut memory = Mapped::default();
    let arguments = [memory.map(&a), 0x1000, 0x2000, 64];
    let fault = kernel.launch(&mut memory, [1, 1, 1], [64, 1, 1], &arguments).expect_err("faults");
    assert!(fault.instruction.starts_with("global_load_dword"), "{fault:?}");
    assert!(fault.why.contains("not mapped"), "{fault:?}");
}
