//! Captures that end otherwise than by a graph: what the program does afterwards is seen to end.

use super::{Program, run_alone};
use crate::common::{self, call, until};
use reef_guest::page::Class;
use std::time::{Duration, Instant};

impl Program {
    /// Launches a kernel, waits for nothing, and expects others to be released because its end is
    /// seen, and not because they were held for too long.
    fn is_seen_to_end(&self, what: &str) {
        let stream = self.stream();
        let mut next = Instant::now();
        until("held", || {
            // Once a second: a daemon that was late has not seen the last ones.
            if Instant::now() >= next {
                self.launch(stream, 3);
                next = Instant::now() + Duration::from_secs(1);
            }
            self.is_held()
        });
        until(what, || !self.is_held());
        let guests = self.registry.guests();
        let rt = guests.iter().find(|guest| guest.who.class == Class::RealTime).unwrap();
        assert_eq!(rt.stalls, 0, "{what}: released because it took too long");
    }

    fn begin(&self) -> usize {
        let stream = self.stream();
        assert_eq!(call!(self.driver, cuStreamBeginCapture_v2(stream, 2)), 0);
        self.launch(stream, 1);
        stream
    }

    fn end(&self, stream: usize) -> u32 {
        let mut graph = 0_usize;
        call!(self.driver, cuStreamEndCapture(stream, &raw mut graph))
    }
}

#[test]
fn capture_ended_with_an_error_is_closed() {
    run_alone("errors::capture_ended_with_an_error_is_closed", "rt", "1", |program| {
        program.use_device(0);
        let program = program.with_work();
        let (first, second) = (program.begin(), program.stream());
        let event = program.event(first);
        assert_eq!(call!(program.driver, cuStreamWaitEvent(second, event, 0)), 0);
        program.launch(second, 1);
        assert_eq!(program.end(first), 904, "not joined");
        program.is_seen_to_end("after a capture that wasn't joined");
    });
}

#[test]
fn capture_of_a_destroyed_stream_is_closed() {
    run_alone("errors::capture_of_a_destroyed_stream_is_closed", "rt", "1", |program| {
        program.use_device(0);
        let program = program.with_work();
        let stream = program.begin();
        assert_eq!(call!(program.driver, cuStreamDestroy_v2(stream)), 0);
        program.is_seen_to_end("after the end of a capturing stream");
        // Of two, one goes on.
        let stays = program.begin();
        let goes = program.begin();
        assert_eq!(call!(program.driver, cuStreamDestroy_v2(goes)), 0);
        assert_eq!(program.end(stays), 0);
        program.is_seen_to_end("after the end of both");
    });
}

/// No other thread can name a thread's own stream: its capture ends with its context.
#[test]
fn capture_of_a_thread_in_an_ended_context_is_closed() {
    let name = "errors::capture_of_a_thread_in_an_ended_context_is_closed";
    run_alone(name, "rt", "1", |program| {
        let first = program.use_device(0);
        let program = program.with_work();
        let driver = program.driver;
        for begins_work in [true, false] {
            let context = program.context();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
                    if begins_work {
                        program.launch(2, 1);
                    }
                    assert_eq!(call!(driver, cuStreamBeginCapture_v2(2_usize, 2)), 0);
                });
            });
            assert_eq!(call!(driver, cuCtxDestroy_v2(context)), 0);
            assert_eq!(call!(driver, cuCtxSetCurrent(first)), 0);
            program.is_seen_to_end("after the end of a context with a capturing stream");
        }
    });
}

#[test]
fn refused_or_continued_capture_counts_once() {
    run_alone("errors::refused_or_continued_capture_counts_once", "rt", "1", |program| {
        program.use_device(0);
        let program = program.with_work();
        let stream = program.begin();
        assert_ne!(call!(program.driver, cuStreamBeginCapture_v2(stream, 2)), 0, "twice");
        let other = program.stream();
        assert_ne!(program.end(other), 0, "it captures nothing");
        assert_eq!(program.end(stream), 0);
        program.is_seen_to_end("after the end of the one that was begun");
        assert_eq!(program.misuses(), 0);
    });
}
