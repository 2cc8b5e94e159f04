//! Programs with pools on two devices: each device's accounts file has the memory of that device.

use super::{Job, LIMIT, UUID, run};
use crate::common::{self, Driver, SHIM, call, library};
use reef_guest::limit::{AccountsFile, Slot};

/// Bytes that the driver allocates for a pool at once.
const PIECE: usize = 32 << 20;

/// Returns the memory of this program's job, on its first and its second device.
fn used() -> [u64; 2] {
    let folder = std::path::PathBuf::from(std::env::var_os("REEF_ACCOUNTS").unwrap());
    [0, 1].map(|device| {
        let mut uuid = UUID;
        uuid[15] += device;
        let file = AccountsFile::open(&folder, &uuid).unwrap();
        Slot::join(file, "REEF_JOB=random", Some(LIMIT), None).unwrap().account().used()
    })
}

/// Words of a `CUmemPoolProps` of the first location of a kind.
fn properties(location: u32) -> [u32; 24] {
    let mut words = [0; 24];
    words[..3].copy_from_slice(&[1, 0, location]);
    words
}

/// Leaves unused memory in a pool of the current device.
fn leave_spare(driver: Driver) {
    let [mut at, mut pool, mut device] = [0_usize; 3];
    assert_eq!(call!(driver, cuCtxGetDevice(&raw mut device)), 0);
    assert_eq!(call!(driver, cuDeviceGetMemPool(&raw mut pool, device)), 0);
    let keep = u64::MAX; // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    assert_eq!(call!(driver, cuMemPoolSetAttribute(pool, 4, &raw const keep)), 0);
    assert_eq!(call!(driver, cuMemAllocAsync(&raw mut at, PIECE, 0)), 0);
    assert_eq!(call!(driver, cuMemFreeAsync(at, 0)), 0);
    assert_eq!(call!(driver, cuCtxSynchronize()), 0);
}

#[test]
#[ignore = "is a program that another test runs"]
fn uses_two_devices() {
    let driver = Driver::open(&library(SHIM));
    assert_eq!(call!(driver, cuInit(0)), 0);
    for context in [1, 2] {
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        leave_spare(driver);
    }
    let [mut at, mut pool, mut taken, mut peak] = [0_usize; 4];
    eprintln!("spare: {:?}", used());
    // The second device is full but for what its pool doesn't use: that pool is trimmed, and the
    // first one's isn't.
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, LIMIT as usize)), 0);
    let taken_is = (&raw mut taken, &raw mut peak);
    let fake = Driver::open(&library(common::FAKE));
    assert_eq!(call!(fake, reef_fake_memory(taken_is.0, taken_is.1)), 0);
    eprintln!("full: {:?}, taken {taken}", used());
    assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
    // Of the first device's pool, in a context of the second.
    assert_eq!(call!(driver, cuDeviceGetMemPool(&raw mut pool, 0)), 0);
    assert_eq!(call!(driver, cuMemPoolTrimTo(pool, 0)), 0);
    eprintln!("trimmed: {:?}", used());
    assert_eq!(call!(driver, cuMemAllocFromPoolAsync(&raw mut at, PIECE, pool, 0)), 0);
    eprintln!("from the other: {:?}", used());
    // One that was made for the first device.
    let place = properties(1);
    assert_eq!(call!(driver, cuMemPoolCreate(&raw mut pool, place.as_ptr())), 0);
    assert_eq!(call!(driver, cuMemAllocFromPoolAsync(&raw mut at, PIECE, pool, 0)), 0);
    eprintln!("from one of its own: {:?}", used());
}

#[test]
fn pools_are_in_the_accounts_of_their_device() {
    let job = Job::new("devices");
    let program = "loader::limits::devices::uses_two_devices";
    let (_, text) = run(job.command(program).env("REEF_FAKE_DEVICES", "2"), program);
    let taken = PIECE as u64 + LIMIT;
    for line in [
        format!("spare: [{PIECE}, {PIECE}]"),
        format!("full: [{PIECE}, {LIMIT}], taken {taken}"),
        "trimmed: [0, 0]".into(),
        format!("from the other: [{PIECE}, 0]"),
        format!("from one of its own: [{}, 0]", 2 * PIECE),
    ] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
}

#[test]
#[ignore = "is a program that another test runs"]
fn uses_a_limited_pool_from_a_free_device() {
    let driver = Driver::open(&library(SHIM));
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(2))), (0, 0));
    let [mut at, mut limited, mut free] = [0_usize; 3];
    assert_eq!(call!(driver, cuDeviceGetMemPool(&raw mut limited, 0)), 0);
    assert_eq!(call!(driver, cuDeviceGetMemPool(&raw mut free, 1)), 0);
    let mut from = |pool| call!(driver, cuMemAllocFromPoolAsync(&raw mut at, PIECE, pool, 0));
    let codes = [(); 4].map(|()| from(limited));
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    eprintln!(
        "limited: {codes:?}, free: {}",
        call!(driver, cuMemAllocFromPoolAsync(&raw mut at, PIECE, free, 0))
    );
}

/// Only one device has a limit.
#[test]
fn pool_has_its_own_devices_limit_in_any_context() {
    let (job, program) =
        (Job::new("owner"), "loader::limits::devices::uses_a_limited_pool_from_a_free_device");
    let mut command = job.command(program);
    command.env_remove("REEF_MEMORY").env("CUDA_DEVICE_MEMORY_LIMIT_0", "96m");
    let (_, text) = run(command.env("REEF_FAKE_DEVICES", "2"), program);
    assert!(text.lines().any(|line| line == "limited: [0, 0, 0, 2], free: 0"), "{text}");
}

/// Says what is used after each step, with a stream of the second device and a context of the
/// first.
#[test]
#[ignore = "is a program that another test runs"]
fn uses_a_stream_of_another_device() {
    let driver = Driver::open(&library(SHIM));
    let [mut stream, mut at, mut pool, mut total] = [0_usize; 4];
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(2))), (0, 0));
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(1)), 0);
    assert_eq!(call!(driver, cuMemAllocAsync(&raw mut at, PIECE, stream)), 0);
    eprintln!("in the stream: {:?}", used());
    let host = properties(2);
    assert_eq!(call!(driver, cuMemPoolCreate(&raw mut pool, host.as_ptr())), 0);
    for _ in 0..8 {
        assert_eq!(call!(driver, cuMemAllocFromPoolAsync(&raw mut at, PIECE, pool, stream)), 0);
    }
    eprintln!("of the host: {:?}", used());
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, PIECE)), 0);
    eprintln!("of the first: {:?}", used());
    assert_eq!(call!(driver, cuMemFreeAsync(at, stream)), 0);
    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
    assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut at, &raw mut total)), 0);
    eprintln!("after its end: {:?}", used());
}

#[test]
fn memory_of_a_stream_is_its_devices_and_the_hosts_is_none() {
    let (job, program) =
        (Job::new("streams"), "loader::limits::devices::uses_a_stream_of_another_device");
    let (_, text) = run(job.command(program).env("REEF_FAKE_DEVICES", "2"), program);
    for line in [
        format!("in the stream: [0, {PIECE}]"),
        format!("of the host: [0, {PIECE}]"),
        format!("of the first: [{PIECE}, {PIECE}]"),
        format!("after its end: [0, {PIECE}]"),
    ] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
}

/// Says what is used as managed memory moves between two devices.
#[test]
#[ignore = "is a program that another test runs"]
fn moves_managed_memory() {
    let driver = Driver::open(&library(SHIM));
    let [mut at, mut other, mut large] = [0_usize; 3];
    assert_eq!((call!(driver, cuInit(0)), call!(driver, cuCtxSetCurrent(1))), (0, 0));
    for to in [&raw mut at, &raw mut other] {
        assert_eq!(call!(driver, cuMemAllocManaged(to, PIECE, 1)), 0);
    }
    eprintln!("allocated: {:?}", used());
    for (at, device) in [(at, 0), (at, -1), (at, 1), (at, 1)] {
        assert_eq!(call!(driver, cuMemPrefetchAsync(at, 4096, device, 0)), 0);
    }
    assert_eq!(call!(driver, cuMemAdvise_v2(at, PIECE, 3, 1_u64 | 1 << 32)), 0);
    eprintln!("moved: {:?}", used());
    let (ranges, sizes, places, first) =
        ([at, other], [PIECE; 2], [1_u64, 1 | 1 << 32], [0, 1_usize]);
    let move_each = || {
        let lists = (ranges.as_ptr(), sizes.as_ptr(), places.as_ptr(), first.as_ptr());
        call!(driver, cuMemPrefetchBatchAsync(lists.0, lists.1, 2, lists.2, lists.3, 2, 0, 0))
    };
    assert_eq!(call!(driver, cuCtxSetCurrent(2)), 0);
    let rest = LIMIT as usize - PIECE;
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut large, rest)), 0);
    eprintln!("full: {}, {:?}", move_each(), used());
    assert_eq!(call!(driver, cuMemFree_v2(large)), 0);
    eprintln!("each: {}, {:?}", move_each(), used());
    for at in [at, other] {
        assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
    }
    eprintln!("freed: {:?}", used());
}

#[test]
fn managed_memory_counts_where_it_moves() {
    let (job, program) = (Job::new("managed"), "loader::limits::devices::moves_managed_memory");
    let (_, text) = run(job.command(program).env("REEF_FAKE_DEVICES", "2"), program);
    for line in [
        format!("allocated: [{}, 0]", 2 * PIECE),
        format!("moved: [{}, {PIECE}]", 2 * PIECE),
        format!("full: 2, [{}, {LIMIT}]", 2 * PIECE),
        format!("each: 0, [{}, {}]", 2 * PIECE, 2 * PIECE),
        "freed: [0, 0]".into(),
    ] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
}

/// Loads libraries while the second device is current, and contexts of both are there.
#[test]
#[ignore = "is a program that another test runs"]
fn loads_libraries_on_a_free_device() {
    let driver = Driver::open(&library(SHIM));
    assert_eq!(call!(driver, cuInit(0)), 0);
    let [mut first, mut second] = [0_usize; 2];
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut first, 0)), 0);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut second, 1)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(second)), 0);
    let text = format!(".version 7.0\n.target sm_70\n.global .align 4 .b8 g[{PIECE}];\n\0");
    let load = || {
        let (mut library, image) = (0_usize, text.as_ptr());
        let to = &raw mut library;
        (call!(driver, cuLibraryLoadData(to, image, 0, 0, 0, 0, 0, 0)), library)
    };
    let all = [(); 4].map(|()| load());
    let codes = all.map(|(code, _)| code);
    // The first device's context ends, and with it what libraries had there.
    assert_eq!(call!(driver, cuDevicePrimaryCtxReset_v2(0)), 0);
    let after = load().0;
    let again = call!(driver, cuDevicePrimaryCtxRetain(&raw mut first, 0));
    assert_eq!(call!(driver, cuLibraryUnload(all[0].1)), 0);
    let less = call!(driver, cuDevicePrimaryCtxRetain(&raw mut first, 0));
    eprintln!("loaded: {codes:?}, without the context: {after}, retained: {again}, {less}");
}

/// A library has its variables in contexts of all devices, of which one has a limit.
#[test]
fn library_counts_on_devices_that_are_not_current() {
    let (job, program) =
        (Job::new("libraries"), "loader::limits::devices::loads_libraries_on_a_free_device");
    let mut command = job.command(program);
    command.env_remove("REEF_MEMORY").env("CUDA_DEVICE_MEMORY_LIMIT_0", "96m");
    let (_, text) = run(command.env("REEF_FAKE_DEVICES", "2"), program);
    let line = "loaded: [0, 0, 0, 2], without the context: 0, retained: 2, 0";
    assert!(text.lines().any(|said| said == line), "{text}");
}
