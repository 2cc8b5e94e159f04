//! A daemon under everything at once for a long time: its memory, files and threads stay what they are.
//! Run on demand, by `tools/soak.sh`.

use crate::daemon::Daemon;
use crate::wire::{self, Grpc, Way};
use crate::{options, spawn, within};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_serve::{Class, Client};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between looks at the daemon.
const LOOK: Duration = Duration::from_secs(10);
/// Between the ends of clients, and loads of models.
const CHANGE: Duration = Duration::from_secs(2);
/// How much the mean of the last third may be above that of the middle one: a fiftieth, or so many KiB.
const SLACK_KIB: f64 = 2048.0;
/// The same for files and threads: clients that come and go have some.
const SLACK: f64 = 2.0;

/// A client as a process: `WAY CLASS`, one inference after the other.
pub(crate) fn play(role: &str, folder: &Path) {
    let (way, class) = role.split_once(' ').expect("a way and a class");
    let way = Way::EACH.into_iter().find(|one| one.name() == way).expect("a way");
    let mut infer = wire::inference(way, class.parse().expect("a class"), folder);
    loop {
        infer();
        println!("inference");
    }
}

/// A client process that is begun anew whenever it is killed.
struct Soaker {
    role: String,
    child: Child,
    inferences: Arc<AtomicU64>,
}

impl Soaker {
    fn new(way: Way, class: Class, folder: &Path) -> Self {
        let role = format!("{} {}", way.name(), class.name());
        let inferences = Arc::new(AtomicU64::new(0));
        let child = Self::start(&role, folder, &inferences);
        Self { role, child, inferences }
    }

    fn start(role: &str, folder: &Path, inferences: &Arc<AtomicU64>) -> Child {
        let mut child = spawn(role, folder, &[]);
        let (said, inferences) = (child.stdout.take().expect("piped"), inferences.clone());
        thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                inferences.fetch_add(u64::from(line == "inference"), Ordering::Relaxed);
            }
        });
        child
    }

    /// Kills it −9 and begins anew. Nothing else may have ended it.
    fn replace(&mut self, folder: &Path) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "{}: ended by itself", self.role);
        self.kill();
        self.child = Self::start(&self.role, folder, &self.inferences);
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

/// What the daemon has at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    kib: f64,
    threads: f64,
    files: f64,
}

#[test]
#[ignore = "takes ten minutes: tools/soak.sh"]
fn soak() {
    let seconds = std::env::var("REEF_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let (seed, time) = (1, Duration::from_secs(seconds));
    println!("{seconds} s, seed {seed}");
    let daemon = Daemon::start("soak", &[]);
    let folder = daemon.folder();
    let memory = daemon.metric("reef_memory_bytes");
    let mut soakers: Vec<Soaker> = Way::EACH
        .into_iter()
        .flat_map(|way| Class::EACH.map(|class| Soaker::new(way, class, folder)))
        .collect();
    let samples = soaking(&daemon, &mut soakers, time, seed);
    for soaker in &soakers {
        let count = soaker.inferences.load(Ordering::Relaxed);
        println!("{}: {count} inferences", soaker.role);
        assert!(count > 0, "{}: never served", soaker.role);
    }
    println!("{} preemptions", daemon.metric("reef_preemptions"));
    drop(soakers);
    within(Duration::from_secs(5), "all have gone", || daemon.clients() == 1.0);
    assert_eq!(daemon.metric("reef_memory_bytes"), memory, "all that clients reserved is back");
    judge("RSS KiB", &samples, |sample| sample.kib, SLACK_KIB);
    judge("threads", &samples, |sample| sample.threads, SLACK);
    judge("files", &samples, |sample| sample.files, SLACK);
}

/// Kills clients, loads and unloads a model, connects anew; looks at the daemon meanwhile.
fn soaking(daemon: &Daemon, soakers: &mut [Soaker], time: Duration, seed: u64) -> Vec<Sample> {
    let (folder, mut rng) = (daemon.folder(), ChaCha8Rng::seed_from_u64(seed));
    let mut again =
        Client::connect("tiny", &options(folder, Some(Class::RealTime))).expect("it listens");
    let input = vec![0.5; again.input_len()];
    let want = again.infer(&input).expect("an answer");
    let (mut grpc, mut samples, begin) = (Grpc::connect(folder), Vec::new(), Instant::now());
    println!("seconds,rss_kib,threads,files");
    for n in 0u32.. {
        thread::sleep((begin + CHANGE * n).saturating_duration_since(Instant::now()));
        if begin.elapsed() >= time {
            break;
        }
        let one = rng.random_range(0..soakers.len());
        soakers[one].replace(folder);
        grpc.load("other", n % 2 == 0).expect("there is such a model");
        again.reconnect().expect("it listens");
        assert_eq!(again.infer(&input).expect("an answer"), want);
        if begin.elapsed() >= LOOK * (samples.len() as u32 + 1) {
            samples.push(look(daemon, begin));
        }
    }
    samples
}

fn look(daemon: &Daemon, begin: Instant) -> Sample {
    let (bytes, threads) = daemon.usage();
    let (kib, files) = (bytes / 1024, daemon.files());
    println!("{},{kib},{threads},{files}", begin.elapsed().as_secs());
    Sample { kib: kib as f64, threads: threads as f64, files: files as f64 }
}

/// The last third is not above the middle one.
fn judge(what: &str, samples: &[Sample], value: fn(&Sample) -> f64, slack: f64) {
    let third = samples.len() / 3;
    assert!(third > 0, "{} samples are too few", samples.len());
    let mean = |part: &[Sample]| part.iter().map(value).sum::<f64>() / part.len() as f64;
    let middle = mean(&samples[samples.len() - 2 * third..samples.len() - third]);
    let last = mean(&samples[samples.len() - third..]);
    println!("{what}: {middle:.1} in the middle third, {last:.1} in the last");
    let most = middle + slack.max(middle / 50.0);
    assert!(last <= most, "{what}: {last:.1}, at most {most:.1} was expected");
}
