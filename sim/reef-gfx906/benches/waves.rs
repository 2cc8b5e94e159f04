//! Speed of waves: lane-operations (instructions times 64) a second on one core.
//!
//!     cargo bench -p reef-gfx906 --bench waves

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Kernel, Mapped};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn gemm(c: &mut Criterion) {
    let kernel = Kernel::load(include_bytes!("../tests/kernels/gemm.hsaco"), "gemm");
    let n = 128usize;
    let (a, b) = (vec![1f32; n * n], vec![2f32; n * n]);
    let mut out = vec![0f32; n * n];
    let mut run = || {
        let mut memory = Mapped::default();
        let sizes = [n as u64 | (n as u64) << 32, n as u64];
        let arguments =
            [memory.map(&a), memory.map(&b), memory.map_mut(&mut out), sizes[0], sizes[1]];
        kernel.launch(&mut memory, [8, 8, 1], [16, 16, 1], &arguments).expect("runs")
    };
    let executed = run();
    let mut group = c.benchmark_group("waves");
    group.sample_size(20);
    group.throughput(Throughput::Elements(executed * 64));
    group.bench_function("gemm_128", |bench| bench.iter(&mut run));
    group.finish();
}

criterion_group!(benches, gemm);
criterion_main!(benches);
