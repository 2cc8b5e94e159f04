//! Allocations in the session's window: what they answer, and how often they wait for the server.

use crate::alone::wait_for_turn;
use crate::common::{self, Driver, call, fake_copy};
use crate::support::{Relay, client, serve, socket};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::sync::Mutex;

fn open(name: &str, address: &str) -> Driver {
    let driver = client(name);
    // SAFETY: the test holds the lock of `wait_for_turn`, and other tests read variables only while
    // they hold it.
    unsafe { std::env::set_var("REEF_REMOTE", address) };
    assert_eq!(call!(driver, cuInit(0)), 0);
    driver
}

fn begin(driver: Driver) -> usize {
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
    context
}

fn alloc(driver: Driver, bytes: usize) -> (u32, usize) {
    let mut at = 0_usize;
    (call!(driver, cuMemAlloc_v2(&raw mut at, bytes)), at)
}

/// A call about memory. Allocations are named by their places in the order of the program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc {
        bytes: usize,
    },
    Rows {
        width: usize,
        height: usize,
        element: usize,
    },
    /// At `inside` bytes into the allocation, and once more.
    Free {
        which: usize,
        inside: usize,
        twice: bool,
    },
    FreeInStream {
        which: usize,
        inside: usize,
    },
    Range {
        which: usize,
        at: usize,
    },
    Attribute {
        which: usize,
        at: usize,
        attribute: usize,
    },
    Fill {
        which: usize,
    },
    Read {
        which: usize,
    },
    Info,
    /// Another context, whose memory ends with it.
    Context,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = || any::<usize>();
    let inside = || prop_oneof![6 => Just(0_usize), 1 => Just(8_usize), 1 => Just(512_usize)];
    let sizes = prop_oneof![
        1 => Just(0_usize),
        6 => 1..3000_usize,
        3 => 1..3_000_000_usize,
        1 => 1..60_000_000_usize,
        1 => Just(1_usize << 40),
    ];
    let rows = (0..5000_usize, 0..300_usize, prop::sample::select(vec![4_usize, 8, 16, 2, 7]));
    let attributes = prop::sample::select(vec![2_usize, 3, 6, 8, 9, 11, 12, 13, 99]);
    let step = prop_oneof![
        6 => sizes.prop_map(|bytes| Step::Alloc { bytes }),
        1 => rows.prop_map(|(width, height, element)| Step::Rows { width, height, element }),
        5 => (which(), inside(), any::<bool>())
            .prop_map(|(which, inside, twice)| Step::Free { which, inside, twice }),
        1 => (which(), inside()).prop_map(|(which, inside)| Step::FreeInStream { which, inside }),
        2 => (which(), 0..4000_usize).prop_map(|(which, at)| Step::Range { which, at }),
        2 => (which(), 0..4000_usize, attributes)
            .prop_map(|(which, at, attribute)| Step::Attribute { which, at, attribute }),
        2 => which().prop_map(|which| Step::Fill { which }),
        1 => which().prop_map(|which| Step::Read { which }),
        1 => Just(Step::Info),
        1 => Just(Step::Context),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..60)
}

/// Answers of a program: codes, and numbers that do not depend on where memory lies.
fn answers(driver: Driver, steps: &[Step]) -> Vec<Vec<u64>> {
    let (mut all, mut said): (Vec<(usize, usize, bool)>, _) = (Vec::new(), Vec::new());
    let (mut first, mut second) = (begin(driver), 0_usize);
    for step in steps {
        let pick = |which: usize| (!all.is_empty()).then(|| all[which % all.len()]);
        let mut answer = Vec::new();
        match *step {
            Step::Alloc { bytes } => {
                let (code, at) = alloc(driver, bytes);
                answer.push(code.into());
                if code == 0 {
                    assert_eq!(at % 8, 0);
                    all.push((at, bytes, true));
                }
            }
            Step::Rows { width, height, element } => {
                let (mut at, mut row) = (0_usize, 0_usize);
                let places = (&raw mut at, &raw mut row);
                let code =
                    call!(driver, cuMemAllocPitch_v2(places.0, places.1, width, height, element));
                answer.push(code.into());
                if code == 0 {
                    answer.push(row as u64);
                    all.push((at, row * height, true));
                }
            }
            Step::Free { which, inside, twice } => {
                let Some((at, bytes, true)) = pick(which) else { continue };
                let inside = inside.min(bytes - 1); // behind the end another one may begin
                let code = call!(driver, cuMemFree_v2(at + inside));
                answer.push(code.into());
                if twice {
                    answer.push(call!(driver, cuMemFree_v2(at + inside)).into());
                }
                all.iter_mut().filter(|it| it.0 == at && code == 0).for_each(|it| it.2 = false);
            }
            Step::FreeInStream { which, inside } => {
                let Some((at, bytes, true)) = pick(which) else { continue };
                let inside = inside.min(bytes - 1);
                let code = call!(driver, cuMemFreeAsync(at + inside, 0_usize));
                answer.push(code.into());
                assert_eq!(call!(driver, cuStreamSynchronize(0_usize)), 0);
                all.iter_mut().filter(|it| it.0 == at && code == 0).for_each(|it| it.2 = false);
            }
            Step::Range { which, at } => {
                let Some((from, bytes, true)) = pick(which) else { continue };
                let (mut base, mut len) = (0_usize, 0_usize);
                let inside = from + at % bytes;
                let (base_at, len_at) = (&raw mut base, &raw mut len);
                answer.push(call!(driver, cuMemGetAddressRange_v2(base_at, len_at, inside)).into());
                answer.extend([from.wrapping_sub(base) as u64, len as u64]);
            }
            Step::Attribute { which, at, attribute } => {
                let Some((from, bytes, true)) = pick(which) else { continue };
                let (mut value, inside) = (0_usize, from + at % bytes);
                let code = call!(driver, cuPointerGetAttribute(&raw mut value, attribute, inside));
                let value = if [3, 11].contains(&attribute) && code == 0 {
                    value.wrapping_sub(from)
                } else {
                    value
                };
                answer.extend([code.into(), value as u64]);
            }
            Step::Fill { which } => {
                let Some((at, bytes, true)) = pick(which) else { continue };
                answer.push(call!(driver, cuMemsetD8_v2(at, 7, bytes)).into());
                let mut last = 0_u8;
                answer
                    .push(call!(driver, cuMemcpyDtoH_v2(&raw mut last, at + bytes - 1, 1)).into());
                answer.push(last.into());
            }
            Step::Read { which } => {
                let Some((at, bytes, true)) = pick(which) else { continue };
                let mut host = vec![0_u8; bytes];
                answer.push(call!(driver, cuMemcpyDtoH_v2(host.as_mut_ptr(), at, bytes)).into());
            }
            Step::Info => {
                let (mut free, mut total) = (0_usize, 0_usize);
                answer.push(call!(driver, cuMemGetInfo_v2(&raw mut free, &raw mut total)).into());
                answer.extend([free as u64, total as u64]);
            }
            Step::Context => {
                if second == 0 {
                    answer.push(call!(driver, cuCtxCreate_v2(&raw mut second, 0, 0)).into());
                    let (code, at) = alloc(driver, 5000);
                    answer.push(code.into());
                    let mut base = 0_usize;
                    let range = call!(driver, cuMemGetAddressRange_v2(&raw mut base, 0_usize, at));
                    answer.extend([range.into(), u64::from(base == at)]);
                } else {
                    answer.push(call!(driver, cuCtxDestroy_v2(second)).into());
                    second = 0;
                }
                answer.push(call!(driver, cuCtxSetCurrent(first)).into());
            }
            Step::Reset => {
                all.clear();
                answer.push(call!(driver, cuDevicePrimaryCtxReset_v2(0)).into());
                first = begin(driver);
            }
        }
        said.push(answer);
    }
    if second != 0 {
        said.push(vec![call!(driver, cuCtxDestroy_v2(second)).into()]);
    }
    said.push(vec![call!(driver, cuDevicePrimaryCtxReset_v2(0)).into()]);
    said
}

#[test]
fn memory_answers_the_same_here_and_elsewhere() {
    let _one = wait_for_turn();
    // A window has no blocks that small allocations share.
    // SAFETY: the test holds the lock of `wait_for_turn`, which removes the variable for the next
    // one. The worker gets it when it starts.
    unsafe { std::env::set_var("REEF_FAKE_BLOCKS", "0") };
    let copy = fake_copy("reef-b0-memory-plain");
    let plain = Driver::open(&copy);
    assert_eq!(call!(plain, cuInit(0)), 0);
    let remote = open("memory", &serve(&socket("memory")));
    let asked = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let seed = asked("REEF_TEST_SEED").unwrap_or(now);
    println!("REEF_TEST_SEED={seed}");
    for case in 0..asked("REEF_TEST_CASES").unwrap_or(40) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.wrapping_add(case).to_le_bytes());
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), random);
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let (expected, got) = (answers(plain, &steps), answers(remote, &steps));
        assert_eq!(got, expected, "REEF_TEST_SEED={}: {steps:#?}", seed.wrapping_add(case));
    }
    std::fs::remove_file(copy).unwrap();
}

#[test]
fn allocations_within_a_lease_wait_for_no_call() {
    let _one = wait_for_turn();
    let relay = Relay::start(&serve(&socket("round-trips")), "round-trips-relay");
    let driver = open("round-trips", relay.address());
    begin(driver);
    let before = relay.replies();
    let all: Vec<usize> = (0..1000)
        .map(|_| alloc(driver, 10_000))
        .map(|(code, at)| {
            assert_eq!(code, 0);
            at
        })
        .collect();
    let allocated = relay.replies() - before;
    println!("1,000 allocations of 10,000 bytes: {allocated} round trips");
    assert!((1..=5).contains(&allocated), "{allocated}");
    // Addresses of the device are none of the host's: a mapping there is refused.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    for at in [all[0], all[999]] {
        let page = (at & !4095) as *mut _;
        // SAFETY: it takes the place of no mapping.
        let got = unsafe { libc::mmap(page, 4096, libc::PROT_READ, flags, -1, 0) };
        assert_eq!(got, libc::MAP_FAILED, "{at:#x}");
    }
    for at in all {
        assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
    }
    assert_eq!(relay.replies() - before, allocated + 1000, "each free waits for the device");
    let large = relay.replies();
    let (code, at) = alloc(driver, 100 << 20);
    assert_eq!((code, relay.replies() - large), (0, 1));
    assert_eq!(alloc(driver, 1 << 30).0, 2, "there is not so much, and the call says so");
    let mut host = [0_u8; 16];
    let end = at + (100 << 20) - 8;
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(host.as_mut_ptr(), end, 8)), 0);
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(host.as_mut_ptr(), end, 16)), 1, "beyond the end");
    assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
    assert_eq!(call!(driver, cuMemFree_v2(at)), 1, "it has ended");
}

/// A lease that ends with a free may be another thread's before the first one has its answer.
#[test]
fn threads_that_end_leases_never_have_the_same_memory() {
    let _one = wait_for_turn();
    let driver = open("threads", &serve(&socket("threads")));
    let context = begin(driver);
    let live = Mutex::new(BTreeMap::<usize, usize>::new());
    let thread = |number: usize| {
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        for round in 0..200 {
            // Two of 1 MiB fill a slab, and one of 3 MiB has its own.
            let bytes = [1 << 20, 1 << 20, 3 << 20][(number + round) % 3];
            let mine = [(); 2].map(|()| {
                let (code, at) = alloc(driver, bytes);
                assert_eq!(code, 0);
                let mut live = live.lock().unwrap();
                let before = live.range(..at + bytes).next_back();
                let is_free = before.is_none_or(|(its, len)| its + len <= at);
                assert!(is_free, "{bytes} bytes at {at:#x}: {before:x?} is another's");
                live.insert(at, bytes);
                at
            });
            for at in mine {
                live.lock().unwrap().remove(&at);
                assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || thread(number));
        }
    });
}

#[test]
fn session_without_a_window_works_as_before() {
    let _one = wait_for_turn();
    // SAFETY: the test holds the lock of `wait_for_turn`. The worker reads the variable, which gets
    // it when it starts.
    unsafe { std::env::set_var("REEF_FAKE_RESERVE", "0") };
    let driver = open("no-window", &serve(&socket("no-window")));
    // SAFETY: the test holds the lock of `wait_for_turn`, and other tests read variables only while
    // they hold it.
    unsafe { std::env::remove_var("REEF_FAKE_RESERVE") };
    begin(driver);
    let (code, at) = alloc(driver, 100);
    assert_eq!(code, 0);
    let mut attribute = 0_u32;
    assert_eq!(call!(driver, cuPointerGetAttribute(&raw mut attribute, 2, at)), 0);
    assert_eq!(call!(driver, cuMemFree_v2(at)), 0);
    assert_eq!(call!(driver, cuMemFree_v2(at)), 1);
}
