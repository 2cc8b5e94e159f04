//! Costs of messages between two ends on one machine. `cargo bench -p reef-wire --bench wire`, and
//! with `-- bulk` of long messages alone.
//!
//! Wanted on 2 cores: at least 1 million messages a second, at most 1 µs for the caller of a
//! message without reply, and a call at most 6 µs slower than two bare sockets.

#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use reef_wire::{
    Authority, Client, ClientOptions, Endpoint, Handler, Hello, Link, Message, Result, Server,
    ServerOptions,
};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const QUIET: u16 = 16;
const NOTHING: u16 = 17;

/// Body of a launch with its arguments: 160 bytes with the frame's header.
const BODY: [u8; 144] = [7; 144];

static HANDLED: AtomicU64 = AtomicU64::new(0);

struct Count;

impl Handler for Count {
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> Result<()> {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        if message.wants_reply { endpoint.reply(message.number, Ok(&[])) } else { Ok(()) }
    }
}

struct Everyone;

impl Authority for Everyone {
    fn admit(&self, _: &Hello, _: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        Ok((Box::new(Count), Vec::new()))
    }
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn client(near: Link, far: Link) -> Client {
    let server = Server::new(ServerOptions::new(1), Everyone);
    thread::spawn(move || server.serve(far));
    let near = std::sync::Mutex::new(Some(near));
    let dial = move || Ok(near.lock().unwrap().take().expect("it is not cut"));
    Client::open(ClientOptions::new(1, dial), Box::new(Count)).unwrap()
}

fn over_tcp() -> Client {
    let (near, far) = tcp_pair();
    client(Link::tcp(near).unwrap(), Link::tcp(far).unwrap())
}

fn over_unix() -> Client {
    let (near, far) = UnixStream::pair().unwrap();
    client(Link::unix(near).unwrap(), Link::unix(far).unwrap())
}

/// A round trip of 32 bytes over two sockets of std: the floor.
struct Bare<S>(S);

fn bare<S: Read + Write + Send + 'static>(pair: (S, S)) -> Bare<S> {
    let (near, mut far) = pair;
    thread::spawn(move || {
        let mut bytes = [0; 32];
        while far.read_exact(&mut bytes).is_ok() && far.write_all(&bytes).is_ok() {}
    });
    Bare(near)
}

impl<S: Read + Write> Bare<S> {
    fn call(&mut self) {
        let mut bytes = [1; 32];
        self.0.write_all(&bytes).unwrap();
        self.0.read_exact(&mut bytes).unwrap();
    }
}

fn over_memory() -> Client {
    let (near, far) = UnixStream::pair().unwrap();
    let near = Link::share(near).unwrap();
    client(near, Link::shared(far).unwrap())
}

fn bare_tcp() -> Bare<TcpStream> {
    let (near, far) = tcp_pair();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    bare((near, far))
}

/// 50th and 99th percentile of a number of calls.
fn percentiles(count: usize, mut call: impl FnMut()) -> (f64, f64) {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let begin = Instant::now();
            call();
            begin.elapsed()
        })
        .collect();
    times.sort();
    let micros = |part: usize| times[count * part / 100].as_secs_f64() * 1e6;
    (micros(50), micros(99))
}

/// Messages a second, and the caller's part of it in nanoseconds.
fn throughput(client: &Client, count: u64) -> (f64, f64) {
    let begin = Instant::now();
    for _ in 0..count {
        client.post(QUIET, 0, &[&BODY]).unwrap();
    }
    let posted = begin.elapsed();
    client.call(NOTHING, 0, &[]).unwrap();
    (count as f64 / begin.elapsed().as_secs_f64(), posted.as_secs_f64() * 1e9 / count as f64)
}

/// Bytes a second of long messages, in 10^9.
fn bulk(client: &Client, count: usize) -> f64 {
    let piece = vec![7; 4 << 20];
    let begin = Instant::now();
    for _ in 0..count {
        client.post(QUIET, 0, &[&piece]).unwrap();
    }
    client.call(NOTHING, 0, &[]).unwrap();
    (count * piece.len()) as f64 / begin.elapsed().as_secs_f64() / 1e9
}

/// Bytes a second over two sockets of std, as [`bulk`].
fn bare_bulk<S: Read + Write + Send + 'static>(pair: (S, S), count: usize) -> f64 {
    let (mut near, mut far) = pair;
    let piece = vec![7; 4 << 20];
    let len = piece.len();
    let reader = thread::spawn(move || {
        let mut piece = vec![0; len];
        (0..count).for_each(|_| far.read_exact(&mut piece).unwrap());
        far.write_all(&[1]).unwrap();
    });
    let begin = Instant::now();
    (0..count).for_each(|_| near.write_all(&piece).unwrap());
    near.read_exact(&mut [0]).unwrap();
    let rate = (count * len) as f64 / begin.elapsed().as_secs_f64() / 1e9;
    reader.join().unwrap();
    rate
}

/// Time of a message in a burst that fits into the credit (mean), and of one after a pause (50th
/// percentile).
fn quiet(client: &Client, bursts: u32) -> (f64, f64) {
    let (mut burst, mut single) = (Duration::ZERO, Vec::new());
    for _ in 0..bursts {
        let begin = Instant::now();
        for _ in 0..1000 {
            client.post(QUIET, 0, &[&BODY]).unwrap();
        }
        burst += begin.elapsed();
        client.call(NOTHING, 0, &[]).unwrap();
        thread::sleep(Duration::from_micros(200));
        let begin = Instant::now();
        client.post(QUIET, 0, &[&BODY]).unwrap();
        single.push(begin.elapsed());
        client.call(NOTHING, 0, &[]).unwrap();
    }
    single.sort();
    let nanos = |time: Duration| time.as_secs_f64() * 1e9;
    (nanos(burst) / f64::from(bursts) / 1000.0, nanos(single[single.len() / 2]))
}

fn all() -> [(&'static str, Client); 3] {
    [("tcp", over_tcp()), ("unix", over_unix()), ("shm", over_memory())]
}

fn small_table(is_short: bool) {
    let (messages, bursts) = if is_short { (5_000, 3) } else { (5_000_000, 1_000) };
    for (name, client) in all() {
        let (rate, caller) = throughput(&client, messages);
        println!("{name}: {:.2} million messages/s, caller {caller:.0} ns each", rate / 1e6);
        let (burst, single) = quiet(&client, bursts);
        println!(
            "{name}: caller's time without reply: {burst:.0} ns in bursts, {single:.0} ns alone"
        );
    }
}

fn bulk_table(is_short: bool) {
    let pieces = if is_short { 4 } else { 500 };
    println!("tcp bare: {:.2} GB/s", bare_bulk(tcp_pair(), pieces));
    println!("unix bare: {:.2} GB/s", bare_bulk(UnixStream::pair().unwrap(), pieces));
    for (name, client) in all() {
        println!("{name}: {:.2} GB/s in messages of 4 MiB", bulk(&client, pieces));
    }
}

fn call_table(is_short: bool) {
    let calls = if is_short { 200 } else { 30_000 };
    let (mut tcp, mut unix) = (bare_tcp(), bare(UnixStream::pair().unwrap()));
    let (over_tcp, over_unix, over_memory) = (over_tcp(), over_unix(), over_memory());
    for round in 1..=3 {
        let rows = [
            ("tcp bare", percentiles(calls, || tcp.call())),
            ("tcp call", percentiles(calls, || drop(over_tcp.call(NOTHING, 0, &[]).unwrap()))),
            ("unix bare", percentiles(calls, || unix.call())),
            ("unix call", percentiles(calls, || drop(over_unix.call(NOTHING, 0, &[]).unwrap()))),
            ("shm call", percentiles(calls, || drop(over_memory.call(NOTHING, 0, &[]).unwrap()))),
        ];
        for (name, (p50, p99)) in rows {
            println!("round {round}: {name}: {p50:.1} µs p50, {p99:.1} µs p99");
        }
    }
}

fn wire(c: &mut Criterion) {
    let has = |word: &str| std::env::args().any(|arg| arg == word);
    bulk_table(has("--test"));
    if has("bulk") {
        return;
    }
    small_table(has("--test"));
    call_table(has("--test"));
    let client = over_tcp();
    c.bench_function("wire/post", |b| {
        b.iter(|| client.post(QUIET, 0, &[black_box(&BODY)]).unwrap());
    });
    c.bench_function("wire/call", |b| b.iter(|| client.call(NOTHING, 0, &[]).unwrap()));
    let mut bare = bare_tcp();
    c.bench_function("wire/bare", |b| b.iter(|| bare.call()));
}

criterion_group!(benches, wire);
criterion_main!(benches);
