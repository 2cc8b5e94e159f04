//! What tests need of a device: cells, the kernel that appends to them, and what they should hold.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
pub(crate) use reef_core::appended;
use reef_core::{Command, Device, Launch};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Preemptions per level and test.
pub(crate) fn cycles() -> u64 {
    std::env::var("REEF_CONFORMANCE_CYCLES").map_or(1000, |n| n.parse().expect("a number"))
}

/// A generator whose seed is printed.
pub(crate) fn rng() -> ChaCha8Rng {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = std::env::var("REEF_CONFORMANCE_SEED").map_or(now, |n| n.parse().expect("a number"));
    println!("REEF_CONFORMANCE_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

/// Sleeps for less than `micros`.
pub(crate) fn doze(rng: &mut ChaCha8Rng, micros: u64) {
    std::thread::sleep(Duration::from_micros(rng.random_range(0..micros)));
}

/// Cells on a device; what goes wrong ends the test.
pub(crate) struct Cells<D: Device>(reef_core::Cells<D>, u32);

impl<D: Device> Cells<D> {
    pub(crate) fn new(device: &D, len: u32) -> Self {
        Self(reef_core::Cells::new(device, len).unwrap(), len)
    }

    pub(crate) fn buffer(&self) -> &D::Buffer {
        self.0.buffer()
    }

    /// Appends `value` to each cell, after a number of rounds of waiting.
    pub(crate) fn launch(&self, value: u64, rounds: u64) -> Launch<D> {
        self.0.launch(value, rounds)
    }

    pub(crate) fn append(&self, value: u64, rounds: u64) -> Command<D> {
        self.0.append(value, rounds)
    }

    pub(crate) fn read(&self) -> Vec<u64> {
        self.0.read().unwrap()
    }

    /// Checks that each cell holds `values`, appended one after the other.
    #[track_caller]
    pub(crate) fn expect(&self, values: impl IntoIterator<Item = u64>) {
        assert_eq!(self.read(), vec![appended(values); self.1 as usize]);
    }
}

/// The first `len` cells of a buffer.
pub(crate) fn read<D: Device>(device: &D, buffer: &D::Buffer, len: usize) -> Vec<u64> {
    let mut bytes = vec![0; len * 8];
    device.read(buffer, 0, &mut bytes).unwrap();
    bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
}
