//! Parts of an answer that count, and those that don't.

use super::daemon::{GIB, list, program};
use super::scheduler::{counted, giving};
use crate::dra::checkpoint::Claims;
use crate::dra::claim;
use crate::dra::config::{ClaimsConfig, SuspendedMemory};
use crate::dra::suspended::answer::given_back;
use crate::dra::tests::cluster::{NODE, device, object};
use crate::tests::node::{FakeNode, seed_and_steps};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

fn claims(all: &[(&str, Value)]) -> Claims {
    let read =
        |(uid, claim): &(&str, Value)| ((*uid).to_owned(), claim::read(claim, uid, NODE).unwrap());
    all.iter().map(read).collect()
}

/// GiB of the first GPU, and the line.
fn first(programs: &[Value], claims: &Claims, config: &ClaimsConfig) -> (u64, Option<String>) {
    let (all, line) = given_back(&list(programs), claims, config).unwrap();
    assert!(all.keys().all(|name| *name == device(0)), "{all:?}");
    (all.get(&device(0)).copied().unwrap_or(0) / GIB, line)
}

#[test]
fn claim_gives_back_what_is_counted_at_most() {
    let (node, uncounted) = (FakeNode::new(), json!({ "memory": "50GiB" }));
    let config = giving(&node);
    let claims = claims(&[
        ("a", counted("a", 0, "be", 40)),
        ("b", counted("b", 0, "be", 30)),
        ("rt", counted("rt", 0, "rt", 20)),
        ("limit", object("limit", 0, "be", uncounted)),
    ]);
    let program = |claim: &str, gib: u64| program(claim, 0, gib * GIB);
    for (programs, wanted) in [
        (vec![program("a", 25)], 25),
        (vec![program("a", 25), program("a", 25)], 40),
        (vec![program("a", 141), program("b", 10)], 50),
        (vec![program("rt", 20), program("limit", 50), program("", 50), program("gone", 50)], 0),
    ] {
        assert_eq!(first(&programs, &claims, &config), (wanted, None), "{programs:?}");
    }
    let mut nameless = program("a", 25);
    nameless["limit_id"] = Value::Null;
    assert_eq!(first(&[nameless], &claims, &config), (0, None));
}

#[test]
fn memory_taken_for_a_rt_program_is_given_back_on_request() {
    let node = FakeNode::new();
    let claims = claims(&[("a", counted("a", 0, "be", 40)), ("b", counted("b", 0, "be", 30))]);
    let mut taken = program("a", 0, 40 * GIB);
    taken["for_memory"] = true.into();
    let programs = [taken, program("b", 0, 5 * GIB)];
    let config = giving(&node);
    assert_eq!(first(&programs, &claims, &config), (5, None));
    let all = ClaimsConfig { suspended: SuspendedMemory::GiveBackAll, ..config };
    assert_eq!(first(&programs, &claims, &all), (45, None));
}

#[test]
fn part_that_can_not_be_counts_as_nothing_and_has_a_line() {
    let node = FakeNode::new();
    let (config, claims) = (giving(&node), claims(&[("a", counted("a", 0, "be", 40))]));
    let good = program("a", 0, 5 * GIB);
    for (bad, wanted) in [
        (
            program("a", 0, u64::MAX),
            "18446744073709551615 bytes on a GPU of 151397597184 (claim a)",
        ),
        (program("a", 9, GIB), "claim a has no device \"00000009000011112222333344445555\""),
    ] {
        let (gib, line) = first(&[good.clone(), bad], &claims, &config);
        assert_eq!((gib, line.as_deref()), (5, Some(wanted)));
    }
    let line = given_back("{\"suspended\":1}", &claims, &config).unwrap_err();
    assert!(line.starts_with("not a list of suspended programs: "), "{line}");
}

/// Whatever the daemon says, a GPU's best-effort claims give back no more than is counted for them,
/// and no more than suspended programs had.
#[test]
fn sum_stays_below_both_bounds_at_random() {
    let (seed, steps) = seed_and_steps(2_000);
    println!("REEF_TEST_SEED={seed} REEF_TEST_STEPS={steps}");
    let (mut rng, node) = (ChaCha8Rng::seed_from_u64(seed), FakeNode::new());
    let config = giving(&node);
    for step in 0..steps {
        let (mut prepared, mut bound) = (Vec::new(), [0; 2]);
        for uid in ["a", "b", "c", "d"] {
            let (minor, gib) = (rng.random_range(0..2), rng.random_range(0..141));
            let class = if rng.random() { "be" } else { "rt" };
            bound[minor as usize] += if class == "be" { gib } else { 0 };
            prepared.push((uid, counted(uid, minor, class, gib)));
        }
        let (mut programs, mut had) = (Vec::new(), [0_u128; 2]);
        for _ in 0..rng.random_range(0..8) {
            let uid = ["a", "b", "c", "d", "e"][rng.random_range(0..5)];
            let (minor, gib) = (rng.random_range(0..3), rng.random_range(0..160));
            let bytes = if rng.random_range(0..10) == 0 { u64::MAX } else { gib * GIB };
            had.get_mut(minor as usize).into_iter().for_each(|had| *had += u128::from(bytes));
            programs.push(program(uid, minor, bytes));
        }
        let (all, _) = given_back(&list(&programs), &claims(&prepared), &config).unwrap();
        for minor in [0, 1] {
            let bytes = all.get(&device(minor)).copied().unwrap_or(0);
            let (bound, had) = (bound[minor as usize] * GIB, had[minor as usize]);
            assert!(
                bytes <= bound && u128::from(bytes) <= had,
                "step {step}: {bytes}: {bound}, {had}"
            );
        }
        assert!(all.len() <= 2, "step {step}: {all:?}");
    }
}
