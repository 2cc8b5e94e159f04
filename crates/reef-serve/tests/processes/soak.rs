//! A daemon whose clients are killed for a long time, by every way in and in the middle of
//! requests, while models come and go: nothing of theirs stays. Run on demand, by `tools/soak.sh`.

use crate::daemon::Daemon;
use crate::wire::{self, Call, Grpc, Http, Way};
use crate::{FLAGS, options, spawn, within};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_serve::{Class, Client, Options, Rate};
use rustix::fs::Mode;
use rustix::shm;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two samples of the daemon.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);
/// Longest time between two kills.
const KILL: Duration = Duration::from_millis(400);
/// Between loads and unloads of a model, and clients that connect anew.
const CHANGE: Duration = Duration::from_secs(2);
/// After which threads that were only needed for a moment have ended.
const CALM: Duration = Duration::from_secs(15);
/// The time in which everything of clients must be gone at the end.
const GONE: Duration = Duration::from_secs(30);
/// Allowed growth of a high percentile from the middle third to the last one: a fiftieth, or this
/// many KiB.
const SLACK_KIB: f64 = 2048.0;
/// Allowed growth of files and threads: clients that come and go have some.
const SLACK: f64 = 2.0;
/// Bytes of the output of `tiny`.
const OUTPUT: u64 = 4 * 1000;

/// All ways in; those of Unix sockets have the names of [`Way`]. The last registers shared memory.
const WAYS: [&str; 6] = ["local", "gRPC", "HTTP", "gRPC-TCP", "HTTP-TCP", "region"];

/// A client as a process: `WAY CLASS`, one inference after the other.
pub(crate) fn play(role: &str, folder: &Path) {
    let (way, class) = role.split_once(' ').expect("a way and a class");
    let mut infer = call(way, class.parse().expect("a class"), folder);
    loop {
        infer();
        println!("inference");
    }
}

fn call(way: &str, class: Class, folder: &Path) -> Call {
    let addresses = std::env::var(FLAGS).expect("set with the role");
    let (grpc, http) = addresses.split_once('\n').expect("two lines");
    match way {
        "local" if class == Class::RealTime => claiming(folder),
        "gRPC-TCP" => {
            let (mut grpc, request) = (Grpc::connect_to(grpc), wire::infer_request("tiny", class));
            let request = match class {
                Class::RealTime => wire::stating(request, 10_000, 1_000),
                Class::BestEffort => request,
            };
            Box::new(move || grpc.infer(request.clone()).expect("an answer"))
        }
        "HTTP-TCP" => {
            let (mut http, request) =
                (Http::connect_to(http).expect("it listens"), wire::post(class));
            Box::new(move || assert_eq!(http.ask(&request).expect("an answer").0, 200))
        }
        "region" => in_region(class, folder),
        _ => {
            let way = Way::ALL.into_iter().find(|one| one.name() == way).expect("a way");
            wire::inference(way, class, folder)
        }
    }
}

/// A real-time client of the local path that states a budget.
fn claiming(folder: &Path) -> Call {
    let rate = Rate::new(Duration::from_millis(10), Duration::from_millis(1)).expect("a rate");
    let options = Options { rate: Some(rate), ..options(folder, Some(Class::RealTime)) };
    let mut client = Client::connect("tiny", &options).expect("a daemon with the model");
    assert!(client.has_budget());
    let (input, mut output) = (vec![0.5; client.input_len()], vec![0.0; client.output_len()]);
    Box::new(move || {
        let _times = client.infer_into(&input, &mut output).expect("an answer");
    })
}

/// Its tensors are in shared memory, which has no name any more once it is registered.
fn in_region(class: Class, folder: &Path) -> Call {
    let (mut grpc, name) = (Grpc::connect(folder), format!("reef-soak-{}", std::process::id()));
    let (key, bytes) = (format!("/{name}"), 4 * wire::VALUES as u64 + OUTPUT);
    let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
    let memory = shm::open(key.as_str(), flags, Mode::RUSR | Mode::WUSR).expect("shared memory");
    rustix::fs::ftruncate(&memory, bytes).expect("its length");
    let registered = grpc.register(&name, &key, bytes);
    shm::unlink(key.as_str()).expect("it is there");
    registered.expect("it belongs to us");
    let request = wire::infer_in_region(&name, class, OUTPUT);
    Box::new(move || {
        grpc.infer(request.clone()).expect("an answer");
        let _ours = &memory;
    })
}

/// A client process that is begun anew whenever it is killed.
struct Soaker {
    role: String,
    addresses: [String; 2],
    child: Child,
    inferences: Arc<AtomicU64>,
}

impl Soaker {
    fn new(way: &str, class: Class, daemon: &Daemon) -> Self {
        let role = format!("{way} {}", class.name());
        let addresses = [daemon.grpc.clone(), daemon.http.clone()];
        let inferences = Arc::new(AtomicU64::new(0));
        let child = Self::start(&role, daemon.folder(), &addresses, &inferences);
        Self { role, addresses, child, inferences }
    }

    fn start(role: &str, folder: &Path, addresses: &[String], count: &Arc<AtomicU64>) -> Child {
        let mut child = spawn(role, folder, addresses);
        let (said, count) = (child.stdout.take().expect("piped"), count.clone());
        thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                count.fetch_add(u64::from(line == "inference"), Ordering::Relaxed);
            }
        });
        child
    }

    /// Kills it −9 and begins anew. Nothing else may have ended it.
    fn replace(&mut self, folder: &Path) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "{}: ended by itself", self.role);
        self.kill();
        self.child = Self::start(&self.role, folder, &self.addresses, &self.inferences);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The daemon's usage at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    kib: f64,
    threads: f64,
    files: f64,
}

/// The values that must be the same at the end, when all clients have gone.
#[derive(Debug, PartialEq)]
struct Rest {
    /// Bytes of models, clients and regions; of requests.
    memory: f64,
    requests: f64,
    /// Connections with the one that reads this, and open requests.
    clients: f64,
    open: f64,
    claimed: f64,
    shared: usize,
    threads: u64,
    files: Vec<String>,
}

impl Rest {
    fn of(daemon: &Daemon) -> Self {
        let text = daemon.get("/metrics");
        let claimed = text.lines().filter_map(|line| {
            line.strip_prefix("reef_client_claimed{")?.rsplit(' ').next()?.parse::<f64>().ok()
        });
        Self {
            memory: daemon.metric("reef_memory_bytes"),
            requests: daemon.metric("reef_request_memory_bytes"),
            clients: daemon.clients(),
            open: daemon.metric("reef_open_requests"),
            claimed: claimed.sum(),
            shared: daemon.shared(),
            threads: daemon.usage().1,
            files: daemon.files(),
        }
    }
}

#[test]
#[ignore = "takes half an hour: tools/soak.sh"]
fn soak() {
    let seconds = std::env::var("REEF_SOAK_SECONDS").map_or(1800, |text| text.parse().unwrap());
    let (seed, time) = (1, Duration::from_secs(seconds));
    println!("{seconds} s, seed {seed}");
    let daemon = Daemon::start("soak", &[]);
    visit(&daemon);
    thread::sleep(CALM); // sleep: until what comes and goes has gone; this is a soak
    let before = Rest::of(&daemon);
    println!("before: {before:?}");
    let all = WAYS.into_iter().flat_map(|way| Class::ALL.map(|class| (way, class)));
    let mut soakers: Vec<Soaker> =
        all.map(|(way, class)| Soaker::new(way, class, &daemon)).collect();
    let (samples, kills) = soaking(&daemon, &mut soakers, time, seed);
    for soaker in &soakers {
        let count = soaker.inferences.load(Ordering::Relaxed);
        println!("{}: {count} inferences", soaker.role);
        assert!(count > 0, "{}: never served", soaker.role);
    }
    println!("{kills} clients killed, {} preemptions", daemon.metric("reef_preemptions"));
    drop(soakers);
    thread::sleep(CALM); // sleep: until what comes and goes has gone; this is a soak
    let (begin, mut after) = (Instant::now(), Rest::of(&daemon));
    while after != before && begin.elapsed() < GONE {
        thread::sleep(Duration::from_millis(200)); // sleep: poll of a condition
        after = Rest::of(&daemon);
    }
    println!("after: {after:?}");
    judge("RSS KiB", &samples, |sample| sample.kib, SLACK_KIB);
    judge("threads", &samples, |sample| sample.threads, SLACK);
    judge("files", &samples, |sample| sample.files, SLACK);
    assert_eq!(after, before, "nothing of clients is left");
    visit(&daemon);
}

/// Everything once that makes something for good.
fn visit(daemon: &Daemon) {
    let mut grpc = Grpc::connect(daemon.folder());
    grpc.load("other", true)
        .and_then(|()| grpc.load("other", false))
        .expect("there is such a model");
    for way in Way::ALL {
        for class in Class::ALL {
            wire::inference(way, class, daemon.folder())();
        }
    }
    drop(grpc);
    within(GONE, "visitors have gone", || daemon.clients() == 1.0);
}

/// Kills clients, loads and unloads a model, connects anew; looks at the daemon meanwhile.
fn soaking(
    daemon: &Daemon,
    soakers: &mut [Soaker],
    time: Duration,
    seed: u64,
) -> (Vec<Sample>, usize) {
    let (folder, mut rng) = (daemon.folder(), ChaCha8Rng::seed_from_u64(seed));
    let connect = || Client::connect("tiny", &options(folder, Some(Class::RealTime)));
    let mut again = connect().expect("it listens");
    let input = vec![0.5; again.input_len()];
    let want = again.infer(&input).expect("an answer");
    let (mut grpc, mut samples, begin) = (Grpc::connect(folder), Vec::new(), Instant::now());
    let (mut kills, mut changes) = (0, 0u32);
    println!("seconds,rss_kib,threads,files");
    while begin.elapsed() < time {
        thread::sleep(KILL.mul_f64(rng.random())); // sleep: any length is right
        let one = rng.random_range(0..soakers.len());
        soakers[one].replace(folder);
        kills += 1;
        if begin.elapsed() >= CHANGE * (changes + 1) {
            grpc.load("other", changes.is_multiple_of(2)).expect("there is such a model");
            again.reconnect().expect("it listens");
            assert_eq!(again.infer(&input).expect("an answer"), want);
            changes += 1;
        }
        if begin.elapsed() >= SAMPLE_INTERVAL * (samples.len() as u32 + 1) {
            samples.push(sample(daemon, begin));
        }
    }
    if !changes.is_multiple_of(2) {
        grpc.load("other", false).expect("it is loaded");
    }
    (samples, kills)
}

fn sample(daemon: &Daemon, begin: Instant) -> Sample {
    let (bytes, threads) = daemon.usage();
    let (kib, files) = (bytes / 1024, daemon.files().len());
    println!("{},{kib},{threads},{files}", begin.elapsed().as_secs());
    Sample { kib: kib as f64, threads: threads as f64, files: files as f64 }
}

/// The last third is not above the middle one, by their 90th percentiles: a model that comes and
/// goes makes means a matter of when one looks.
fn judge(what: &str, samples: &[Sample], value: fn(&Sample) -> f64, slack: f64) {
    let third = samples.len() / 3;
    assert!(third > 0, "{} samples are too few", samples.len());
    let most_of = |part: &[Sample]| {
        let mut values: Vec<f64> = part.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[(values.len() - 1) * 9 / 10]
    };
    let middle = most_of(&samples[samples.len() - 2 * third..samples.len() - third]);
    let last = most_of(&samples[samples.len() - third..]);
    println!("{what}: {middle} in the middle third, {last} in the last");
    let most = middle + slack.max(middle / 50.0);
    assert!(last <= most, "{what}: {last}, at most {most:.1} was expected");
}
