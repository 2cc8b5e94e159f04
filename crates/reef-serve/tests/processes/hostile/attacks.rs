//! The attacks: a row of [`ATTACKS`] each, which goes on until its process is killed.

use crate::memory::stalled;
use crate::wire::{VALUES, json, request};
use hyper::body::Bytes;
use reef_serve::Class;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tonic::transport::Endpoint;

/// The addresses of the daemon.
pub(super) struct Target {
    pub(super) grpc: String,
    pub(super) http: String,
    /// Of its sockets and models.
    pub(super) folder: PathBuf,
}

/// An attack.
pub(super) struct Attack {
    /// Attacks of one number aim at the same thing.
    pub(super) number: u32,
    pub(super) name: &'static str,
    /// The settings of the daemon that it needs.
    pub(super) settings: &'static [&'static str],
    /// By another user of the machine; else by another process of the same.
    pub(super) is_foreign: bool,
    /// Goes on for ever.
    pub(super) run: fn(&Target),
}

impl Attack {
    const fn new(number: u32, name: &'static str, run: fn(&Target)) -> Self {
        Self { number, name, settings: &[], is_foreign: false, run }
    }
}

/// Before a client that was cut off connects anew. Without a pause the attack would be on the
/// machine's processors.
const CUT_OFF: Duration = Duration::from_millis(20);

/// 1 places, 2 memory, 3 real time, 4 models, 5 control, 6 threads of I/O, 7 sockets, 8 regions. A
/// new one is a row here.
pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(1, "idle connections", idle),
    Attack::new(1, "clients that read nothing", unread),
    Attack::new(1, "connecting without a pause", connect),
    Attack::new(2, "messages without an end", endless),
    Attack::new(3, "greedy real-time requests", greedy),
    Attack {
        settings: &["rights.others={ rt = true, control = true }"],
        ..Attack::new(4, "models that grow", models)
    },
    Attack::new(5, "unloads of models", unload),
    Attack::new(6, "long JSON", long_json),
    Attack {
        settings: &["listen.users=all"],
        is_foreign: true,
        ..Attack::new(7, "sockets of another user", forge)
    },
    Attack::new(8, "regions of all unregistered", unregister),
];

/// Takes all places that it can get and keeps them; those that it loses it takes anew.
fn idle(target: &Target) {
    let mut all: Vec<TcpStream> = Vec::new();
    loop {
        for address in [&target.http, &target.grpc] {
            all.extend((0..100).filter_map(|_| TcpStream::connect(address).ok()));
        }
        thread::sleep(Duration::from_millis(50)); // sleep: pace of the attack
        let excess = all.len().saturating_sub(600);
        all.drain(..excess); // the number of open files is limited
    }
}

fn unread(target: &Target) {
    let http = &target.http;
    thread::scope(|scope| {
        (0..100).for_each(|_| drop(scope.spawn(|| forever(|| flood(http)))));
    });
}

/// Connects as fast as it can, asks and goes.
fn connect(target: &Target) {
    let ask = || {
        TcpStream::connect(&target.http)?.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n")
    };
    thread::scope(|scope| {
        let forever = || {
            loop {
                let _ = ask(); // it may be sent away
            }
        };
        (0..2).for_each(|_| drop(scope.spawn(forever)));
    });
}

/// Asks until nothing more is taken.
fn flood(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    loop {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    }
}

fn endless(target: &Target) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let chunk = Bytes::from(vec![0x2a; 64 << 10]);
        loop {
            let endpoint = Endpoint::from_shared(format!("http://{}", target.grpc)).expect("one");
            let Ok(channel) = endpoint.connect().await else { continue };
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..100 {
                calls.spawn(stalled(channel.clone(), 16 << 20, vec![chunk.clone(); 200]));
            }
            let all = async { while calls.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
        }
    });
}

fn greedy(target: &Target) {
    let text = json(Class::RealTime, 4 * VALUES);
    let body = [text.as_bytes(), &[0x3f; 4 * VALUES]].concat();
    ask_for_ever(target, 4, &request(Some(text.len()), &body));
}

fn unload(target: &Target) {
    let ask = |what| {
        let head = format!("POST /v2/repository/models/{what} HTTP/1.1\r\nhost: localhost\r\n");
        format!("{head}content-length: 0\r\n\r\n").into_bytes()
    };
    ask_for_ever(target, 1, &[ask("tiny/unload"), ask("other/load"), ask("other/unload")].concat());
}

/// Files of which large things would be made, or that are wrong.
const BOMBS: &[(&str, &[u8])] = &[
    ("add-bomb", include_bytes!("../../../../../fuzz/seeds/onnx/add-bomb.onnx")),
    ("concat-bomb", include_bytes!("../../../../../fuzz/seeds/onnx/concat-bomb.onnx")),
    ("inception-13", include_bytes!("../../../../../fuzz/seeds/onnx/inception-13.onnx")),
    ("odd-21", include_bytes!("../../../../../fuzz/seeds/onnx/odd-21.onnx")),
];

/// Makes the daemon read small files that expand to large ones, and files that are not models. It
/// needs the right to load models.
fn models(target: &Target) {
    let place = |name: &str| target.folder.join(format!("models/{name}.onnx"));
    for (name, bytes) in BOMBS {
        std::fs::write(place(name), bytes).expect("room");
    }
    std::fs::write(place("noise"), vec![0x0a; 1 << 20]).expect("room");
    let load = |name: &str| {
        let head =
            format!("POST /v2/repository/models/{name}/load HTTP/1.1\r\nhost: localhost\r\n");
        format!("{head}content-length: 0\r\n\r\n")
    };
    let names = BOMBS.iter().map(|(name, _)| *name).chain(["noise"]);
    let all: Vec<_> = names.map(load).collect();
    thread::scope(|scope| {
        for one in all {
            scope.spawn(move || forever(|| ask(&target.http, one.as_bytes())));
        }
    });
}

/// Tries to take the daemon's sockets away and to put others there, and talks nonsense to them.
fn forge(target: &Target) {
    let mut tries = 0_u64;
    loop {
        for name in ["local.sock", "grpc.sock", "http.sock"] {
            let socket = target.folder.join(name);
            let moved = target.folder.join(format!("old-{name}"));
            let is_done = std::fs::rename(&socket, moved).is_ok()
                || std::fs::remove_file(&socket).is_ok()
                || UnixListener::bind(&socket).is_ok()
                || std::fs::set_permissions(&socket, Permissions::from_mode(0o000)).is_ok();
            assert!(!is_done, "{name} was ours to change");
            if let Ok(mut stream) = UnixStream::connect(&socket) {
                let _ = stream.write_all(&tries.to_le_bytes().repeat(16)); // it may be sent away
            }
        }
        tries += 1;
        thread::sleep(Duration::from_millis(1)); // sleep: pace of the attack
    }
}

fn long_json(target: &Target) {
    let data = "0.25,".repeat((14 << 20) / 5);
    let input =
        format!("{{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[{data}0]}}");
    ask_for_ever(target, 4, &request(None, format!("{{\"inputs\":[{input}]}}").as_bytes()));
}

fn unregister(target: &Target) {
    let head = "POST /v2/systemsharedmemory/unregister HTTP/1.1\r\nhost: localhost\r\n";
    ask_for_ever(target, 1, format!("{head}content-length: 0\r\n\r\n").as_bytes());
}

/// `clients` threads send this request again and again and ignore the answers.
fn ask_for_ever(target: &Target, clients: usize, request: &[u8]) {
    thread::scope(|scope| {
        (0..clients).for_each(|_| drop(scope.spawn(|| forever(|| ask(&target.http, request)))));
    });
}

/// Sends on one connection, as long as it is there, and waits for an answer of some kind each time.
fn ask(address: &str, request: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answer = vec![0; 64 << 10];
    loop {
        stream.write_all(request)?;
        if stream.read(&mut answer)? == 0 {
            return Ok(());
        }
    }
}

fn forever(mut attack: impl FnMut() -> std::io::Result<()>) {
    loop {
        if attack().is_err() {
            thread::sleep(CUT_OFF); // sleep: pace of the attack
        }
    }
}
