//! Parts of a device's time of programs that start and end, are stopped or killed, or have long
//! kernels.

use super::simulated::{Fleet, MILLISECOND, Plan, Random};

const SECOND: u64 = 1_000 * MILLISECOND;

/// Returns the device time of each program in a second, in ms.
fn second(fleet: &mut Fleet) -> Vec<f64> {
    let ran = fleet.go_on(SECOND);
    ran.iter().map(|ran| *ran as f64 / MILLISECOND as f64).collect()
}

/// Checks that the second program has its part of the time, whatever happened to the first, which
/// may have the turn.
fn other_goes_on(first: Plan) {
    let mut fleet = Fleet::new(vec![first.clone(), Plan::new("b", 50, 28, 20)]);
    let before = second(&mut fleet);
    assert!(before[0] > 100.0, "{first:?}: {before:.0?}");
    fleet.go_on(SECOND);
    let after = second(&mut fleet);
    // It doesn't have more either: a stopped program has no share in the device's work.
    assert!((440.0..520.0).contains(&after[1]), "{first:?}: {before:.0?}, {after:.0?}");
}

#[test]
fn stopped_or_killed_program_does_not_keep_the_turn() {
    for at in 0..20 {
        let from = SECOND + at * 1_700_000; // at one of these moments it has the turn
        for (kernel, batch) in [(28, 20), (100, 0), (3_000, 0)] {
            let plan = Plan::new("a", 50, kernel, batch);
            other_goes_on(Plan { stopped: from..u64::MAX, ..plan.clone() });
            other_goes_on(Plan { lives: 0..from, ..plan });
        }
    }
}

#[test]
fn new_program_has_its_part_within_two_seconds() {
    let comes = Plan { lives: 3 * SECOND..u64::MAX, ..Plan::new("b", 70, 28, 20) };
    let mut fleet = Fleet::new(vec![Plan::new("a", 30, 28, 20), comes]);
    fleet.go_on(5 * SECOND);
    for _ in 0..4 {
        let had = second(&mut fleet);
        assert!((had[0] - 290.0).abs() < 30.0 && (had[1] - 670.0).abs() < 70.0, "{had:.0?}");
    }
}

#[test]
fn long_kernels_do_not_cost_other_programs_their_parts() {
    for (kernel, batch) in [(150_000, 0), (150_000, 1), (700_000, 1)] {
        let mut fleet =
            Fleet::new(vec![Plan::new("a", 30, kernel, batch), Plan::new("b", 70, 28, 20)]);
        fleet.go_on(3 * SECOND);
        let ran = fleet.go_on(20 * SECOND);
        let had: Vec<_> =
            ran.iter().map(|ran| *ran as f64 / (20 * SECOND) as f64 * 100.0).collect();
        println!("{kernel} us, {batch}: {had:.1?}");
        assert!(
            (had[0] - 30.0).abs() < 4.0 && (had[1] - 67.0).abs() < 7.0,
            "{kernel} us, {batch}: {had:.1?}"
        );
    }
}

/// A program that only ever has one kernel of this length in flight, next to nothing else.
#[test]
fn debt_of_a_kernel_of_seconds_is_paid_before_the_next() {
    let mut fleet = Fleet::new(vec![Plan::new("a", 10, 3_000_000, 1)]);
    let ran: Vec<_> = (0..7).map(|_| fleet.go_on(10 * SECOND)[0] / SECOND).collect();
    assert_eq!(ran, [3, 0, 0, 3, 0, 0, 3], "seconds of each ten");
}

#[test]
fn processes_share_their_jobs_part_and_overload_is_proportional() {
    let plan = |job, part| Plan::new(job, part, 28, 20);
    let mut fleet = Fleet::new(vec![plan("a", 40), plan("a", 40), plan("b", 50)]);
    fleet.go_on(2 * SECOND);
    let had = second(&mut fleet);
    let job = had[0] + had[1];
    assert!((job - 380.0).abs() < 40.0 && (had[2] - 480.0).abs() < 40.0, "{had:.0?}");
    assert!((had[0] - had[1]).abs() < 60.0, "{had:.0?}");
    let mut fleet = Fleet::new(vec![plan("a", 90), plan("b", 45)]);
    fleet.go_on(2 * SECOND);
    let had = second(&mut fleet);
    assert!((had[0] / had[1] - 2.0).abs() < 0.5 && had[0] + had[1] > 900.0, "{had:.0?}");
}

/// Programs of random kinds, of which some are stopped for a time or killed: the others have their
/// parts.
#[test]
fn random_programs_have_their_parts_despite_faults_of_others() {
    let mut random = Random::from_environment();
    for case in 0..12 {
        let count = random.of(2..5) as usize;
        let mut left = 100;
        let plans: Vec<_> = (0..count).map(|at| plan(&mut random, at, count, &mut left)).collect();
        let mut fleet = Fleet::new(plans.clone());
        fleet.go_on(6 * SECOND); // all faults were before
        let ran = fleet.go_on(6 * SECOND);
        let had = ran.iter().map(|ran| *ran as f64 / (6 * SECOND) as f64 * 100.0);
        let lives = plans.iter().zip(had).filter(|(plan, _)| plan.lives.end == u64::MAX);
        for (plan, had) in lives {
            let part = f64::from(plan.part);
            let said = format!("{random}, case {case}: {had:.1} % {plan:?} of {plans:?}");
            assert!(had > part * 0.85 - 1.0 && had < part * 1.1 + 1.0, "{said}");
        }
    }
}

fn plan(random: &mut Random, at: usize, count: usize, left: &mut u32) -> Plan {
    let kinds = [(28, 20), (28, 200), (100, 0), (1_000, 3), (5_000, 1), (12_000, 0)];
    let (kernel, batch) = kinds[random.of(0..kinds.len() as u64) as usize];
    let most = *left - 5 * (count - at - 1) as u32;
    let part =
        if at + 1 == count { *left } else { random.of(5..u64::from(most.max(5)) + 1) as u32 };
    *left -= part;
    let plan = Plan::new(["a", "b", "c", "d"][at], part, kernel, batch);
    let from = random.of(0..3 * SECOND);
    match random.of(0..4) {
        0 => Plan { stopped: from..from + SECOND, ..plan },
        1 if at > 0 => Plan { lives: 0..from + SECOND, ..plan },
        2 => Plan { lives: from..u64::MAX, ..plan },
        _ => plan,
    }
}
