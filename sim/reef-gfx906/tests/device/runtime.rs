//! AMD's runtime does on the software device what it does on a chip: copies, kernels, streams,
//! events.

use crate::support::{self, Bench, Buffer, Function, NOT_READY, Pinned, Stream, lock_bench};
use parking_lot::MutexGuard;
use reef_gfx906::Settings;
use std::thread::sleep;
use std::time::{Duration, Instant};

const BASIC: &str = include_str!("../kernels/basic.hip");

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// One test at a time: where AMD's runtime waits for a kernel, it keeps locks that other threads
/// need to let that kernel go on.
fn free_running() -> Option<(MutexGuard<'static, ()>, &'static Bench)> {
    lock_bench(Settings::default())
}

fn kernel(bench: &'static Bench, name: &str) -> Function {
    static MODULE: std::sync::OnceLock<support::Module<'static>> = std::sync::OnceLock::new();
    MODULE.get_or_init(|| bench.hip.compile(BASIC)).function(name)
}

fn ramp(len: usize, step: f32) -> Vec<f32> {
    (0..len).map(|i| i as f32 * step).collect()
}

#[test]
fn the_runtime_sees_one_mi50() {
    let Some((_turn, Bench { hip, .. })) = free_running() else { return };
    const UNITS: i32 = 63;
    const WARP: i32 = 87;
    const SHARED: i32 = 74;
    assert_eq!(hip.devices(), 1);
    assert!(hip.device_name().contains("MI50"), "{}", hip.device_name());
    assert_eq!(hip.attribute(UNITS), 60);
    assert_eq!(hip.attribute(WARP), 64);
    assert_eq!(hip.attribute(SHARED), 65536);
    assert_eq!(hip.memory().1, 17_163_091_968);
    assert_eq!(hip.priorities(), (1, -1));
}

#[test]
fn a_kernel_adds_vectors() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let (a, b) = (ramp(1000, 0.5), ramp(1000, 3.0));
    let (da, db) = (Buffer::new(hip, &a), Buffer::new(hip, &b));
    let dc = Buffer::<f32>::zeros(hip, 1000);
    let vadd = kernel(bench, "vadd");
    hip.launch(
        vadd,
        [4, 1, 1],
        [256, 1, 1],
        Stream::NULL,
        &[&da.at(), &db.at(), &dc.at(), &1000i32],
    );
    let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    assert_eq!(dc.read(), sums);

    hip.fill(dc.at(), 0xff, 4000, Stream::NULL);
    let mut packed = Vec::new();
    for buffer in [&da, &db, &dc] {
        packed.extend((buffer.at() as u64).to_le_bytes());
    }
    packed.extend(1000i32.to_le_bytes());
    hip.launch_packed(vadd, 4, 256, Stream::NULL, &mut packed);
    assert_eq!(dc.read(), sums);
    assert!(hip.occupancy(vadd, 256) >= 8);
}

#[test]
fn work_items_of_three_dimensions_know_their_places() {
    let Some((_turn, bench)) = free_running() else { return };
    let (groups, block) = ([3, 2, 2], [10, 6, 3]);
    let out = Buffer::<u32>::zeros(&bench.hip, 30 * 12 * 6);
    let arguments: [&dyn support::Argument; 3] = [&out.at(), &30u32, &12u32];
    bench.hip.launch(kernel(bench, "places"), groups, block, Stream::NULL, &arguments);
    let expected: Vec<u32> =
        (0..30 * 12 * 6).map(|i| (i % 30) | (i / 30 % 12) << 8 | (i / 360) << 16).collect();
    assert_eq!(out.read(), expected);
}

#[test]
fn each_work_item_has_private_memory() {
    let Some((_turn, bench)) = free_running() else { return };
    let values: Vec<u32> = (0..100).map(|i| i * i).collect();
    let expected = |item: u32| {
        let (start, mut mine) = (item * item, [0u32; 64]);
        (0..64).for_each(|i| mine[((i * 7 + start) % 64) as usize] = i * (item + 1));
        let mix = |sum: u32, i: u32| {
            sum.wrapping_mul(31).wrapping_add(mine[((i * 5 + start / 3) % 64) as usize])
        };
        (0..64).fold(0, mix)
    };
    let buffer = Buffer::new(&bench.hip, &values);
    let scramble = kernel(bench, "scramble");
    bench.hip.launch(scramble, [1, 1, 1], [100, 1, 1], Stream::NULL, &[&buffer.at()]);
    assert_eq!(buffer.read(), (0..100).map(expected).collect::<Vec<_>>());
}

#[test]
fn tiles_in_shared_memory_multiply_matrices() {
    let Some((_turn, bench)) = free_running() else { return };
    let (m, n, k) = (70, 50, 90);
    let a: Vec<f32> = (0..m * k).map(|i| (i % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| (i % 7) as f32 - 3.0).collect();
    let (da, db) = (Buffer::new(&bench.hip, &a), Buffer::new(&bench.hip, &b));
    let dc = Buffer::<f32>::zeros(&bench.hip, m * n);
    let sizes = [m, n, k].map(|size| size as i32);
    let arguments: [&dyn support::Argument; 6] =
        [&da.at(), &db.at(), &dc.at(), &sizes[0], &sizes[1], &sizes[2]];
    bench.hip.launch(kernel(bench, "gemm"), [4, 5, 1], [16, 16, 1], Stream::NULL, &arguments);
    let product = |i: usize| (0..k).map(|x| a[i / n * k + x] * b[x * n + i % n]).sum::<f32>();
    assert_eq!(dc.read(), (0..m * n).map(product).collect::<Vec<_>>());
}

#[test]
fn a_kernel_sees_a_flag_that_the_host_raises() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let (flag, polls) = (Pinned::new(hip, 1), Pinned::new(hip, 4));
    let stream = hip.stream(0);
    hip.launch(kernel(bench, "poll"), [2, 1, 1], [64, 1, 1], stream, &[&flag.at(), &polls.at()]);
    let begin = bench.software.counters().steps;
    while bench.software.counters().steps < begin + 5000 {
        sleep(millis(1)); // sleep: poll of a condition
    }
    assert_eq!(hip.query(stream), NOT_READY);
    flag.set(0, 1);
    hip.synchronize(stream);
    assert!(polls.get(0) > 0 && polls.get(2) > 0);
    hip.destroy(stream);
}

#[test]
fn a_stream_of_high_priority_overtakes_a_kernel_that_waits() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let (flag, polls) = (Pinned::new(hip, 1), Pinned::new(hip, 2));
    let values = Buffer::<u32>::zeros(hip, 1000);
    let (low, high) = (hip.stream(1), hip.stream(-1));
    hip.launch(kernel(bench, "poll"), [1, 1, 1], [64, 1, 1], low, &[&flag.at(), &polls.at()]);
    hip.launch(kernel(bench, "increment"), [4, 1, 1], [256, 1, 1], high, &[&values.at(), &1000u32]);
    hip.synchronize(high);
    assert_eq!(hip.query(low), NOT_READY);
    flag.set(0, 1);
    hip.synchronize(low);
    assert_eq!(values.read(), [1; 1000]);
    hip.destroy(low);
    hip.destroy(high);
}

#[test]
fn persistent_blocks_go_on_where_they_were_stopped() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let blocks = 2000u32;
    let input: Vec<f32> = (0..256 * blocks).map(|i| (i % 5) as f32).collect();
    let data = Buffer::new(hip, &input);
    let sums = Buffer::<f32>::zeros(hip, blocks as usize);
    let (next, done) = (Buffer::<u32>::zeros(hip, 1), Buffer::<u32>::zeros(hip, 1));
    let flag = Pinned::new(hip, 1);
    let stream = hip.stream(1);
    let persist = kernel(bench, "persist");
    let mut rounds = 0;
    while done.read()[0] < blocks {
        rounds += 1;
        assert!(rounds < 1000, "{} of {blocks} blocks", done.read()[0]);
        flag.set(0, 0);
        let arguments: [&dyn support::Argument; 6] =
            [&flag.at(), &next.at(), &blocks, &data.at(), &sums.at(), &done.at()];
        hip.launch(persist, [8, 1, 1], [256, 1, 1], stream, &arguments);
        // sleep: any length is right; a later one is longer, or a busy device would run no block
        sleep(millis(10 + rounds));
        flag.set(0, 1);
        hip.synchronize(stream);
    }
    let expected: Vec<f32> = input.chunks(256).map(|chunk| chunk.iter().sum()).collect();
    assert_eq!(sums.read(), expected);
    assert_eq!(done.read(), [blocks]);
    hip.destroy(stream);
}

#[test]
fn a_stream_waits_for_a_value_that_another_writes() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let word = hip.signal_malloc();
    let values = Buffer::<u32>::zeros(hip, 64);
    let (held, other) = (hip.stream(-1), hip.stream(1));
    hip.write_value(other, word, 0);
    hip.synchronize(other);
    hip.wait_value(held, word, 7);
    hip.launch(kernel(bench, "increment"), [1, 1, 1], [64, 1, 1], held, &[&values.at(), &64u32]);
    sleep(millis(30)); // sleep: time in which a fault would show; none fails a right device
    assert_eq!(hip.query(held), NOT_READY);
    hip.write_value(other, word, 7);
    hip.synchronize(other);
    hip.synchronize(held);
    assert_eq!(values.read(), [1; 64]);
    hip.destroy(held);
    hip.destroy(other);
    hip.free(word);
}

#[test]
fn events_order_streams_and_measure_time() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let values = Buffer::<u32>::zeros(hip, 4096);
    let (first, second) = (hip.stream(0), hip.stream(0));
    let (before, after) = (hip.event(), hip.event());
    let increment = kernel(bench, "increment");
    hip.record(before, first);
    for _ in 0..10 {
        hip.launch(increment, [16, 1, 1], [256, 1, 1], first, &[&values.at(), &4096u32]);
    }
    hip.record(after, first);
    hip.wait_event(second, after);
    hip.launch(increment, [16, 1, 1], [256, 1, 1], second, &[&values.at(), &4096u32]);
    hip.synchronize(second);
    hip.synchronize_event(after);
    let millis = hip.elapsed_millis(before, after);
    assert!(millis > 0.0 && millis < 600_000.0, "{millis} ms");
    assert_eq!(values.read(), [11; 4096]);
    hip.destroy(first);
    hip.destroy(second);
}

#[test]
fn memory_of_the_host_can_be_lent_to_the_device() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    // For ever: HIP 5.2 can't take back memory that has one address for host and device.
    let values = vec![5u32; 3000].leak();
    let lent = hip.host_register(values.as_mut_ptr().cast(), 4 * 3000);
    let arguments: [&dyn support::Argument; 2] = [&lent, &3000u32];
    hip.launch(kernel(bench, "increment"), [12, 1, 1], [256, 1, 1], Stream::NULL, &arguments);
    hip.synchronize_all();
    assert_eq!(values, [6; 3000]);
}

#[test]
fn copies_are_right_at_any_size_and_place() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let bytes: Vec<u8> = (0..9_000_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let device = Buffer::<u8>::zeros(hip, bytes.len());
    for (offset, len) in
        [(0, 1), (3, 5), (1, 4096), (4097, 70_001), (0, 9_000_000), (17, 5_000_003)]
    {
        let mut back = vec![0u8; len];
        let at = device.at().wrapping_byte_add(offset);
        hip.copy(at, bytes[offset..].as_ptr().cast(), len);
        hip.copy(back.as_mut_ptr().cast(), at, len);
        assert!(back == bytes[offset..offset + len], "{len} bytes at {offset}");
    }
}

#[test]
fn copies_between_buffers_of_the_device_are_right() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let values: Vec<u32> = (0..50_000).collect();
    let (from, to) = (Buffer::new(hip, &values), Buffer::<u32>::zeros(hip, 50_000));
    let stream = hip.stream(0);
    hip.copy_async(to.at(), from.at(), 4 * 50_000, stream);
    hip.synchronize(stream);
    assert_eq!(to.read(), values);
    hip.destroy(stream);
}

#[test]
fn copies_of_rectangles_keep_their_rows() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let (width, height, pitch) = (37, 20, 64);
    let rows: Vec<u8> = (0..width * height).map(|i| i as u8).collect();
    let device = Buffer::<u8>::zeros(hip, pitch * height);
    hip.copy_2d((device.at(), pitch), (rows.as_ptr().cast(), width), width, height);
    let mut back = vec![0u8; width * height];
    hip.copy_2d((back.as_mut_ptr().cast(), width), (device.at(), pitch), width, height);
    assert_eq!(back, rows);
    let image = device.read();
    let row = |y: usize| &image[y * pitch..y * pitch + width];
    assert!((0..height).all(|y| row(y) == &rows[y * width..(y + 1) * width]));
}

#[test]
fn an_idle_device_answers_soon() {
    let Some((_turn, bench)) = free_running() else { return };
    let hip = &bench.hip;
    let values = Buffer::<u32>::zeros(hip, 64);
    let stream = hip.stream(0);
    let increment = kernel(bench, "increment");
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let start = Instant::now();
            hip.launch(increment, [1, 1, 1], [64, 1, 1], stream, &[&values.at(), &64u32]);
            hip.synchronize(stream);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("launch and wait: least {:?}, median {:?}, most {:?}", times[0], times[25], times[49]);
    // A busy machine delays some of them, and a device that answers late all.
    assert!(times[0] < millis(2000), "{:?}", times[0]);
    assert_eq!(values.read(), [50; 64]);
    hip.destroy(stream);
}
