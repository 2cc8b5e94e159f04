//! Sessions that move between servers while their programs run.

#[path = "support/alone.rs"]
mod alone;
#[path = "../../../interpose/reef-shim/tests/common/mod.rs"]
mod common;
#[path = "support/server.rs"]
mod server;
mod support;

use common::{Driver, call, fake_copy, until};
use reef_remote::server::{Resource, Tenants};
use reef_remote_calls::{Facts, MigrateCommit, Request, SCHEMA};
use reef_remote_worker::{Destination, migrate, restore, snapshot};
use reef_wire::{Authority, Endpoint, Handler, Hello, Hot, Link, Message, ServerOptions, codec};
use server::{Server, open, open_with, prepare};
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Image with a variable that kernels and copies may use.
const IMAGE: &std::ffi::CStr = c".version 8.0\n.target sm_70\n.global .align 8 .b8 table[64];\n";

/// A program with something of all kinds.
struct Program {
    driver: Driver,
    streams: [usize; 2],
    event: usize,
    mix: usize,
    join: usize,
    memory: usize,
    global: usize,
    graphs: Vec<usize>,
    extra: Vec<usize>,
    random: u64,
}

const WORDS: usize = 16;

impl Program {
    fn begin(driver: Driver, seed: u64) -> Self {
        let (mut context, mut memory, mut module, mut global) =
            (0_usize, 0_usize, 0_usize, 0_usize);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8 * WORDS)), 0);
        assert_eq!(call!(driver, cuMemsetD8_v2(memory, 3, 8 * WORDS)), 0);
        assert_eq!(call!(driver, cuModuleLoadData(&raw mut module, IMAGE.as_ptr())), 0);
        let place = &raw mut global;
        assert_eq!(
            call!(driver, cuModuleGetGlobal_v2(place, 0_usize, module, c"table".as_ptr())),
            0
        );
        assert_eq!(call!(driver, cuMemsetD8_v2(global, 5, 64)), 0);
        let function = |name: &std::ffi::CStr| {
            let mut function = 0_usize;
            assert_eq!(
                call!(driver, cuModuleGetFunction(&raw mut function, module, name.as_ptr())),
                0
            );
            function
        };
        let (mix, join) = (function(c"mix"), function(c"join"));
        let mut event = 0_usize;
        assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
        let mut streams = [0_usize; 2];
        for stream in &mut streams {
            assert_eq!(call!(driver, cuStreamCreate(std::ptr::from_mut(stream), 1)), 0);
        }
        assert_eq!(call!(driver, cuCtxSynchronize()), 0);
        let (graphs, extra) = (Vec::new(), Vec::new());
        Self { driver, streams, event, mix, join, memory, global, graphs, extra, random: seed }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(97);
        (self.random >> 33) % below
    }

    fn word(&self, at: usize) -> usize {
        self.memory + 8 * at
    }

    fn launch(&self, kernel: usize, stream: usize, to: usize, value: u64) {
        assert_eq!(self.driver.launch("cuLaunchKernel", kernel, stream, to, value), 0);
    }

    /// A step whose effect depends on the order of all steps of its stream.
    fn step(&mut self) {
        let driver = self.driver;
        let which = self.next(2) as usize;
        let (stream, value) = (self.streams[which], self.next(1 << 30));
        match self.next(13) {
            0..4 => self.launch(self.mix, stream, self.word(which), value),
            4 => {
                // The other stream takes up this one's word.
                assert_eq!(call!(driver, cuEventRecord(self.event, stream)), 0);
                let other = self.streams[1 - which];
                assert_eq!(call!(driver, cuStreamWaitEvent(other, self.event, 0)), 0);
                self.launch(self.join, other, self.word(1 - which), self.word(which) as u64);
                assert_eq!(call!(driver, cuStreamSynchronize(other)), 0);
            }
            5 => {
                let bytes = value.to_le_bytes();
                let to = self.word(2 + which);
                assert_eq!(call!(driver, cuMemcpyHtoDAsync_v2(to, bytes.as_ptr(), 8, stream)), 0);
                assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            }
            6 => {
                assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
                self.launch(self.mix, stream, self.global + 8 * which, value);
            }
            7 => {
                let mut graph = 0_usize;
                let mut exec = 0_usize;
                assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 0)), 0);
                for more in 0..3 {
                    self.launch(self.mix, stream, self.word(which), value + more);
                }
                assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut graph)), 0);
                let code = call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
                assert_eq!(code, 0);
                // An executable graph lives without the graph.
                assert_eq!(call!(driver, cuGraphDestroy(graph)), 0);
                self.graphs.push(exec);
                if self.graphs.len() > 3 {
                    let old = self.graphs.remove(0);
                    assert_eq!(call!(driver, cuStreamSynchronize(self.streams[0])), 0);
                    assert_eq!(call!(driver, cuStreamSynchronize(self.streams[1])), 0);
                    assert_eq!(call!(driver, cuGraphExecDestroy(old)), 0);
                }
            }
            8 if !self.graphs.is_empty() => {
                let at = self.next(self.graphs.len() as u64) as usize;
                let exec = self.graphs[at];
                // A graph's word may be the other stream's.
                let other = self.streams[1 - which];
                assert_eq!(call!(driver, cuStreamSynchronize(other)), 0);
                assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
                assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0);
                assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
            }
            9 => {
                let (mut at, bytes) = (0_usize, 8 * (1 + self.next(600_000) as usize));
                assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut at, bytes)), 0);
                let last = at + bytes - 8;
                assert_eq!(call!(driver, cuMemsetD8Async(last, value as u8, 8, stream)), 0);
                self.launch(self.join, stream, self.word(4 + which), last as u64);
                self.extra.push(at);
                if self.extra.len() > 5 {
                    let at = self.next(5) as usize;
                    let old = self.extra.remove(at);
                    assert_eq!(call!(driver, cuMemFree_v2(old)), 0);
                }
            }
            10 => {
                let mut word = 0_u64;
                assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
                let from = self.word(which);
                assert_eq!(call!(driver, cuMemcpyDtoH_v2(&raw mut word, from, 8)), 0);
                self.launch(self.mix, stream, self.word(6 + which), word);
            }
            // The same calls again and again, with other values: they are replayed.
            11 => {
                for more in 0..6 {
                    for at in 0..4 {
                        let to = self.word(8 + which);
                        self.launch(self.mix, stream, to, value + 10 * more + at);
                    }
                    assert_eq!(call!(driver, cuStreamSynchronize(stream)), 0);
                }
            }
            _ => assert_eq!(call!(driver, cuCtxSynchronize()), 0),
        }
    }

    /// All words, and those of the variable.
    fn end(self) -> Vec<u64> {
        let driver = self.driver;
        assert_eq!(call!(driver, cuCtxSynchronize()), 0);
        let mut words = vec![0_u64; WORDS + 8];
        let to = words.as_mut_ptr();
        assert_eq!(call!(driver, cuMemcpyDtoH_v2(to, self.memory, 8 * WORDS)), 0);
        // SAFETY: there are eight more words.
        let to = unsafe { to.add(WORDS) };
        assert_eq!(call!(driver, cuMemcpyDtoH_v2(to, self.global, 64)), 0);
        words
    }
}

fn seed() -> u64 {
    let asked = std::env::var("REEF_TEST_SEED").ok().and_then(|value| value.parse().ok());
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let seed = asked.unwrap_or(now);
    println!("REEF_TEST_SEED={seed}");
    seed
}

/// Words that the program leaves on the fake driver, without a server.
fn expected(name: &str, seed: u64, steps: usize) -> Vec<u64> {
    let copy = fake_copy(name);
    let plain = Driver::open(&copy);
    assert_eq!(call!(plain, cuInit(0)), 0);
    let mut program = Program::begin(plain, seed);
    (0..steps).for_each(|_| program.step());
    std::fs::remove_file(copy).unwrap();
    program.end()
}

#[test]
fn program_that_moves_twenty_times_ends_as_without() {
    moves_twenty_times("plain", "0");
}

#[test]
fn program_whose_calls_are_replayed_moves_twenty_times() {
    moves_twenty_times("replay", "1");
}

/// Moves a program at random times while it runs, and compares it with one that has not moved.
fn moves_twenty_times(name: &str, replay: &str) {
    const STEPS: usize = 4000;
    let _one = prepare();
    let seed = seed();
    let expected = expected(&format!("migration-{name}-local"), seed, STEPS);
    let servers = ["a", "b"].map(|end| Server::start(&format!("migration-{name}-{end}")));
    let driver = open_with(&format!("migration-{name}"), &servers[0].address, replay);
    let mut program = Program::begin(driver, seed);
    let is_over = AtomicBool::new(false);
    let moves = std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut moves = 0;
            while !is_over.load(Ordering::SeqCst) && moves < 20 {
                // sleep: any length is right
                std::thread::sleep(Duration::from_millis((seed >> (moves % 40)) % 20));
                let worker = servers[moves % 2].worker();
                let to = Destination::new(&servers[1 - moves % 2].address);
                let migrated = loop {
                    match migrate(worker, &to) {
                        Ok(migrated) => break migrated,
                        // It is between the two calls of a capture, and runs on.
                        Err(why) if why.contains("a capture that is open") => {}
                        Err(why) => panic!("{moves}: {why}"),
                    }
                };
                println!("move {moves}: {migrated:?}");
                moves += 1;
            }
            moves
        });
        for step in 0.. {
            if step < STEPS {
                program.step();
            } else if mover.is_finished() {
                break;
            } else {
                std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
            }
            if step + 1 == STEPS / 2 || step > STEPS / 2 && step < STEPS && step % 100 == 0 {
                std::thread::sleep(Duration::from_millis(20)); // sleep: so that the program lasts
            }
        }
        mover.join().unwrap()
    });
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(moves, 20);
    assert_eq!(program.end(), expected, "REEF_TEST_SEED={seed}");
}

#[test]
fn session_in_a_folder_goes_on_where_it_is_restored() {
    const STEPS: usize = 600;
    let _one = prepare();
    let seed = seed();
    let expected = expected("migration-folder-plain", seed, STEPS);
    let server = Server::start("migration-folder");
    let mut program = Program::begin(open("migration-folder", &server.address), seed);
    (0..STEPS / 3).for_each(|_| program.step());
    let folder = std::env::temp_dir().join(format!("reef-migration-folder-{}", std::process::id()));
    // It runs on, and what was written is older than it.
    let written = snapshot(server.worker(), &folder, false).unwrap();
    println!("written: {written:?}");
    (0..STEPS / 3).for_each(|_| program.step());
    snapshot(server.worker(), &folder, true).unwrap();
    let path = folder.join("session.reef");
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let place = Destination::new(&server.address);
    let why = restore(&folder, &place).unwrap_err();
    assert!(why.contains("checksum"), "{why}");
    std::fs::write(&path, &whole).unwrap();
    // The program waits meanwhile.
    let rest = std::thread::scope(|scope| {
        let restored = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100)); // sleep: the program waits meanwhile
            restore(&folder, &place)
        });
        (0..STEPS / 3).for_each(|_| program.step());
        restored.join().unwrap().unwrap();
        program.end()
    });
    assert_eq!(rest, expected, "REEF_TEST_SEED={seed}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Its program looks at the server that had it last, also for longer than a session may move on.
#[test]
fn session_in_a_folder_goes_on_at_its_last_server() {
    const STEPS: usize = 300;
    let _one = prepare();
    let seed = seed();
    let expected = expected("migration-last-plain", seed, STEPS);
    let servers = [Server::start("migration-last-a"), Server::start("migration-last-b")];
    let mut program = Program::begin(open("migration-last", &servers[0].address), seed);
    (0..STEPS / 2).for_each(|_| program.step());
    let last = Destination::new(&servers[1].address);
    migrate(servers[0].worker(), &last).unwrap();
    let folder = std::env::temp_dir().join(format!("reef-migration-last-{}", std::process::id()));
    snapshot(servers[1].worker(), &folder, true).unwrap();
    let rest = std::thread::scope(|scope| {
        let restored = scope.spawn(|| {
            // sleep: the program waits meanwhile, for longer than it looks at short intervals
            std::thread::sleep(Duration::from_secs(5));
            restore(&folder, &last)
        });
        (0..STEPS / 2).for_each(|_| program.step());
        restored.join().unwrap().unwrap();
        program.end()
    });
    assert_eq!(rest, expected, "REEF_TEST_SEED={seed}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The process of a session learns where it goes, and no secret: it connects by the process that
/// has the token.
#[test]
fn command_to_move_names_no_secret() {
    let _one = prepare();
    let folder = PathBuf::from(std::env::var_os("REEF_REMOTE_FOLDER").unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    let [token, session] = ["other.token", "4242.sock"].map(|name| folder.join(name));
    std::fs::write(&token, "a long secret").unwrap();
    let _ = std::fs::remove_file(&session); // of a run before
    let listener = UnixListener::bind(&session).unwrap();
    let heard = std::thread::spawn(move || {
        let mut heard = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        heard
    });
    let mut to = Destination::new("10.1.2.3:4567");
    to.token = Some(token.clone());
    let why = migrate(4242, &to).unwrap_err();
    assert!(why.contains("it has ended"), "{why}");
    let heard = heard.join().unwrap();
    let has = |text: &str| heard.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has("10.1.2.3:4567") && has(".proxy"), "{heard:?}");
    assert!(!has("a long secret") && !has("other.token"), "{heard:?}");
    let mut left = std::fs::read_dir(&folder).unwrap().flatten();
    assert!(left.all(|file| file.path().extension().is_none_or(|kind| kind != "proxy")));
    [token, session].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

/// The device's digests tell which pieces the other server has: nothing else is read in the pause.
#[test]
fn piece_that_has_not_changed_is_not_read_in_the_pause() {
    let _one = prepare();
    let servers = [Server::start("migration-digest-a"), Server::start("migration-digest-b")];
    let driver = open("migration-digest", &servers[0].address);
    let program = Program::begin(driver, 1);
    let (mut large, bytes) = (0_usize, 24_usize << 20);
    assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut large, bytes)), 0);
    assert_eq!(call!(driver, cuMemsetD8_v2(large, 9, bytes)), 0);
    let migrated = migrate(servers[0].worker(), &Destination::new(&servers[1].address)).unwrap();
    println!("{migrated:?}");
    assert!(migrated.memory >= 24 << 20, "{migrated:?}");
    assert_eq!(migrated.read, 0, "{migrated:?}");
    let mut all = vec![0_u8; bytes];
    assert_eq!(call!(driver, cuMemcpyDtoH_v2(all.as_mut_ptr(), large, bytes)), 0);
    assert!(all.iter().all(|byte| *byte == 9));
    program.end();
}

/// A server that takes a session, and refuses it at the last message.
struct Refuser;

impl Refuser {
    /// Returns where it listens.
    fn serve(name: &str) -> String {
        let address = support::socket(name);
        let listener = UnixListener::bind(address.strip_prefix("unix:").unwrap()).unwrap();
        let server = reef_wire::Server::new(ServerOptions::new(SCHEMA), Self);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || server.serve(Link::unix(socket).unwrap()));
            }
        });
        address
    }
}

impl Authority for Refuser {
    fn admit(
        &self,
        hello: &Hello,
        _: &reef_wire::Server,
    ) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        let request: Request = codec::read(&hello.request).map_err(|e| e.to_string())?;
        let facts = Facts { window: request.windows.first().copied(), ..Facts::default() };
        let facts = codec::write(&facts).map_err(|e| e.to_string())?;
        Ok((Box::new(Self), facts))
    }
}

impl Handler for Refuser {
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> reef_wire::Result<()> {
        match message.op {
            _ if !message.wants_reply => Ok(()),
            MigrateCommit::OP => endpoint.reply(message.number, Err((1, "there is no thread"))),
            _ => endpoint.reply(message.number, Ok(&[])),
        }
    }
}

#[test]
fn session_that_cannot_move_says_why_and_runs_on() {
    let _one = prepare();
    let servers = [Server::start("migration-refused-a"), Server::start("migration-refused-b")];
    let driver = open("migration-refused", &servers[0].address);
    let mut program = Program::begin(driver, 1);
    let to = Destination::new(&servers[1].address);
    let why = || migrate(servers[0].worker(), &to).unwrap_err();
    let mut pooled = 0_usize;
    assert_eq!(call!(driver, cuMemAllocAsync(&raw mut pooled, 100, 0_usize)), 0);
    let said = why();
    assert!(said.contains("1 allocations of pools"), "{said}");
    assert_eq!(call!(driver, cuMemFreeAsync(pooled, 0_usize)), 0);
    let (stream, mut graph) = (program.streams[0], 0_usize);
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 0)), 0);
    let said = why();
    assert!(said.contains("a capture that is open") || said.contains("code 900"), "{said}");
    call!(driver, cuStreamEndCapture(stream, &raw mut graph));
    let nowhere = Destination::new("unix:/nowhere/reef.sock");
    assert!(migrate(servers[0].worker(), &nowhere).is_err());
    (0..100).for_each(|_| program.step());
    let refuser = Destination::new(&Refuser::serve("migration-refused-last"));
    let said = migrate(servers[0].worker(), &refuser).unwrap_err();
    assert!(said.contains("there is no thread") && !said.contains("has ended"), "{said}");
    (0..100).for_each(|_| program.step());
    migrate(servers[0].worker(), &to).unwrap();
    (0..100).for_each(|_| program.step());
    until("the first has none", || servers[0].workers().is_empty());
    assert_eq!(servers[1].workers().len(), 1);
    program.end();
}

/// In a process of its own: this one's eight windows are those of other tests.
#[test]
fn state_that_comes_is_bounded_for_a_tenant() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "bounded_state", "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "is the process that the other test starts"]
fn bounded_state() {
    let _one = prepare();
    let from = Server::start("carry-bounded-a");
    let mut program = Program::begin(open("carry-bounded", &from.address), 1);
    let tenants = Tenants::default();
    let other = tenants.open(None).unwrap();
    other.reserve(Resource::State, 4 << 30).unwrap();
    let full = support::serve_with(&support::socket("carry-bounded-b"), |options| {
        options.security.tenants = tenants.clone();
    });
    let said = migrate(from.worker(), &Destination::new(&full)).unwrap_err();
    assert!(said.contains("state: the sessions that come to this tenant have too much"), "{said}");
    (0..100).for_each(|_| program.step());
    drop(other);
    migrate(from.worker(), &Destination::new(&full)).unwrap();
    (0..100).for_each(|_| program.step());
    // The memory that it took has come back.
    tenants.open(None).unwrap().reserve(Resource::State, 4 << 30).unwrap();
    program.end();
}

/// Either server is killed at a random time of a move: the program goes on at one of them, or ends
/// with a clear error.
#[test]
fn killed_server_leaves_the_session_at_one_or_none() {
    let _one = prepare();
    let seed = seed();
    // Each client of this process keeps one of eight windows, also when its session has ended.
    for case in 0..2_u64 {
        let names = ["a", "b"].map(|end| format!("migration-kill-{end}{case}"));
        let servers = names.map(|name| Server::start(&name));
        let driver = open(&format!("migration-kill-{case}"), &servers[0].address);
        let begun = Program::begin(driver, seed);
        let word = begun.memory;
        let (mix, stream) = (begun.mix, begun.streams[0]);
        let worker = servers[0].worker();
        let to = Destination::new(&servers[1].address);
        let victim = (case % 2) as usize;
        let delay = Duration::from_micros((seed >> (case % 16)) % 12_000);
        let moved = std::thread::scope(|scope| {
            let mover = scope.spawn(|| migrate(worker, &to));
            std::thread::sleep(delay); // sleep: any length is right
            let pid = servers[victim].child.id() as i32;
            // SAFETY: a process of this test's.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            mover.join().unwrap()
        });
        let mut codes = Vec::new();
        for value in 0..50 {
            let code = driver.launch("cuLaunchKernel", mix, stream, word, value);
            codes.push(if code == 0 { call!(driver, cuStreamSynchronize(stream)) } else { code });
        }
        let goes_on = codes.iter().all(|code| *code == 0);
        let ends = codes.last() == Some(&46);
        println!(
            "{case}: {victim} killed after {delay:?}: moved {:?}, goes on {goes_on}",
            moved.is_ok()
        );
        assert!(goes_on || ends, "{codes:?}");
        if goes_on {
            let left = &servers[1 - victim];
            assert_eq!(left.workers().len(), 1, "one of both has it");
        }
    }
}
