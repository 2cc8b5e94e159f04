//! Programs whose connection breaks: each call is made once, and nothing is lost.

use crate::alone::wait_for_turn;
use crate::common::{self, Driver, SOON, Work, call, fake_copy};
use crate::proxy::Proxy;
use crate::support;
use crate::tenants::Deaf;
use reef_remote_calls::SCHEMA;
use reef_wire::{Client, ClientOptions, Error};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Opens the client's library, and begins its session.
fn open(name: &str, address: &str) -> Driver {
    let driver = support::client(name);
    // SAFETY: one test at a time reads or writes the environment.
    unsafe { std::env::set_var("REEF_REMOTE", address) };
    begin(driver);
    driver
}

fn begin(driver: Driver) {
    let mut context = 0_usize;
    assert_eq!(call!(driver, cuInit(0)), 0);
    assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
    assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
}

/// Calls of the host function below.
static HOST_CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: usize) {
    HOST_CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Calls of every way, the effect of which shows how often and in which order they were made:
/// returns codes and what the device holds.
fn body(driver: Driver, work: &Work, round: u64) -> (Vec<u32>, [u64; 2]) {
    let mut codes = Vec::new();
    let mut note = |code: u32| codes.push(code);
    let (first, second) = (work.memory, work.memory + 8);
    note(driver.launch("cuLaunchKernel", work.mix, work.stream, first, round));
    note(driver.launch("cuLaunchKernel", work.mix, work.stream, first, round + 1));
    note(call!(driver, cuMemcpyDtoDAsync_v2(second, first, 8, work.stream)));
    note(driver.launch("cuLaunchKernel", work.mix, work.stream, second, round + 2));
    let function = count as extern "C" fn(usize) as usize;
    note(call!(driver, cuLaunchHostFunc(work.stream, function, 0)));
    let (mut other, mut event) = (0_usize, 0_usize);
    note(call!(driver, cuMemAlloc_v2(&raw mut other, 64)));
    note(call!(driver, cuEventCreate(&raw mut event, 0)));
    note(call!(driver, cuEventRecord(event, work.stream)));
    note(call!(driver, cuMemcpyDtoDAsync_v2(other, second, 8, work.stream)));
    note(call!(driver, cuStreamSynchronize(work.stream)));
    note(call!(driver, cuEventQuery(event)));
    note(call!(driver, cuEventDestroy_v2(event)));
    let mut left = [0_u64; 2];
    note(call!(driver, cuMemcpyDtoH_v2(left.as_mut_ptr(), work.memory, 8)));
    note(call!(driver, cuMemcpyDtoH_v2(&raw mut left[1], other, 8)));
    note(call!(driver, cuMemFree_v2(other)));
    // A handle that has ended, by a call that waits.
    note(call!(driver, cuStreamQuery(event)));
    (codes, left)
}

/// Each number of bytes in turn, of what both ends say on a connection that a session continues
/// with: the calls, their codes and their effect are those of a driver here.
#[test]
fn session_cut_at_every_byte_makes_each_call_once() {
    let _one = wait_for_turn();
    let copy = fake_copy("reef-plain-cut");
    let plain = Driver::open(&copy);
    begin(plain);
    let budget = Arc::new(Mutex::new(None));
    let next = budget.clone();
    let proxy =
        Proxy::start(&support::serve_torn("127.0.0.1:0"), move |_| next.lock().unwrap().take());
    let far = open("cut", &format!("127.0.0.1:{}", proxy.port));
    let (here, there) = (plain.work(16), far.work(16));
    for (driver, work) in [(plain, &here), (far, &there)] {
        assert_eq!(call!(driver, cuMemsetD8_v2(work.memory, 0, 16)), 0);
        assert_eq!(call!(driver, cuCtxSynchronize()), 0);
    }
    let mut cuts = 0;
    for cut_after in 1.. {
        let breaks = proxy.breaks();
        *budget.lock().unwrap() = Some(cut_after);
        proxy.cut();
        let calls = HOST_CALLS.load(Ordering::Relaxed);
        let got = body(far, &there, cut_after);
        assert_eq!(HOST_CALLS.load(Ordering::Relaxed), calls + 1, "cut after {cut_after} bytes");
        let expected = body(plain, &here, cut_after);
        assert_eq!(got, expected, "cut after {cut_after} bytes");
        if proxy.breaks() == breaks {
            break;
        }
        cuts = cut_after;
    }
    assert!(cuts > 1000, "the whole of it was cut, {cuts} bytes");
    std::fs::remove_file(copy).unwrap();
}

fn dial(port: u16) -> ClientOptions {
    let address: reef_wire::Address = format!("127.0.0.1:{port}").parse().unwrap();
    ClientOptions::new(SCHEMA, move || address.connect(SOON, None))
}

#[test]
fn opening_that_is_cut_is_made_again() {
    let _one = wait_for_turn();
    let server = support::serve("127.0.0.1:0");
    for cut_after in [1, 16, 71, 72, 90, 130, 150, 400, 1000] {
        let proxy = Proxy::start(&server, move |connection| (connection == 0).then_some(cut_after));
        let client = Client::open(dial(proxy.port), Box::new(Deaf)).unwrap();
        assert!(!client.facts().is_empty());
        assert_eq!(proxy.connections(), 2, "cut after {cut_after} bytes");
    }
}

/// A copy there and back, whose connections break all the time.
#[test]
fn long_copy_survives_cuts() {
    let _one = wait_for_turn();
    let proxy = Proxy::start(&support::serve_torn("127.0.0.1:0"), |connection| {
        (connection < 14).then_some(1_000_003 + (connection as u64 % 5) * 7_654_321)
    });
    let far = open("long", &format!("127.0.0.1:{}", proxy.port));
    const WORDS: usize = 100 << 17;
    let sent: Vec<u64> = (0..WORDS as u64).map(|at| at.wrapping_mul(0x9e37_79b9)).collect();
    let (mut memory, mut back) = (0_usize, vec![0_u64; WORDS]);
    assert_eq!(call!(far, cuMemAlloc_v2(&raw mut memory, 8 * WORDS)), 0);
    assert_eq!(call!(far, cuMemcpyHtoD_v2(memory, sent.as_ptr(), 8 * WORDS)), 0);
    assert_eq!(call!(far, cuMemcpyDtoH_v2(back.as_mut_ptr(), memory, 8 * WORDS)), 0);
    assert!(sent == back, "the bytes are the same");
    assert!(proxy.breaks() >= 14, "{} breaks", proxy.breaks());
}

/// Four threads, each with a stream and words of its own, and an unreliable line.
#[test]
fn threads_share_a_session_that_breaks() {
    let _one = wait_for_turn();
    const ROUNDS: u64 = 1500;
    let copy = fake_copy("reef-plain-load");
    let plain = Driver::open(&copy);
    begin(plain);
    let proxy = Proxy::start(&support::serve_torn("127.0.0.1:0"), |connection| {
        (1..40).contains(&connection).then_some(2_000 + 919 * connection as u64)
    });
    let far = open("load", &format!("127.0.0.1:{}", proxy.port));
    proxy.cut();
    let run = |driver: Driver| -> Vec<u64> {
        let thread = |number: u64| {
            let mut context = 0_usize;
            assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
            assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
            let work = driver.work(8);
            assert_eq!(call!(driver, cuMemsetD8_v2(work.memory, 0, 8)), 0);
            assert_eq!(call!(driver, cuCtxSynchronize()), 0);
            let mut left = 0_u64;
            for round in 0..ROUNDS {
                let value = number << 32 | round;
                let code =
                    driver.launch("cuLaunchKernel", work.mix, work.stream, work.memory, value);
                assert_eq!(code, 0);
                if round % 11 == number {
                    assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
                }
            }
            assert_eq!(call!(driver, cuStreamSynchronize(work.stream)), 0);
            assert_eq!(call!(driver, cuMemcpyDtoH_v2(&raw mut left, work.memory, 8)), 0);
            left
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|number| scope.spawn(move || thread(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    assert_eq!(run(far), run(plain));
    assert!(proxy.breaks() > 10, "{} breaks", proxy.breaks());
    std::fs::remove_file(copy).unwrap();
}

/// Host functions that wait until they may end.
static IS_OPEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn wait_until_open(calls: *const AtomicUsize) {
    // SAFETY: the test waits for this call.
    unsafe { &*calls }.fetch_add(1, Ordering::Relaxed);
    while IS_OPEN.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

#[test]
fn call_that_blocks_during_a_cut_returns_once_it_has_ended() {
    let _one = wait_for_turn();
    let proxy = Proxy::start(&support::serve_torn("127.0.0.1:0"), |_| None);
    let far = open("blocked", &format!("127.0.0.1:{}", proxy.port));
    let (work, calls) = (far.work(8), AtomicUsize::new(0));
    let function = wait_until_open as extern "C" fn(*const AtomicUsize) as usize;
    assert_eq!(call!(far, cuLaunchHostFunc(work.stream, function, &raw const calls)), 0);
    let (stream, port) = (work.stream, proxy.port);
    let waiting = std::thread::spawn(move || call!(far, cuStreamSynchronize(stream)));
    common::until("the host function runs", || calls.load(Ordering::Relaxed) == 1);
    for cut in 1..=5 {
        proxy.cut();
        common::until("there is another connection", || proxy.connections() == cut + 1);
        // sleep: time in which a fault would show; none fails a right client
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "cut {cut} of port {port}");
    }
    IS_OPEN.store(1, Ordering::Relaxed);
    assert_eq!(waiting.join().unwrap(), 0);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// Files of a server with TLS and a token.
struct Secrets {
    folder: PathBuf,
}

impl Secrets {
    const TOKEN: &str = "0123456789abcdef";

    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("reef-b0-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pair = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        std::fs::write(folder.join("cert"), pair.cert.pem()).unwrap();
        std::fs::write(folder.join("key"), pair.signing_key.serialize_pem()).unwrap();
        std::fs::write(folder.join("token"), Self::TOKEN).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A server, and what its clients have in their environment.
    fn serve(&self) -> String {
        let address = support::serve_with("127.0.0.1:0", |options| {
            support::wait_for_torn_clients(options);
            options.security.cert = Some(self.file("cert"));
            options.security.key = Some(self.file("key"));
            options.security.token = Some(self.file("token"));
        });
        // SAFETY: one test at a time reads or writes the environment.
        unsafe {
            std::env::set_var("REEF_REMOTE_CA", self.file("cert"));
            std::env::set_var("REEF_REMOTE_TOKEN_FILE", self.file("token"));
        }
        address
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        // SAFETY: one test at a time reads or writes the environment.
        unsafe {
            std::env::remove_var("REEF_REMOTE_CA");
            std::env::remove_var("REEF_REMOTE_TOKEN_FILE");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The worker has neither the token nor the key, and the session survives cuts.
#[test]
fn session_over_tls_continues_and_its_worker_has_no_secret() {
    let _one = wait_for_turn();
    let others = support::children(std::process::id()); // of tests before, which still end
    let secrets = Secrets::new("tls");
    let server = secrets.serve();
    assert!(server.starts_with("tls:"), "{server}");
    let proxy = Proxy::start(&server, |connection| {
        (connection > 0 && connection < 12).then_some(3_000 + 500 * connection as u64)
    });
    let far = open("tls", &format!("tls:localhost:{}", proxy.port));
    let work = far.work(16);
    assert_eq!(call!(far, cuMemsetD8_v2(work.memory, 0, 16)), 0);
    assert_eq!(call!(far, cuCtxSynchronize()), 0);
    let copy = fake_copy("reef-plain-tls");
    let plain = Driver::open(&copy);
    begin(plain);
    let here = plain.work(16);
    assert_eq!(call!(plain, cuMemsetD8_v2(here.memory, 0, 16)), 0);
    assert_eq!(call!(plain, cuCtxSynchronize()), 0);
    proxy.cut();
    for round in 0..60 {
        assert_eq!(body(far, &work, round), body(plain, &here, round), "round {round}");
    }
    assert!(proxy.breaks() > 3, "{} breaks", proxy.breaks());
    let mut workers = support::children(std::process::id());
    workers.retain(|worker| !others.contains(worker));
    assert!(!workers.is_empty());
    let key = secret_number(&secrets.file("key"));
    let has = |pid: u32, secret: &[u8]| {
        let memory = support::memory::memory_of(pid);
        assert!(memory.len() > 1 << 20, "it was read: {} bytes", memory.len());
        memory.windows(secret.len()).any(|bytes| bytes == secret)
    };
    assert!(has(std::process::id(), &key), "the server has the key");
    for pid in workers {
        assert!(!has(pid, &key), "worker {pid} has the key");
        assert!(!has(pid, Secrets::TOKEN.as_bytes()), "worker {pid} has the token");
    }
    std::fs::remove_file(copy).unwrap();
}

/// The secret number of a key, as it stands in memory once it has been read.
fn secret_number(pem: &std::path::Path) -> Vec<u8> {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    let key = PrivateKeyDer::from_pem_file(pem).unwrap();
    // The private number of a P-256 key in PKCS #8.
    key.secret_der()[36..68].to_vec()
}

/// An unauthenticated peer with the bytes of a client's hello can neither continue its session nor
/// disturb it.
#[test]
fn peer_with_the_name_of_a_session_does_not_disturb_it() {
    let _one = wait_for_turn();
    let secrets = Secrets::new("outsider");
    // Without TLS, so that the outsider sees the session's name.
    let server = support::serve_with("127.0.0.1:0", |options| {
        support::wait_for_torn_clients(options);
        options.security.token = Some(secrets.file("token"));
    });
    // SAFETY: one test at a time reads or writes the environment.
    unsafe { std::env::set_var("REEF_REMOTE_TOKEN_FILE", secrets.file("token")) };
    let proxy = Proxy::start(&server, |_| None);
    let far = open("outsider", &format!("127.0.0.1:{}", proxy.port));
    let work = far.work(16);
    proxy.cut();
    assert_eq!(call!(far, cuStreamSynchronize(work.stream)), 0);
    assert_eq!(proxy.connections(), 2);
    let said = proxy.last_hello(); // begins with the hello that continues the session
    let len = u32::from_le_bytes(said[..4].try_into().unwrap()) as usize;
    let hello = &said[..16 + len.next_multiple_of(8)];
    for _ in 0..3 {
        let mut outsider = TcpStream::connect(&server).unwrap();
        outsider.write_all(hello).unwrap();
        let mut answer = Vec::new();
        outsider.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("the token is not one of this server's"), "{answer}");
        assert_eq!(call!(far, cuStreamSynchronize(work.stream)), 0);
    }
    assert_eq!(proxy.connections(), 2, "its connection was not cut");
}

#[test]
fn session_that_is_not_there_is_refused_with_text() {
    let _one = wait_for_turn();
    let server = support::serve("127.0.0.1:0");
    let proxy = Proxy::start(&server, |_| None);
    let client = Client::open(dial(proxy.port), Box::new(Deaf)).unwrap();
    // Its worker, and those of tests before.
    let ours: Vec<u32> = support::children(std::process::id());
    assert!(!ours.is_empty());
    for pid in ours {
        // SAFETY: a process that this test started.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
    let begin = Instant::now();
    let error = client.call(28, 1, &[&[0; 8]]).unwrap_err();
    assert!(matches!(error, Error::Refused(_) | Error::Ended(_)), "{error}");
    assert!(error.to_string().contains("there is no such session (any more)"), "{error}");
    assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
}

/// Connections that say nothing, or one byte at a time, hold up themselves alone.
#[test]
fn silent_connections_hold_up_no_other() {
    let _one = wait_for_turn();
    let server = support::serve("127.0.0.1:0");
    // On a busy machine it may take as long as they have.
    assert!((0..5).any(|_| opens_before_they_end(&server)), "five times not within 8 s");
}

/// Returns whether a client that comes after silent connections is there before they have ended.
fn opens_before_they_end(server: &str) -> bool {
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server).unwrap()).collect();
    for (at, mut stream) in silent.iter().enumerate() {
        stream.write_all(&[0; 3][..at % 4]).unwrap();
    }
    let begin = Instant::now();
    let address: reef_wire::Address = server.parse().unwrap();
    let options = ClientOptions::new(SCHEMA, move || address.connect(SOON, None));
    Client::open(options, Box::new(Deaf)).unwrap();
    let took = begin.elapsed();
    println!("opened within {took:?}");
    for mut stream in silent {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("said nothing for 10 s"), "{answer}");
    }
    took < Duration::from_secs(8)
}
