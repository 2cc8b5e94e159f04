//! Much of everything: streams, launches, allocations. Nothing is lost, doubled or kept.

use crate::support::{Bench, Buffer, Pinned, lock_bench};
use reef_gfx906::Settings;

const BASIC: &str = include_str!("../kernels/basic.hip");

#[test]
fn eight_streams_of_many_launches_lose_none() {
    let Some((_turn, Bench { hip, software })) = lock_bench(Settings::default()) else { return };
    let module = hip.compile(BASIC);
    let increment = module.function("increment");
    let streams: Vec<_> = (0..8).map(|i| hip.stream(i % 3 - 1)).collect();
    let values: Vec<_> = (0..8).map(|_| Buffer::<u32>::zeros(hip, 300)).collect();
    let before = software.counters().launches;
    let rounds = 200;
    for _ in 0..rounds {
        for (stream, values) in streams.iter().zip(&values) {
            hip.launch(increment, [2, 1, 1], [256, 1, 1], *stream, &[&values.at(), &300u32]);
        }
    }
    streams.iter().for_each(|stream| hip.synchronize(*stream));
    assert!(values.iter().all(|values| values.read() == [rounds; 300]));
    assert_eq!(software.counters().launches - before, 8 * u64::from(rounds));
    assert_eq!(software.counters().resident, 0);
    streams.into_iter().for_each(|stream| hip.destroy(stream));
    module.unload();
}

#[test]
fn allocating_and_freeing_leaves_nothing_behind() {
    let Some((_turn, Bench { hip, software })) = lock_bench(Settings::default()) else { return };
    let round = || {
        let large = Buffer::<u8>::zeros(hip, 20 << 20);
        let small: Vec<_> = (1..20).map(|size| Buffer::<u32>::zeros(hip, 100 * size)).collect();
        let pinned = Pinned::new(hip, 5000);
        let stream = hip.stream(0);
        hip.copy_async(pinned.at(), small[10].at(), 1000, stream);
        hip.synchronize(stream);
        hip.destroy(stream);
        drop(large);
    };
    (0..3).for_each(|_| round());
    let (before, memory) = (software.counters(), resident_pages());
    (0..10).for_each(|_| round());
    let after = software.counters();
    assert_eq!((after.available, after.queues), (before.available, before.queues));
    let grown = resident_pages().saturating_sub(memory);
    assert!(grown < 5_000, "{grown} pages more");
}

#[test]
fn modules_come_and_go_at_the_same_addresses() {
    let Some((_turn, Bench { hip, .. })) = lock_bench(Settings::default()) else { return };
    for value in 1..6u32 {
        let source = format!(
            "extern \"C\" __global__ void constant(unsigned* out) {{ out[threadIdx.x] = {value}; }}"
        );
        let module = hip.compile(&source);
        let out = Buffer::<u32>::zeros(hip, 64);
        let stream = hip.stream(0);
        hip.launch(module.function("constant"), [1, 1, 1], [64, 1, 1], stream, &[&out.at()]);
        hip.synchronize(stream);
        assert_eq!(out.read(), [value; 64]);
        hip.destroy(stream);
        module.unload();
    }
}

#[test]
fn device_memory_ends() {
    let Some((_turn, Bench { hip, software })) = lock_bench(Settings::default()) else { return };
    const OUT_OF_MEMORY: u32 = 2;
    let before = software.counters().available;
    let most = hip.malloc(12 << 30);
    assert_eq!(hip.try_malloc(12 << 30), Err(OUT_OF_MEMORY));
    hip.free(most);
    // The runtime keeps some blocks for the next small allocations.
    assert!(software.counters().available + (64 << 20) >= before);
}

/// Pages of this process in memory.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number")
}
