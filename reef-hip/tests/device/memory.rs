//! Memory, and words that streams write.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls alike: handles are open, and what was taken is given back once, after its last use"
)]

use crate::bench::Bench;
use reef_core::{Error, Priority};
use reef_gpu::{Graphs, Memory, Modules, Reset, Streams, Vendor};

#[test]
fn memory_keeps_what_is_written_and_comes_back_zeroed() {
    let Some(bench) = Bench::open() else { return };
    let context = &bench.context;
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let memory = context.alloc(bytes.len()).unwrap();
    let mut seen = vec![1; bytes.len()];
    unsafe { context.read(memory, &mut seen) }.unwrap();
    assert!(seen.iter().all(|byte| *byte == 0));
    unsafe { context.write(memory, &bytes) }.unwrap();
    unsafe { context.write(memory + 10, &[255; 3]) }.unwrap();
    unsafe { context.read(memory, &mut seen) }.unwrap();
    assert_eq!(
        (&seen[..10], &seen[10..13], &seen[13..]),
        (&bytes[..10], &[255; 3][..], &bytes[13..])
    );
    unsafe { context.free(memory) };
    assert_eq!(context.alloc(bytes.len()).unwrap(), memory, "freed memory is used again");
    unsafe { context.read(memory, &mut seen) }.unwrap();
    assert!(seen.iter().all(|byte| *byte == 0));
}

#[test]
fn more_memory_than_there_is_is_an_error() {
    let Some(bench) = Bench::open() else { return };
    let bytes = 1 << 45;
    let error = bench.context.alloc(bytes).unwrap_err();
    assert_eq!(error, Error::OutOfMemory { backend: "hip", asked: bytes });
    bench.context.alloc(64).unwrap();
}

#[test]
fn the_host_sees_what_kernels_write_to_its_memory() {
    let Some(bench) = Bench::open() else { return };
    let stream = bench.stream(Priority::RealTime);
    let (host, device) = bench.context.alloc_host(64).unwrap();
    bench.launch(stream, "bump", vec![device + 12, 41]);
    bench.launch(stream, "bump", vec![device + 12, 1]);
    unsafe { bench.context.wait(stream) }.unwrap();
    // SAFETY: 64 bytes of the host's, which nothing writes any more.
    let word = unsafe { host.cast::<u32>().add(3).read_volatile() };
    assert_eq!(word, 42);
}

#[test]
fn streams_write_words_after_the_kernels_before() {
    let Some(bench) = Bench::open() else { return };
    let stream = bench.stream(Priority::RealTime);
    let words = bench.context.alloc_signals(1024).unwrap();
    let spinning = bench.spin(stream);
    for place in [0, 64, 260] {
        // SAFETY: the words are ours.
        unsafe { bench.context.write_value(stream, words + place, 7 + place as u32) }.unwrap();
    }
    bench.launch(stream, "bump", vec![words + 64, 100]);
    // sleep: time in which a fault would show; none fails a right device
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(bench.read(words), 0, "a kernel is before it");
    spinning.end();
    unsafe { bench.context.wait(stream) }.unwrap();
    let seen = [0, 4, 64, 260].map(|place| bench.read(words + place));
    assert_eq!(seen, [7, 0, 171, 267]);
}

#[test]
fn a_gate_holds_its_stream_until_the_host_opens_it() {
    let Some(bench) = Bench::open() else { return };
    let stream = bench.stream(Priority::BestEffort);
    let word = bench.context.alloc(4).unwrap();
    let gate = bench.context.alloc_gate().unwrap();
    let set = |value| {
        // SAFETY: the gate's word, which the stream only reads.
        unsafe { gate.host.write_volatile(value) }
    };
    for round in 1..4 {
        set(1);
        // SAFETY: the gate is there until the end of this function, and the stream gets past it.
        unsafe { bench.context.wait_value(stream, gate.device, 0) }.unwrap();
        bench.launch(stream, "bump", vec![word, 1]);
        // sleep: time in which a fault would show; none fails a right device
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!bench.is_idle(stream));
        assert_eq!(bench.read(word), round - 1);
        set(0);
        assert!(bench.ends(stream));
        assert_eq!(bench.read(word), round);
    }
    unsafe { bench.context.free_gate(gate) };
}

/// The reason for pools: the runtime's `hipFree`, `hipHostFree` and `hipStreamDestroy` wait.
#[test]
fn calls_of_a_context_do_not_wait_for_a_running_kernel() {
    let Some(bench) = Bench::open() else { return };
    let context = &bench.context;
    let held = [Priority::BestEffort, Priority::RealTime].map(|class| bench.stream(class));
    let spinning = held.map(|stream| bench.spin(stream));

    let memory = context.alloc(1 << 20).unwrap();
    unsafe { context.write(memory, &[1; 5000]) }.unwrap();
    unsafe { context.read(memory, &mut [0; 5000]) }.unwrap();
    unsafe { context.free(memory) };
    unsafe { context.free_signals(context.alloc_signals(100).unwrap()) };
    let (host, _) = context.alloc_host(1 << 16).unwrap();
    unsafe { context.free_host(host) };
    unsafe { context.free_gate(context.alloc_gate().unwrap()) };
    let code = unsafe { context.load_code(&bench.image) }.unwrap();
    let function = unsafe { context.function(code, "bump") }.unwrap().unwrap();
    unsafe { context.function_facts(function) }.unwrap();
    unsafe { context.unload_code(code) };
    for class in [Priority::BestEffort, Priority::RealTime] {
        let stream = context.open_stream(class.into()).unwrap();
        let word = context.alloc(4).unwrap();
        bench.launch(stream, "bump", vec![word, 1]);
        unsafe { context.wait(stream) }.unwrap();
        assert_eq!(bench.read(word), 1);
        unsafe { context.close_stream(stream) };
    }
    if context.facts().graphs {
        let stream = context.open_stream(Priority::BestEffort.into()).unwrap();
        unsafe { context.begin_capture(stream) }.unwrap();
        bench.launch(stream, "empty", vec![]);
        let exec = unsafe { context.end_capture(stream) }.unwrap();
        unsafe { context.free_exec(exec) };
        unsafe { context.close_stream(stream) };
    }

    assert!(held.iter().all(|stream| !bench.is_idle(*stream)), "the kernels still run");
    spinning.iter().for_each(|spinning| spinning.end());
    assert!(held.iter().all(|stream| bench.ends(*stream)));
}
