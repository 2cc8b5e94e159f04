//! Graphs of all nodes that stay inside the device, and calls of CUDA before version 4, on the fake
//! driver directly and elsewhere: the same memory and the same codes.

use crate::alone::wait_for_turn;
use crate::common::{self, Driver, call, fake_copy};
use crate::support;

const WORDS: usize = 4;

/// `CUDA_KERNEL_NODE_PARAMS`, first version, and bytes behind it that mean nothing.
#[repr(C)]
struct KernelParams {
    function: usize,
    sizes: [u32; 7],
    params: *const *const u64,
    extra: usize,
    beyond: [usize; 2],
}

/// A copy of one word inside the device: `CUDA_MEMCPY3D`.
fn copy(from: usize, to: usize) -> [usize; 25] {
    let mut words = [0; 25];
    (words[4], words[6], words[15], words[17]) = (2, from, 2, to);
    words[22..].copy_from_slice(&[8, 1, 1]);
    words
}

/// A fill: `CUDA_MEMSET_NODE_PARAMS`.
fn fill(to: usize, value: usize) -> [usize; 5] {
    [to, 0, value | 1 << 32, 8, 1]
}

/// Codes and words of a program that builds, changes and launches a graph.
fn nodes(driver: Driver) -> (Vec<u32>, [u64; WORDS]) {
    let (mut context, mut memory, mut mix) = (0_usize, 0_usize, 0_usize);
    assert_eq!(call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, WORDS * 8)), 0);
    assert_eq!(call!(driver, cuMemsetD8_v2(memory, 3, WORDS * 8)), 0);
    let (mut graph, mut exec) = (0_usize, 0_usize);
    let [mut first, mut second, mut third] = [0_usize; 3];
    let mut codes = vec![call!(driver, cuGraphCreate(&raw mut graph, 0))];
    let kernel = |to: &usize, value: &u64, with: &mut dyn FnMut(*const KernelParams) -> u32| {
        let params = [std::ptr::from_ref(to).cast(), std::ptr::from_ref(value)];
        let (sizes, params) = ([1, 1, 1, 1, 1, 1, 0], params.as_ptr());
        with(&KernelParams { function: mix, sizes, params, extra: 0, beyond: [9; 2] })
    };
    let (filled, none) = (fill(memory, 5), std::ptr::null::<usize>());
    codes.push(call!(
        driver,
        cuGraphAddMemsetNode(&raw mut first, graph, none, 0_usize, filled.as_ptr(), context)
    ));
    let copied = copy(memory, memory + 8);
    codes.push(call!(
        driver,
        cuGraphAddMemcpyNode(
            &raw mut second,
            graph,
            &raw const first,
            1_usize,
            copied.as_ptr(),
            context
        )
    ));
    codes.push(kernel(&(memory + 8), &7, &mut |params| {
        call!(
            driver,
            cuGraphAddKernelNode(&raw mut third, graph, &raw const second, 1_usize, params)
        )
    }));
    codes.push(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)));
    codes.push(call!(driver, cuGraphLaunch(exec, 0_usize)));
    let (filled, copied) = (fill(memory, 6), copy(memory, memory + 16));
    codes
        .push(call!(driver, cuGraphExecMemsetNodeSetParams(exec, first, filled.as_ptr(), context)));
    codes.push(call!(
        driver,
        cuGraphExecMemcpyNodeSetParams(exec, second, copied.as_ptr(), context)
    ));
    codes.push(kernel(&(memory + 16), &8, &mut |params| {
        call!(driver, cuGraphExecKernelNodeSetParams(exec, third, params))
    }));
    // A node of another kind: refused, and nothing is changed.
    codes
        .push(call!(driver, cuGraphExecMemcpyNodeSetParams(exec, first, copied.as_ptr(), context)));
    codes.push(call!(driver, cuGraphLaunch(exec, 0_usize)));
    // The graph itself, which makes another one that runs.
    let (filled, copied) = (fill(memory, 1), copy(memory, memory + 24));
    codes.push(call!(driver, cuGraphMemsetNodeSetParams(first, filled.as_ptr())));
    codes.push(call!(driver, cuGraphMemcpyNodeSetParams(second, copied.as_ptr())));
    codes.push(kernel(&(memory + 24), &9, &mut |params| {
        call!(driver, cuGraphKernelNodeSetParams(third, params))
    }));
    let mut other = 0_usize;
    codes.push(call!(driver, cuGraphInstantiateWithFlags(&raw mut other, graph, 0)));
    codes.push(call!(driver, cuGraphLaunch(other, 0_usize)));
    let mut left = [0_u64; WORDS];
    codes.push(call!(driver, cuMemcpyDtoH_v2(left.as_mut_ptr(), memory, WORDS * 8)));
    for (handle, name) in [(exec, "exec"), (other, "other")] {
        assert_eq!(call!(driver, cuGraphExecDestroy(handle)), 0, "{name}");
    }
    codes.push(call!(driver, cuGraphDestroy(graph)));
    // A context by attachments: the last one ends it.
    let mut attached = 0_usize;
    codes.push(call!(driver, cuCtxAttach(&raw mut attached, 0_u32)));
    assert_eq!(attached, context);
    codes.push(call!(driver, cuCtxDetach(context)));
    codes.push(call!(driver, cuCtxSynchronize()));
    codes.push(call!(driver, cuCtxDetach(context)));
    codes.push(call!(driver, cuCtxSynchronize()));
    (codes, left)
}

/// The word that launches leave: all at once, or by parameters that are set one by one.
fn launches(driver: Driver, is_old: bool) -> (Vec<u32>, u64) {
    let (mut context, mut memory, mut mix) = (0_usize, 0_usize, 0_usize);
    assert_eq!(call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
    assert_eq!(call!(driver, cuModuleGetFunction(&raw mut mix, 0, c"mix".as_ptr())), 0);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8_usize)), 0);
    assert_eq!(call!(driver, cuMemsetD8_v2(memory, 0, 8_usize)), 0);
    let mut codes = Vec::new();
    for value in [3_u64, 4 << 32 | 4, 5] {
        if is_old {
            let low = value as u32;
            let steps = [
                call!(driver, cuFuncSetBlockShape(mix, 1, 1, 1)),
                call!(driver, cuFuncSetSharedSize(mix, 0)),
                call!(driver, cuParamSetv(mix, 0, &raw const memory, 8)),
                call!(driver, cuParamSeti(mix, 8, low)),
                call!(driver, cuParamSeti(mix, 12, (value >> 32) as u32)),
                call!(driver, cuParamSetSize(mix, 16)),
            ];
            assert_eq!(steps, [0; 6]);
            codes.push(if value == 5 {
                call!(driver, cuLaunch(mix))
            } else {
                call!(driver, cuLaunchGrid(mix, 2, 1))
            });
        } else {
            let params = [&raw const memory as usize, &raw const value as usize];
            let none = std::ptr::null::<usize>();
            codes.push(call!(
                driver,
                cuLaunchKernel(mix, 2, 1, 1, 1, 1, 1, 0, 0_usize, params.as_ptr(), none)
            ));
        }
    }
    let mut left = 0_u64;
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(&raw mut left, memory, 8_usize)), 0);
    assert_eq!(call!(driver, cuCtxDestroy_v2(context)), 0);
    (codes, left)
}

#[test]
fn nodes_inside_the_device_do_the_same_here_and_elsewhere() {
    let _one = wait_for_turn();
    let copy = fake_copy("reef-b0-nodes-plain");
    let plain = Driver::open(&copy);
    assert_eq!(call!(plain, cuInit(0)), 0);
    let expected = nodes(plain);
    let [fill, ..] = expected.1;
    assert_eq!(fill, 0x0101_0101_0101_0101, "the last fill has been made");
    // SAFETY: one test at a time reads or writes the environment.
    unsafe { std::env::set_var("REEF_REMOTE", support::serve(&support::socket("nodes"))) };
    let remote = support::client("nodes");
    assert_eq!(call!(remote, cuInit(0)), 0);
    assert_eq!(nodes(remote), expected);
    // The fake driver is younger than the old launches, so these are compared with the new ones.
    let expected = launches(plain, false);
    assert_eq!(launches(remote, false), expected);
    assert_eq!(launches(remote, true), expected);
    assert_eq!(call!(remote, cuParamSetSize(999, 16)), 400, "no such function");
    // Rows that are more than there are addresses: `CUDA_MEMCPY2D` inside the device.
    let rows = |pitch: usize, height: usize| {
        let mut words = [0_usize; 16];
        (words[2], words[4], words[6]) = (2, 1 << 44, pitch);
        (words[9], words[11], words[13]) = (2, 1 << 44, pitch);
        (words[14], words[15]) = (8, height);
        call!(remote, cuMemcpy2D_v2(words.as_ptr()))
    };
    assert_eq!([rows(1 << 63, 3), rows(8, usize::MAX), rows(0, 2)], [1; 3]);
    std::fs::remove_file(copy).unwrap();
}
