//! Contexts that end, or lose a reference, while others work.

use super::{MANY, UUID, run_alone, run_on_both};
use crate::common::{self, Driver, FAKE, call, library, until, until_at_rest};
use std::time::{Duration, Instant};

#[test]
fn a_released_reference_ends_no_other_devices_work() {
    run_on_both("contexts::a_released_reference_ends_no_other_devices_work", "rt", |program| {
        let (driver, mut other) = (program.driver, 0_usize);
        program.use_device(1);
        let program = program.with_work();
        program.launch(0, 1);
        program.use_device(0);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut other, 0)), 0);
        let stream = program.stream();
        until("it has joined on both", || {
            program.launch(stream, 1); // it passes a daemon that is late
            assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            let guests = program.registry.guests();
            guests.iter().filter(|guest| guest.kernels > 0).count() == 2
        });
        until("released", || !program.is_held());
        program.launch(stream, MANY);
        let event = program.event(stream);
        // One reference of two, and then another device's last one.
        assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(1)), 0);
        program.holds_until(event);
        assert_eq!(program.misuses(), 0);
    });
}

/// Another library retained it. Another device's primary context is current meanwhile.
#[test]
fn unseen_primary_context_ends_no_others_work() {
    run_alone("contexts::unseen_primary_context_ends_no_others_work", "rt", "1", |program| {
        let driver = program.driver;
        let fake = Driver::open(&library(FAKE));
        let mut unseen = 0_usize;
        assert_eq!(call!(fake, cuDevicePrimaryCtxRetain(&raw mut unseen, 1)), 0);
        program.use_device(0);
        let program = program.with_work();
        let stream = program.stream();
        program.launch(stream, MANY);
        let event = program.event(stream);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(1)), 0);
        program.holds_until(event);
        assert_eq!(program.misuses(), 0);
    });
}

#[test]
fn released_reference_opens_no_gate_while_others_are_left() {
    let name = "contexts::released_reference_opens_no_gate_while_others_are_left";
    run_alone(name, "be", "1", |program| {
        let driver = program.driver;
        program.use_device(0);
        program.use_device(0);
        let program = program.with_work();
        let stream = program.stream();
        program.launch(stream, 1);
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
        program.registry.hold(UUID, true);
        program.launch(stream, 1);
        let event = program.event(stream);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(100) {
            program.use_device(0);
            assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(0)), 0);
            let waits = !program.has_run(event);
            program.expect_held(waits, "a gate opened for a reference of three");
        }
        // The last ones wait for the work.
        assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(0)), 0);
        program.expect_held(!program.has_run(event), "a gate opened for a reference of two");
        assert_eq!(call!(driver, cuDevicePrimaryCtxRelease_v2(0)), 0);
        assert_eq!(program.misuses(), 0);
    });
}

#[test]
fn synchronising_a_context_ends_no_others_work() {
    run_on_both("contexts::synchronising_a_context_ends_no_others_work", "rt", |program| {
        let first = program.use_device(0);
        let program = program.with_work();
        let stream = program.stream();
        program.context();
        program.launch(0, 1);
        assert_eq!(call!(program.driver, cuCtxSetCurrent(first)), 0);
        program.launch(stream, MANY);
        let event = program.event(stream);
        program.context();
        program.launch(0, 1);
        assert_eq!(call!(program.driver, cuCtxSynchronize()), 0);
        program.holds_until(event);
    });
}

/// One context's end takes its registrations along.
#[test]
fn other_contexts_of_a_device_outlive_the_first() {
    for class in ["rt", "be"] {
        let name = "contexts::other_contexts_of_a_device_outlive_the_first";
        alone_with_class(name, class);
    }
}

fn alone_with_class(name: &str, class: &str) {
    if std::env::var("REEF_CLASS").is_ok_and(|own| own != class) {
        return;
    }
    run_alone(name, class, "1", |program| {
        let driver = program.driver;
        let first = program.context();
        let program = program.with_work();
        program.launch(0, 1);
        let second = program.context();
        program.launch(0, 1);
        assert_eq!(call!(driver, cuCtxDestroy_v2(first)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(second)), 0);
        let stream = program.stream();
        program.launch(stream, 200);
        if class == "rt" {
            program.holds_until(program.event(stream));
        }
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0, "memory of the dead");
        // A gate of the second context closes all the same.
        program.registry.hold(super::UUID, true);
        program.launch(stream, 1);
        until_at_rest();
        let is_held = call!(driver, cuStreamQuery(stream)) == 600;
        program.expect_held(is_held == (class == "be"), "a best-effort program alone");
        program.registry.hold(super::UUID, false);
        assert_eq!(call!(driver, cuCtxSynchronize()), 0);
        assert_eq!(program.misuses(), 0);
    });
}

#[test]
fn green_contexts_end_without_their_work() {
    run_on_both("contexts::green_contexts_end_without_their_work", "rt", |program| {
        let (driver, [mut green, mut stream, mut context]) = (program.driver, [0_usize; 3]);
        let primary = program.use_device(0);
        let program = program.with_work();
        program.launch(0, 1);
        for _ in 0..3 {
            assert_eq!(call!(driver, cuGreenCtxCreate(&raw mut green, 0, 0, 1)), 0);
            assert_eq!(call!(driver, cuGreenCtxStreamCreate(&raw mut stream, green, 1, 0)), 0);
            assert_eq!(call!(driver, cuCtxFromGreenCtx(&raw mut context, green)), 0);
            assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
            program.launch(stream, MANY);
            let event = program.event(stream);
            assert_eq!(call!(driver, cuCtxSetCurrent(primary)), 0);
            assert_eq!(call!(driver, cuGreenCtxDestroy(green)), 0);
            program.holds_until(event);
            assert_eq!(call!(driver, cuStreamDestroy_v2(stream)), 0);
        }
        assert_eq!(program.misuses(), 0);
    });
}

#[test]
fn detached_contexts_are_left_alone() {
    run_on_both("contexts::detached_contexts_are_left_alone", "rt", |program| {
        let (driver, mut again) = (program.driver, 0_usize);
        let primary = program.use_device(0);
        let program = program.with_work();
        for round in 0..6 {
            let context = program.context();
            let (stream, lives) = (program.stream(), round % 2 == 0);
            program.launch(stream, 3);
            if lives {
                assert_eq!(call!(driver, cuCtxAttach(&raw mut again, 0)), 0);
            }
            assert_eq!(call!(driver, cuCtxDetach(context)), 0);
            if lives {
                program.launch(stream, MANY / 2); // work of a context that still lives counts
                program.holds_until(program.event(stream));
                assert_eq!(call!(driver, cuCtxDestroy_v2(context)), 0);
            }
            until("released", || !program.is_held());
            assert_eq!(call!(driver, cuCtxSetCurrent(primary)), 0);
        }
        assert_eq!(program.misuses(), 0);
    });
}

#[test]
fn many_contexts_hold_and_are_held_as_few_are() {
    run_alone("contexts::many_contexts_hold_and_are_held_as_few_are", "rt", "1", |program| {
        let program = {
            program.use_device(0);
            program.with_work()
        };
        let contexts: Vec<_> = (0..100)
            .map(|_| {
                let context = program.context();
                program.launch(0, 1);
                context
            })
            .collect();
        until("released", || !program.is_held());
        for &context in contexts.iter().rev().take(10) {
            assert_eq!(call!(program.driver, cuCtxSetCurrent(context)), 0);
            program.launch(0, MANY / 2);
            program.holds_until(program.event(0));
        }
        for context in contexts {
            assert_eq!(call!(program.driver, cuCtxDestroy_v2(context)), 0);
        }
        assert_eq!(program.misuses(), 0);
    });
}

/// Hundreds of contexts one after the other need no more room than one.
#[test]
fn contexts_one_after_the_other_leave_nothing() {
    run_on_both("contexts::contexts_one_after_the_other_leave_nothing", "rt", |program| {
        let program = {
            program.use_device(0);
            program.with_work()
        };
        let resident = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let mut begin = 0;
        for round in 0..300 {
            let context = program.context();
            program.launch(0, 1);
            assert_eq!(call!(program.driver, cuCtxSynchronize()), 0);
            assert_eq!(call!(program.driver, cuCtxDestroy_v2(context)), 0);
            if round == 20 {
                begin = resident();
            }
        }
        assert!(resident() <= begin + 20, "{begin} mappings became {}", resident());
    });
}
