//! Clients that write arbitrary values into shared memory.

use super::{Client, FIRST, Options, ServerHello, send};
use crate::class::Class;
use crate::config::settings::{Config, Models};
use crate::engine::api::{EarlyNotice, Run};
use crate::error::Error;
use crate::local::session::PINNED_AFTER;
use crate::local::session::listen::Local;
use crate::net::access::Access;
use crate::net::folder::make_folder;
use crate::net::listener::bind;
use crate::server::Server;
use crate::tensor::to_bytes;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reef::{Account, ClientConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A daemon with the local path only.
struct Fixture {
    folder: PathBuf,
    server: Arc<Server>,
    local: Option<Local>,
}

impl Fixture {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("reef-local-{test}-{}", std::process::id()));
        make_folder(&folder).unwrap();
        std::fs::create_dir_all(folder.join("models/tiny/1")).unwrap();
        let text = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
        std::fs::write(folder.join("models/tiny/model.toml"), text).unwrap();
        let repository = Some(folder.join("models"));
        let models = Models { repository, builtin: true, ..Models::default() };
        let device = "cpu:0?units=1".into();
        let server = Server::open(Config { device, models, ..Config::default() }).unwrap();
        let local = Some(
            Local::start(
                &server,
                bind(&folder.join("local.sock"), Access::Owner).unwrap(),
                Access::Owner,
            )
            .unwrap(),
        );
        Self { folder, server, local }
    }

    fn client(&self, class: Class) -> Client {
        let (folder, class) = (Some(self.folder.clone()), Some(class));
        Client::connect("tiny", &Options { folder, class, ..Options::default() }).unwrap()
    }

    /// Waits until no client is connected.
    fn wait_until_empty(&self) {
        let begin = Instant::now();
        while self.server.clients.in_use() != [0; 3] {
            assert!(
                begin.elapsed() < TEST_TIMEOUT,
                "{:?} are inside",
                self.server.clients.in_use()
            );
            std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.local.take().expect("once").stop();
        self.server.registry.clear();
        assert_eq!(self.server.registry.budget().used(), 0, "all memory is returned");
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A write of a client into shared memory.
#[derive(Debug, Clone)]
enum Scribble {
    Kind(u32, u32),
    Timeout(u32, u64),
    Answer(u32, u32, u32),
    Requests(u32),
    Answers(u32),
    Ping,
    Infer,
}

fn cursor() -> impl Strategy<Value = u32> {
    prop_oneof![(0u32..8).prop_map(|n| FIRST.wrapping_add(n)), any::<u32>()]
}

fn scribble() -> impl Strategy<Value = Scribble> {
    prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(n, kind)| Scribble::Kind(n, kind)),
        (any::<u32>(), any::<u64>()).prop_map(|(n, time)| Scribble::Timeout(n, time)),
        any::<(u32, u32, u32)>().prop_map(|(n, code, length)| Scribble::Answer(n, code, length)),
        cursor().prop_map(Scribble::Requests),
        cursor().prop_map(Scribble::Answers),
        Just(Scribble::Ping),
        Just(Scribble::Infer),
    ]
}

impl Scribble {
    /// Performs it. A client that confuses itself may get any error, or wait for ever.
    fn apply(&self, client: &mut Client) {
        let segment = &client.segment;
        match *self {
            Self::Kind(n, kind) => segment.slot(n).kind.store(kind, Relaxed),
            Self::Timeout(n, time) => segment.slot(n).timeout.store(time, Relaxed),
            Self::Answer(n, code, length) => {
                segment.slot(n).code.store(code, Relaxed);
                segment.slot(n).length.store(length, Relaxed);
            }
            Self::Requests(cursor) => segment.requests().publish(cursor),
            Self::Answers(cursor) => segment.answers().publish(cursor),
            Self::Ping => client.push(0),
            Self::Infer => client.push(1),
        }
    }
}

#[test]
fn arbitrary_writes_harm_only_their_client() {
    let fixture = Fixture::new("scribble");
    let mut other = fixture.client(Class::RealTime);
    let input = vec![0.5; other.input_len()];
    let want = other.infer(&input).unwrap();
    let mut runner = TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
    let scribbles = prop::collection::vec(scribble(), 1..30);
    let other = std::cell::RefCell::new(other);
    runner
        .run(&scribbles, |scribbles| {
            let mut client = fixture.client(Class::BestEffort);
            scribbles.iter().for_each(|scribble| scribble.apply(&mut client));
            prop_assert_eq!(&other.borrow_mut().infer(&input).unwrap(), &want);
            drop(client);
            fixture.client(Class::BestEffort).ping().unwrap();
            Ok(())
        })
        .unwrap();
    drop(other);
    fixture.wait_until_empty();
}

#[test]
fn cursor_beyond_the_ring_ends_the_session() {
    let fixture = Fixture::new("ahead");
    let mut client = fixture.client(Class::BestEffort);
    client.ping().unwrap();
    client.segment.requests().publish(FIRST.wrapping_add(1000));
    fixture.wait_until_empty();
    client.submitted = FIRST.wrapping_add(1); // as if nothing had happened
    client.push(0);
    let said = client.pop().unwrap_err();
    assert_eq!(said, Error::Invalid("open requests must be at most 4, got 999".into()));
}

#[test]
fn invalid_buffer_fails_only_its_own_request() {
    let fixture = Fixture::new("place");
    let mut client = fixture.client(Class::RealTime);
    let input = vec![0.5; client.input_len()];
    let want = client.infer(&input).unwrap();
    for buffer in [4, u32::MAX] {
        let slot = client.segment.slot(client.submitted);
        slot.kind.store(1, Relaxed);
        slot.buffer.store(buffer, Relaxed);
        client.buffers.take(client.submitted, 0);
        client.submitted = client.submitted.wrapping_add(1);
        client.segment.requests().publish(client.submitted);
        let said = client.pop().unwrap_err();
        assert_eq!(said, Error::Invalid(format!("tensor buffer must be below 4, got {buffer}")));
        assert_eq!(client.infer(&input).unwrap(), want);
    }
}

/// Open requests have tensors of their own, in any order of freed buffers.
#[test]
fn open_requests_have_separate_tensors() {
    let fixture = Fixture::new("apart");
    let mut client = fixture.client(Class::RealTime);
    let inputs = [0.1, 0.4, 0.7, 1.0].map(|value| vec![value; client.input_len()]);
    let want = inputs.each_ref().map(|input| client.infer(input).unwrap());
    let mut got = vec![0.0; client.output_len()];
    let order = [0, 1, 2, 3, 3, 1, 0, 2, 2, 0];
    let mut open = std::collections::VecDeque::new();
    for (n, input) in order.into_iter().cycle().take(60).enumerate() {
        client.submit(&inputs[input]).unwrap();
        open.push_back(input);
        while open.len() > n % 4 {
            client.receive(&mut got).unwrap();
            assert_eq!(got, want[open.pop_front().unwrap()]);
        }
    }
}

#[test]
fn unload_is_reported_to_local_clients() {
    let fixture = Fixture::new("unload");
    let mut client = fixture.client(Class::RealTime);
    let input = vec![0.5; client.input_len()];
    client.infer(&input).unwrap();
    fixture.server.registry.unload(&crate::ModelName::new("tiny").unwrap()).unwrap();
    fixture.wait_until_empty();
    let said = client.infer(&input).unwrap_err();
    assert_eq!(said, Error::Unavailable("the model was unloaded".into()));
    client.reconnect().unwrap(); // which loads it again
    client.infer(&input).unwrap();
}

#[test]
fn client_resumes_after_a_reload() {
    let fixture = Fixture::new("reload");
    let name = crate::ModelName::new("tiny").unwrap();
    let mut client = fixture.client(Class::BestEffort);
    let input = vec![0.5; client.input_len()];
    let want = client.infer(&input).unwrap();
    let before = client.id();
    fixture.server.registry.load(&name).unwrap();
    fixture.wait_until_empty();
    client.submit(&input).unwrap(); // to the session that has ended
    let mut output = vec![0.0; want.len()];
    client.receive(&mut output).unwrap();
    assert_eq!(output, want);
    assert_ne!(client.id(), before);
    fixture.server.registry.load(&name).unwrap();
    fixture.wait_until_empty();
    client.ping().unwrap();
}

#[test]
fn reload_with_another_shape_fails_one_request() {
    let fixture = Fixture::new("reshape");
    let name = crate::ModelName::new("tiny").unwrap();
    let mut client = fixture.client(Class::RealTime);
    let input = vec![0.5; client.input_len()];
    let text = "network = \"resnet18\"\nsize = 64\nseed = 1\n";
    std::fs::write(fixture.folder.join("models/tiny/model.toml"), text).unwrap();
    fixture.server.registry.load(&name).unwrap();
    fixture.wait_until_empty();
    let said = client.infer(&input).unwrap_err();
    assert_eq!(said, Error::Unavailable("the model was reloaded".into()));
    assert_eq!(client.input_len(), 4 * input.len());
    client.infer(&vec![0.5; client.input_len()]).unwrap();
}

/// Both paths compute the same. If the device supports it, the daemon does not copy between it and
/// shared memory.
#[test]
fn device_copies_tensors_without_the_daemon() {
    let fixture = Fixture::new("direct");
    let numbers = || fixture.server.registry.get("tiny", "").unwrap().numbers();
    let mut copied = None;
    for class in [Class::BestEffort, Class::RealTime] {
        let mut client = fixture.client(class);
        if class == Class::BestEffort {
            let input = vec![0.0; client.input_len()];
            (1..PINNED_AFTER).for_each(|_| drop(client.infer(&input).unwrap()));
            let first = numbers();
            assert!(!first.input.time.is_zero() && !first.output.time.is_zero());
            copied = Some(first);
        }
        let inputs = [0.25, 0.5, 0.75].map(|value| vec![value; client.input_len()]);
        let model = fixture.server.registry.get("tiny", "").unwrap();
        let mut staged = model.base.instance(class, ClientConfig::default()).unwrap();
        for input in inputs.iter().cycle().take(10) {
            staged.write(0, &to_bytes(input)).unwrap();
            let (time, account) = (Duration::from_secs(60), &Account::new(None));
            staged
                .run(Run {
                    slot: None,
                    shared: Default::default(),
                    time,
                    gone: &|| false,
                    account,
                    notice: None,
                })
                .unwrap();
            let mut want = vec![0; model.base.outputs.bytes];
            staged.read(0, &mut want).unwrap();
            assert_eq!(to_bytes(&client.infer(input).unwrap()), want, "{class}");
        }
    }
    let (numbers, copied) = (numbers(), copied.unwrap());
    assert_eq!(numbers.success.count, copied.success.count + 20);
    assert_eq!((numbers.input.time, numbers.output.time), (copied.input.time, copied.output.time));
}

/// Called once if the run has not ended by then; the answer is the same.
#[test]
fn run_calls_early_notice_once() {
    let fixture = Fixture::new("soon");
    let model = fixture.server.registry.get_or_load("tiny").unwrap();
    let mut instance = model.base.instance(Class::RealTime, ClientConfig::default()).unwrap();
    let input = vec![0.5; model.base.inputs.bytes / 4];
    instance.write(0, &to_bytes(&input)).unwrap();
    let (time, account) = (TEST_TIMEOUT, &Account::new(None));
    let mut run = |after: Option<Duration>| {
        let told = std::cell::Cell::new(0);
        let tell = &|| told.set(told.get() + 1);
        let notice = after.map(|after| EarlyNotice { after, tell });
        let shared = Default::default();
        instance.run(Run { slot: None, shared, time, gone: &|| false, account, notice }).unwrap();
        let mut output = vec![0; model.base.outputs.bytes];
        instance.read(0, &mut output).unwrap();
        (told.get(), output)
    };
    let (_, want) = run(None);
    assert_eq!(run(Some(Duration::ZERO)), (1, want.clone()));
    assert_eq!(run(Some(TEST_TIMEOUT - Duration::from_secs(1))), (0, want.clone()));
    assert_eq!(run(Some(2 * TEST_TIMEOUT)), (0, want));
}

/// A client that changes its input while it is read gets some result, and no other client is
/// affected.
#[test]
fn concurrent_tensor_writes_harm_no_other_client() {
    let fixture = Fixture::new("change");
    let mut other = fixture.client(Class::BestEffort);
    let input = vec![0.5; other.input_len()];
    let want = other.infer(&input).unwrap();
    let mut client = fixture.client(Class::RealTime);
    let mine = client.infer(&input).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (len, mut output) = (client.input_len(), vec![0.0; client.output_len()]);
    for _ in 0..20 {
        client.submit(&input).unwrap();
        let buffer = client.buffers.of(client.received).buffer;
        stop.store(false, Relaxed);
        std::thread::scope(|scope| {
            let segment = &client.segment;
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    segment.input(buffer).write_floats(std::iter::repeat_n(f32::NAN, len));
                    segment.output(buffer).write_floats([7.0; 10].into_iter());
                }
            });
            assert_eq!(other.infer(&input).unwrap(), want);
            stop.store(true, Relaxed);
        });
        client.receive(&mut output).unwrap();
    }
    assert_eq!(client.infer(&input).unwrap(), mine);
}

/// A measurement: `cargo test -p reef-serve --lib -- --ignored --nocapture staging`.
#[test]
#[ignore = "a measurement"]
fn staging_time() {
    use crate::local::segment::{Layout, Segment};
    use crate::requests::job::chunks;
    let fixture = Fixture::new("staging");
    let model = fixture.server.registry.get_or_load("resnet18").unwrap();
    let (input, output) = (model.base.inputs.bytes, model.base.outputs.bytes);
    let (segment, _fd) = Segment::create(Layout { slots: 4, input, output }).unwrap();
    let mut instance = model.base.instance(Class::BestEffort, ClientConfig::default()).unwrap();
    let mut times: Vec<Duration> = (0..2000)
        .map(|n| {
            let begin = Instant::now();
            let copy = |at, chunk: &mut [u8]| {
                segment.input(n).read(at, chunk);
                instance.write(at, chunk)
            };
            chunks(input, copy).unwrap();
            begin.elapsed()
        })
        .collect();
    times.sort();
    println!("{input} bytes through the daemon: p50 {:?}, p99 {:?}", times[1000], times[1980]);
}

#[test]
fn submit_from_iterator_equals_submit_of_slice() {
    let fixture = Fixture::new("values");
    let mut client = fixture.client(Class::RealTime);
    let len = client.input_len();
    let value = |i| (i % 17) as f32 / 17.0;
    let want = client.infer(&(0..len).map(value).collect::<Vec<_>>()).unwrap();
    let mut got = vec![0.0; client.output_len()];
    client.submit_from((0..len).map(value)).unwrap();
    client.receive(&mut got).unwrap();
    assert_eq!(got, want);
    for wrong in [0, 1, len - 1, len + 1] {
        let error = client.submit_from((0..wrong).map(value)).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{wrong}: {error}");
    }
    let endless = client.submit_from(std::iter::repeat(0.0)).unwrap_err();
    assert_eq!(endless, Error::Invalid(format!("input must have {len} values, got more")));
    assert!(client.receive(&mut got).is_err(), "nothing was submitted");
}

#[test]
fn threads_wait_while_others_submit() {
    let fixture = Fixture::new("pending");
    let mut client = fixture.client(Class::RealTime);
    let inputs = [0.2, 0.6, 0.9].map(|value| vec![value; client.input_len()]);
    let want = inputs.each_ref().map(|input| client.infer(input).unwrap());
    assert!(client.pending().is_none());
    client.submit(&inputs[0]).unwrap();
    let first = client.pending().unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| while !first.wait(TEST_TIMEOUT) {});
        inputs[1..].iter().for_each(|input| client.submit(input).unwrap());
        waiter.join().unwrap();
    });
    assert!(begin.elapsed() < TEST_TIMEOUT, "it was woken");
    for (n, want) in (0..3).zip(&want) {
        assert_eq!(client.open_requests(), 3 - n);
        let (got, _) = loop {
            let answer = client.try_receive().unwrap();
            if let Some(answer) = answer {
                break answer;
            }
            client.pending().unwrap().wait(Duration::from_millis(50));
        };
        assert_eq!(&got, want);
    }
    assert!(client.try_receive().is_err(), "no request is open");
}

/// A request's error leaves the others open; the daemon's end does not.
#[test]
fn error_of_a_request_is_told_from_that_of_a_connection() {
    let fixture = Fixture::new("told-apart");
    let mut client = fixture.client(Class::BestEffort);
    let input = vec![0.5; client.input_len()];
    client.set_timeout(Some(Duration::from_micros(1)));
    client.submit(&input).unwrap();
    client.set_timeout(None);
    client.submit(&input).unwrap();
    let answer = |client: &mut Client| loop {
        if let Some(answer) = client.try_receive().transpose() {
            break answer.map(drop);
        }
        client.pending().unwrap().wait(Duration::from_millis(50));
    };
    assert!(matches!(answer(&mut client), Err(Error::Deadline(_))));
    assert_eq!(client.open_requests(), 1);
    answer(&mut client).unwrap();
    fixture.server.registry.unload(&crate::ModelName::new("tiny").unwrap()).unwrap();
    fixture.wait_until_empty();
    client.submit(&input).unwrap();
    let said = answer(&mut client).unwrap_err();
    assert_eq!(said, Error::Unavailable("the model was unloaded".into()));
    assert_eq!(client.open_requests(), 1);
}

/// A staged input is used by the next request only, and the phases of a request add up to no more
/// than its time.
#[test]
fn staged_input_is_used_by_the_next_request_only() {
    let fixture = Fixture::new("staged");
    let mut client = fixture.client(Class::RealTime);
    let inputs = [0.25, 0.75].map(|value| vec![value; client.input_len()]);
    let want = inputs.each_ref().map(|input| client.infer(input).unwrap());
    assert_ne!(want[0], want[1]);
    let none = Err(Error::Invalid("no input is staged".into()));
    assert_eq!(client.submit_staged(), none);
    let mut got = vec![0.0; client.output_len()];
    for (input, want) in inputs.iter().zip(&want).cycle().take(10) {
        client.stage(input).unwrap();
        let begin = Instant::now();
        client.submit_staged().unwrap();
        let timing = client.receive(&mut got).unwrap();
        let all = begin.elapsed();
        assert!(timing.way_in + timing.infer + timing.way_out <= all, "{timing:?} of {all:?}");
        assert_eq!(&got, want);
        assert_eq!(client.submit_staged(), none);
    }
    client.stage(&inputs[0]).unwrap();
    client.ping().unwrap();
    assert_eq!(client.submit_staged(), none);
    assert!(matches!(client.stage(&[0.0]), Err(Error::Invalid(_))));
}

#[test]
fn refusal_is_read_before_the_hello_is_sent() {
    let folder = std::env::temp_dir().join(format!("reef-refusal-{}", std::process::id()));
    make_folder(&folder).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.join("local.sock")).unwrap();
    let refused = Error::Exhausted("full".into());
    let options = Options { folder: Some(folder.clone()), ..Options::default() };
    let heard: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                let (stream, _) = listener.accept().unwrap();
                send(&stream, &ServerHello::Refused(refused.clone()).to_bytes(), None).unwrap();
            }
        });
        (0..500).map(|_| Client::connect("tiny", &options).map(|client| client.id())).collect()
    });
    assert_eq!(heard, vec![Err(refused); 500]);
    std::fs::remove_dir_all(&folder).unwrap();
}
