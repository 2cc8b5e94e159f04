//! Files byte for byte, and recording by several threads.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Zero of the recorder's clock, in nanoseconds since 1970.
const ZERO: u64 = 1_700_000_000_000_000_000;

/// Calls of a small program, by a clock of the test.
fn calls() -> Vec<Call> {
    let call = |api, start, nanos, amount| Call { api, start, nanos, amount, what: 7, stream: 1 };
    vec![
        call(Api::LookUp, 500, 999, 0), // less than a microsecond, which counts as none
        call(Api::Init, 1000, 120_900, 0),
        call(Api::Alloc, 2000, 3_999, 2048),
        call(Api::Alloc, 2500, 4_000, 2048),
        call(Api::CopyIn, 3000, 30_000, 512),
        call(Api::CopyInAsync, 4000, 20_001, 256),
        call(Api::Launch, 4500, 4_000, 32),
        call(Api::Launch, 4600, 4_000, 32),
        call(Api::Launch, 4700, 4_500, 32),
        call(Api::CopyOut, 5000, 9_000, 128),
    ]
}

/// Records all of them in one thread.
fn recorded() -> (Totals, Vec<Event>) {
    let recorder = Recorder::new();
    let part = recorder.thread_profile(3).unwrap();
    for call in calls() {
        part.note(&call);
        assert!(part.send(&call));
    }
    let mut events = Vec::new();
    recorder.drain(|event| events.push(event));
    (recorder.totals(), events)
}

#[test]
fn alnair_files_match_byte_for_byte() {
    let (totals, events) = recorded();
    assert_eq!(alnair::metrics_1(&totals), include_str!("report/golden/metrics-1.log"));
    assert_eq!(alnair::metrics_2(&totals, 4096), include_str!("report/golden/metrics-2.log"));
    assert_eq!(alnair::metrics_3(&totals, 4711, 4096), include_str!("report/golden/metrics-3.log"));
    let lines = |line: fn(&Call, u64) -> Option<String>| -> String {
        events.iter().filter_map(|event| line(&event.call, ZERO + event.call.start)).collect()
    };
    assert_eq!(lines(alnair::line_1), include_str!("report/golden/timeline-1.log"));
    assert_eq!(lines(alnair::line_2), include_str!("report/golden/timeline-2.log"));
    // Each counted call of these functions has a line.
    let counted: u64 = alnair::TIMELINE_CALLS.iter().map(|api| totals.of(*api).count).sum();
    assert_eq!(lines(alnair::line_1).lines().count() as u64, counted);
    assert!(
        events
            .iter()
            .all(|e| alnair::timeline_calls().has(e.call.api)
                == alnair::line_1(&e.call, 0).is_some())
    );
}

#[test]
fn table_lists_calls_and_kernels_by_falling_time() {
    let (totals, _) = recorded();
    let said = table::table(&totals, 42, |handle| (handle == 7).then(|| "mix".into()));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = said.lines().map(words).collect();
    assert_eq!(lines[0].join(" "), "reef: process 42: calls of the driver, host time");
    assert_eq!(lines[2], ["cuInit", "1", "0.121", "131.07", "131.07"]);
    assert_eq!(lines[3], ["cuMemcpyHtoD", "1", "0.030", "32.77", "32.77", "512", "bytes"]);
    assert!(lines.contains(&words("mix 3 0.013 4.10 5.12")), "{said}");
}

#[test]
fn trace_is_json_with_kernels_and_threads() {
    let (_, events) = recorded();
    let name = |handle: u64| (handle == 7).then(|| "a \"kernel\"\n".to_owned());
    let text = trace::json(&events[..7], 42, 500, 0, name);
    let want = "{\"ph\":\"X\",\"name\":\"a \\\"kernel\\\"\\u000a\",\"cat\":\"cuLaunchKernel\",\"pid\":42,\"tid\":3,\
                \"ts\":4,\"dur\":4,\"args\":{\"stream\":\"0x1\",\"threads\":32}}\n]}\n";
    assert!(text.ends_with(want), "{text}");
    assert_eq!(text.matches("\"ph\":\"X\"").count(), 7);
}

#[test]
fn concurrent_threads_lose_no_call_and_reuse_profiles() {
    let recorder = Recorder::new();
    let is_over = AtomicBool::new(false);
    let mut seen = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let recorder = &recorder;
                scope.spawn(move || {
                    for round in 0..20_u64 {
                        let part = recorder.thread_profile(thread + 1).unwrap();
                        for at in 0..500 {
                            let what = u64::from(thread) * 4096 + at % 97 + 1;
                            let (api, stream) = (Api::Launch, round);
                            let call =
                                Call { api, start: at, nanos: 1000, amount: 1, what, stream };
                            part.note(&call);
                            while !part.send(&call) {
                                std::thread::yield_now();
                            }
                        }
                        part.give_back();
                    }
                })
            })
            .collect();
        let drain = scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::Acquire) {
                recorder.drain(|_| seen += 1);
                std::thread::yield_now();
            }
            recorder.drain(|_| seen += 1);
            seen
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        is_over.store(true, Ordering::Release);
        seen = drain.join().unwrap();
    });
    let totals = recorder.totals();
    assert_eq!((seen, totals.of(Api::Launch).count, totals.lost), (30_000, 30_000, 0));
    assert_eq!(totals.kernels.values().map(|kernel| kernel.count).sum::<u64>(), 30_000);
}

#[test]
fn excess_threads_get_no_profile_and_excess_kernels_are_merged() {
    let recorder = Recorder::new();
    let parts: Vec<_> =
        (0..MAX_THREADS as u32).map(|at| recorder.thread_profile(at + 1).unwrap()).collect();
    assert!(recorder.thread_profile(99).is_none());
    parts[5].give_back();
    let part = recorder.thread_profile(99).unwrap();
    let call = |what| Call { api: Api::Launch, start: 0, nanos: 1, amount: 0, what, stream: 0 };
    (1..2000).for_each(|what| part.note(&call(what)));
    let totals = recorder.totals();
    assert!(totals.kernels[&0].count > 1000, "{:?}", totals.kernels[&0].count);
    assert_eq!(totals.of(Api::Launch).count, 1999);
}
