//! Programs that allocate.

use crate::common::{self, Driver, FAKE, SHIM, call, library};
use std::sync::Mutex;
use std::time::Duration;

/// Seed of the programs, and their number.
pub(super) const SEED: &str = "REEF_TEST_PROGRAM";
pub(super) const PROGRAMS: &str = "REEF_TEST_PROGRAMS";
/// File that shows that a program has begun.
pub(super) const BEGUN: &str = "REEF_TEST_BEGUN";
/// Values that a program must find.
pub(super) const WANTS: &str = "REEF_TEST_WANTS";
/// A process that is not ended ends itself.
const LIFE: u32 = 300;

const OUT_OF_MEMORY: u32 = 2;

/// An allocation, and how it ends.
#[derive(Clone, Copy, Debug)]
enum Held {
    Memory(usize),
    Array(usize),
    Mipmapped(usize),
    Piece(usize),
    /// An address where a piece is mapped whose handle was released.
    Mapped(usize),
}

fn begin() -> Driver {
    // SAFETY: ends this process after some time, in any case.
    unsafe { libc::alarm(LIFE) };
    let driver = Driver::open(&library(SHIM));
    assert_eq!(call!(driver, cuInit(0)), 0);
    driver
}

/// A thread of a random program.
struct Thread {
    driver: Driver,
    random: u64,
    held: Vec<Held>,
    /// Next address for its mappings, which no other thread uses.
    next: usize,
    pool: usize,
}

impl Thread {
    fn new(driver: Driver, seed: u64, pool: usize) -> Self {
        assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { driver, random, held: Vec::new(), next: (seed as usize % 4096 + 1) << 40, pool }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    /// One program.
    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.random(3) {
                0 => self.free(),
                _ => self.allocate(),
            }
        }
        while !self.held.is_empty() {
            self.free();
        }
        call!(self.driver, cuCtxSynchronize());
    }

    fn allocate(&mut self) {
        let (driver, bytes) = (self.driver, 1 + self.random(24 << 20));
        let side = 1 + self.random(2000);
        let mut to = [0_usize; 2];
        let at = &raw mut to[0];
        let pitch = &raw mut to[1];
        let (flat, deep) =
            ([side, side, 1 << 32 | 0x20], [side, side, 1 + side % 3, 1 << 32 | 0x20, 0]);
        let (code, held): (u32, fn(usize) -> Held) = match self.random(10) {
            0 => (call!(driver, cuMemAlloc_v2(at, bytes)), Held::Memory),
            1 => (call!(driver, cuMemAllocManaged(at, bytes, 1)), Held::Memory),
            2 => (call!(driver, cuMemAllocPitch_v2(at, pitch, side, side, 4)), Held::Memory),
            3 => (call!(driver, cuArrayCreate_v2(at, &raw const flat)), Held::Array),
            4 => (call!(driver, cuArray3DCreate_v2(at, &raw const deep)), Held::Array),
            5 => (
                call!(driver, cuMipmappedArrayCreate(at, &raw const deep, 1 + side % 9)),
                Held::Mipmapped,
            ),
            6 => (call!(driver, cuMemAllocAsync(at, bytes, 0)), Held::Memory),
            7 => (call!(driver, cuMemAllocFromPoolAsync(at, bytes, self.pool, 0)), Held::Memory),
            8 => (self.create(at, bytes), Held::Piece),
            _ => (self.create_mapped(at, bytes), Held::Mapped),
        };
        assert!(code == 0 || code == OUT_OF_MEMORY, "code {code}");
        if code == 0 {
            self.held.push(held(to[0]));
        }
    }

    fn create(&self, handle: *mut usize, bytes: usize) -> u32 {
        let place = [1_u32, 0, 1, 0, 0, 0, 0, 0];
        call!(self.driver, cuMemCreate(handle, bytes, &raw const place, 0))
    }

    /// A piece that is there by its mapping alone.
    fn create_mapped(&mut self, at: *mut usize, bytes: usize) -> u32 {
        let (driver, mut handles) = (self.driver, [0_usize; 2]);
        let code = self.create(&raw mut handles[0], bytes);
        if code != 0 {
            return code;
        }
        self.next += 1 << 26;
        assert_eq!(call!(driver, cuMemMap(self.next, bytes, 0, handles[0], 0)), 0);
        assert_eq!(call!(driver, cuMemRetainAllocationHandle(&raw mut handles[1], self.next)), 0);
        handles.iter().for_each(|handle| assert_eq!(call!(driver, cuMemRelease(*handle)), 0));
        // SAFETY: `at` is the address of a word of this test's, which lives during the call.
        unsafe { *at = self.next };
        0
    }

    fn free(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (driver, at) = (self.driver, self.random(self.held.len()));
        let code = match self.held.swap_remove(at) {
            Held::Memory(at) if self.random(2) == 0 => call!(driver, cuMemFreeAsync(at, 0)),
            Held::Memory(at) => call!(driver, cuMemFree_v2(at)),
            Held::Array(array) => call!(driver, cuArrayDestroy(array)),
            Held::Mipmapped(array) => call!(driver, cuMipmappedArrayDestroy(array)),
            Held::Piece(handle) => call!(driver, cuMemRelease(handle)),
            Held::Mapped(at) => call!(driver, cuMemUnmap(at, 1 << 26)),
        };
        assert_eq!(code, 0);
    }
}

#[test]
#[ignore = "is a program that other tests run"]
fn runs_at_random() {
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (seed, programs) = (number(SEED), number(PROGRAMS));
    let driver = begin();
    let mut pool = 0_usize;
    assert_eq!(call!(driver, cuMemPoolCreate(&raw mut pool, 0)), 0);
    let next = Mutex::new(0..programs);
    std::thread::scope(|scope| {
        for at in 0..3 {
            let next = &next;
            scope.spawn(move || {
                let mut thread = Thread::new(driver, seed.wrapping_mul(3).wrapping_add(at), pool);
                while next.lock().unwrap().next().is_some() {
                    let steps = 4 + thread.random(24);
                    thread.run(steps);
                }
            });
        }
    });
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    assert_eq!(call!(driver, cuMemPoolDestroy(pool)), 0);
    let mut current = 0_usize;
    assert_eq!(call!(driver, cuDeviceGetMemPool(&raw mut current, 0)), 0);
    assert_eq!(call!(driver, cuMemPoolTrimTo(current, 0)), 0);
    check(driver);
}

/// Checks that the program's view of its memory agrees with that of its device.
fn check(driver: Driver) {
    let (fake, mut taken, mut told) = (Driver::open(&library(FAKE)), [0_u64; 2], [0_usize; 2]);
    assert_eq!(call!(fake, reef_fake_memory(&raw mut taken[0], &raw mut taken[1])), 0);
    assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut told[0], &raw mut told[1])), 0);
    assert_eq!(told[1] as u64, super::LIMIT);
    println!("peak {} taken {} left {}", taken[1], taken[0], told[0]);
}

/// Takes all that there is, and keeps it.
#[test]
#[ignore = "is a program that other tests run"]
fn hoards() {
    let driver = begin();
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    assert_eq!(take(driver), ALL);
    let folder = std::path::PathBuf::from(std::env::var_os(BEGUN).unwrap());
    std::fs::write(folder.join(format!("begun-{}", std::process::id())), "").unwrap();
    std::thread::sleep(Duration::from_secs(u64::from(LIFE))); // sleep: until it is killed
}

/// All of the limit but the rest of the last block: for each small allocation, there must be room
/// for a block.
const ALL: usize = super::LIMIT as usize - PIECE;
/// Size of an allocation.
const PIECE: usize = 1 << 20;

/// Takes all that it gets, in small allocations: how many bytes.
fn take(driver: Driver) -> usize {
    let (mut at, mut bytes) = (0_usize, 0);
    loop {
        match call!(driver, cuMemAlloc_v2(&raw mut at, PIECE)) {
            0 => bytes += PIECE,
            code => {
                assert_eq!(code, OUT_OF_MEMORY);
                return bytes;
            }
        }
    }
}

/// Finds nothing, or everything once others have ended.
#[test]
#[ignore = "is a program that other tests run"]
fn takes_all() {
    let driver = begin();
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    let (begin, mut bytes) = (std::time::Instant::now(), take(driver));
    if std::env::var(WANTS).unwrap() == "nothing" {
        assert_eq!(bytes, 0);
        return;
    }
    while bytes < ALL {
        assert!(begin.elapsed() < common::SOON, "{bytes} after a minute");
        bytes += take(driver);
    }
    assert_eq!(bytes, ALL);
}
