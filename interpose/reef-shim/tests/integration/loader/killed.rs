//! SIGKILL of real-time and best-effort programs and of the daemon, at random under load: no
//! process else fails, and no gate stays closed.
//!
//! `REEF_KILLS=100 cargo test -p reef-shim --test integration loader::killed -- --nocapture`

use crate::common::{self, Driver, FAKE, Work, call, library};
use reef_guest::registry::Registry;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Role of the program below: `daemon`, `rt` or `be`.
const ROLE: &str = "REEF_TEST_ROLE";
/// Longest that a survivor may need for a few rounds of its work: 1 s for a gate that is not
/// opened, and a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// A process that is not ended ends itself.
const LIFE: u32 = 300;

#[test]
#[ignore = "is a program that another test runs"]
fn play() {
    // SAFETY: ends this process after some time, in any case.
    unsafe { libc::alarm(LIFE) };
    let role = std::env::var(ROLE).unwrap();
    match role.as_str() {
        "daemon" => serve(),
        role => work(if role == "rt" { Duration::from_millis(2) } else { Duration::ZERO }),
    }
}

fn serve() {
    let path = std::env::var_os("REEF_GUESTS").unwrap();
    let _ = std::fs::remove_file(&path); // of one that was killed
    let _registry = Registry::open(path.as_ref(), Box::new(|_, wish| Ok(wish.class))).unwrap();
    loop {
        println!("alive");
        std::thread::sleep(Duration::from_millis(5)); // sleep: interval of the signs of life
    }
}

/// Launches and waits, for ever, with pauses of this length.
fn work(pause: Duration) {
    let driver = Driver::begin();
    let Work { stream, memory, mix } = driver.work(8);
    loop {
        (0..8).for_each(|_| assert_eq!(driver.launch("cuLaunchKernel", mix, stream, memory, 1), 0));
        assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
        println!("alive");
        std::thread::sleep(pause.max(Duration::from_micros(500))); // sleep: pace of the rounds
    }
}

/// One of them; killed when this is dropped.
struct Process {
    role: &'static str,
    child: Child,
    /// Rounds of its work.
    rounds: Arc<AtomicU64>,
}

impl Process {
    fn start(role: &'static str, socket: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "loader::killed::play", "--include-ignored", "--nocapture"]);
        command.env(ROLE, role).env("REEF_CLASS", role).env("REEF_GUESTS", socket);
        command.env("REEF_CUDA", library(FAKE)).env("REEF_FAKE_KERNEL_NS", "20000");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (lines, rounds) = (BufReader::new(child.stdout.take().unwrap()), Arc::default());
        let counted: Arc<AtomicU64> = Arc::clone(&rounds);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                counted.fetch_add(line.ends_with("alive").into(), Ordering::SeqCst);
            }
        });
        let mut process = Self { role, child, rounds };
        process.goes_on("at its start");
        process
    }

    /// Waits for some rounds of its work; fails if it has ended, or takes too long.
    fn goes_on(&mut self, when: &str) -> Duration {
        let (begin, from) = (Instant::now(), self.rounds.load(Ordering::SeqCst));
        while self.rounds.load(Ordering::SeqCst) < from + 3 {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{} {when}: {ended:?}", self.role);
            assert!(begin.elapsed() < LIMIT, "{} {when}: stands for {LIMIT:?}", self.role);
            std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
        begin.elapsed()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended already
        let _ = self.child.wait();
    }
}

/// A daemon, which has to be there first, and its guests.
fn start_all(socket: &Path) -> Vec<Process> {
    ["daemon", "rt", "be", "be"].map(|role| Process::start(role, socket)).into()
}

/// Kills these of the processes, and says how long the others needed to go on.
fn kill(all: &mut [Process], victims: &[usize], round: u64) -> Duration {
    victims.iter().for_each(|&at| all[at].kill());
    let killed: Vec<_> = victims.iter().map(|&at| all[at].role).collect();
    let when = format!("in round {round}, after the end of {killed:?}");
    let alive = all.iter_mut().enumerate().filter(|(at, _)| !victims.contains(at));
    alive.map(|(_, process)| process.goes_on(&when)).max().unwrap_or_default()
}

#[test]
fn killed_process_fails_no_other_and_closes_no_gate() {
    let rounds = std::env::var("REEF_KILLS").map_or(5, |rounds| rounds.parse().unwrap());
    let socket = std::env::temp_dir().join(format!("reef-killed-{}", std::process::id()));
    let mut all = start_all(&socket);
    let (mut random, mut longest) = (0x5eed_u64, Duration::ZERO);
    for round in 0..rounds {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // sleep: any length is right
        std::thread::sleep(Duration::from_micros((random >> 40) % 20_000));
        // The worst case is the holder together with the daemon, which would remove its bit.
        let victims: &[usize] = [&[1][..], &[2], &[0], &[0, 1]][(random >> 33) as usize % 4];
        longest = longest.max(kill(&mut all, victims, round));
        match victims {
            [0, ..] => {
                drop(all);
                all = start_all(&socket);
            }
            _ => victims.iter().for_each(|&at| all[at] = Process::start(all[at].role, &socket)),
        }
    }
    println!("{rounds} kills: others went on within {longest:?}");
    drop(all);
    let _ = std::fs::remove_file(&socket); // its daemon was killed
}
