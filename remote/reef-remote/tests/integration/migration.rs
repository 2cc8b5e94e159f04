//! Sessions that move between servers while their programs run.

use crate::support::{self, Served};
use rand::{RngExt, SeedableRng};
use reef_core::dkp::Padding;
use reef_core::scheduler::Reef;
use reef_core::{
    Cells, Checkpoint as _, ClientConfig, Device, Dispatcher, Drained, Error, Launch, PreemptLevel,
    Preemptor as _, Priority, Queue as _, Seq, Stats, Task, appended,
};
use reef_cpu::Cpu;
use reef_models::{Model, Network};
use reef_remote::migration::{Frozen, Report, Target};
use reef_remote::server::{Host, Resource, Tenants, restore};
use reef_remote::{Preemptor, Queue, Remote};
use reef_wire::Token;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Numbers of the sessions of a server.
fn ids(served: &Served) -> Vec<u64> {
    served.sessions.list().iter().map(|session| session.id).collect()
}

fn to(served: &Served) -> Target {
    Target::new(served.address.parse().unwrap())
}

/// Moves the one session of a server.
fn migrate(from: &Served, to: &Target) -> Result<Report, String> {
    let id = ids(from)[0];
    from.sessions.migration(id)?.migrate(to)
}

fn start(device: &Remote) -> Dispatcher<Remote> {
    Dispatcher::start(device, Reef::default().level(PreemptLevel::HostQueue)).unwrap()
}

fn network(device: &Remote, name: &str) -> Network<Remote> {
    let model = Model::open(name).input_size(32).read().unwrap();
    model.weights(device).unwrap().network().unwrap()
}

fn input(network: &Network<Remote>, round: usize) -> Vec<f32> {
    (0..network.input_len()).map(|at| ((at + round) % 13) as f32 / 4.0).collect()
}

/// Real-time tasks that a server has finished.
fn finished(served: &Served) -> u64 {
    served.host.get().map_or(0, |host| host.stats().rt_finished)
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

#[test]
fn session_moves_while_its_clients_run() {
    const MOVES: usize = 20;
    let servers = [support::shared(), support::shared()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let dispatcher = start(&device);
    let (short, long) = (network(&device, "resnet18"), network(&device, "mobilenet_v2"));
    let task = Task::new(short.graphs(usize::MAX).unwrap()).unwrap();
    let graph = long.graphs(8).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let mut background = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut infer = |round: usize| {
        short.stage_input(&input(&short, round)).unwrap();
        client.run(&task).unwrap();
        short.staged_output().unwrap()
    };
    let mut work = |round: usize| {
        long.stage_input(&input(&long, round)).unwrap();
        background.run(&graph).unwrap();
        long.staged_output().unwrap()
    };
    // The outputs of the first rounds come before any move, and the thirteenth input is the first.
    let expected = [(0..13).map(&mut infer).collect::<Vec<_>>(), (0..13).map(&mut work).collect()];
    let is_over = AtomicBool::new(false);
    let runs = |run: &mut (dyn FnMut(usize) -> Vec<f32> + Send), expected: &[Vec<f32>]| {
        let mut rounds = 0_usize;
        while !is_over.load(Ordering::SeqCst) {
            assert_eq!(run(rounds), expected[rounds % 13], "round {rounds}");
            rounds += 1;
        }
        rounds as u64
    };
    let mut finished = [finished(&servers[0]), 0];
    let counts = std::thread::scope(|scope| {
        let real_time = scope.spawn(|| runs(&mut infer, &expected[0]));
        let best_effort = scope.spawn(|| runs(&mut work, &expected[1]));
        for at in 0..MOVES {
            // sleep: any length is right
            std::thread::sleep(Duration::from_millis(7 * (at as u64 % 5)));
            let (from, next) = (&servers[at % 2], &servers[1 - at % 2]);
            let report = migrate(from, &to(next)).unwrap();
            println!("move {at}: {report:?}");
            assert!(report.memory > 40 << 20 && report.read < report.memory / 2, "{report:?}");
            assert_eq!(ids(next).len(), 1);
            until("the other server works", || self::finished(next) > finished[1 - at % 2]);
            // The last inference at the first server may have been counted late.
            let (gone, more) = (self::finished(from), self::finished(next));
            until("the other server works on", || self::finished(next) > more);
            assert_eq!(self::finished(from), gone, "nothing runs where the session was");
            finished = [0, 1].map(|end: usize| self::finished(&servers[end]));
        }
        is_over.store(true, Ordering::SeqCst);
        [real_time.join().unwrap(), best_effort.join().unwrap()]
    });
    let all = || servers.iter().map(self::finished).sum::<u64>();
    until("each inference is counted", || all() >= 13 + counts[0]);
    assert_eq!(all(), 13 + counts[0], "each inference ran once");
    println!("rounds: {counts:?}");
    drop((dispatcher, task, graph, short, long));
}

/// Clients of a program's own dispatcher, at the deepest level: stopped work moves.
#[test]
fn own_session_moves_with_stopped_work() {
    const CELLS: u32 = 5;
    let has_not_met = |stats: &Stats| stats.preemptions < 20;
    let servers = [support::own(), support::own()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let mut background = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let (rt, be) = (Cells::new(&device, 1).unwrap(), Cells::new(&device, CELLS).unwrap());
    let is_over = AtomicBool::new(false);
    let [requests, commands] = std::thread::scope(|scope| {
        let real_time = scope.spawn(|| {
            let mut value = 0;
            while !is_over.load(Ordering::SeqCst) {
                value += 1;
                client.run(&Task::new([rt.append(value, 400)]).unwrap()).unwrap();
                std::thread::sleep(Duration::from_micros(300)); // sleep: pace of the requests
            }
            value
        });
        let best_effort = scope.spawn(|| {
            let (mut value, mut last) = (0, None);
            while !is_over.load(Ordering::SeqCst) {
                value += 1;
                last = Some(background.submit(&[be.append(value, 1_000)]).unwrap());
                if value % 4 == 0 {
                    background.wait(last.take().unwrap()).unwrap();
                }
            }
            last.into_iter().for_each(|last| background.wait(last).unwrap());
            value
        });
        let (mut moves, begin) = (0, Instant::now());
        while moves < 20 || has_not_met(&dispatcher.stats()) {
            assert!(begin.elapsed() < Duration::from_secs(600), "{:?}", dispatcher.stats());
            // sleep: any length is right
            std::thread::sleep(Duration::from_millis(3 * (moves as u64 % 7)));
            migrate(&servers[moves % 2], &to(&servers[1 - moves % 2])).unwrap();
            moves += 1;
        }
        is_over.store(true, Ordering::SeqCst);
        [real_time.join().unwrap(), best_effort.join().unwrap()]
    });
    let stats = dispatcher.stats();
    println!("{requests} requests, {commands} commands: {stats:?}");
    assert_eq!(rt.read().unwrap(), [appended(1..=requests)]);
    assert_eq!(be.read().unwrap(), [appended(1..=commands); CELLS as usize]);
}

/// A queue, its preemptor, and a launch of blocks of which some have run.
struct Stopped {
    queue: Queue,
    preemptor: Preemptor,
    cells: Cells<Remote>,
    launch: Launch<Remote>,
}

const STOPPED_CELLS: u32 = 8;

impl Stopped {
    /// A queue whose launch will be stopped.
    fn new(device: &Remote) -> Self {
        let preemptor = device.preemptor(PreemptLevel::All).unwrap();
        let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        assert!(queue.wake(std::thread::current()));
        let cells = Cells::new(device, STOPPED_CELLS).unwrap();
        let launch = cells.launch(7, 3_000);
        Self { queue, preemptor, cells, launch }
    }

    /// Stops the launch when a part of it has run, and takes it back. `between` follows the stop.
    /// On a busy machine it takes some attempts to meet that part.
    fn stop(&mut self, mut between: impl FnMut()) -> Drained<Remote> {
        let begin = Instant::now();
        self.queue.launch(Seq(0), &self.launch, None).unwrap();
        until("the launch ends", || self.queue.completed().unwrap() == Seq(1));
        let whole = begin.elapsed();
        for attempt in 1..200 {
            self.cells.clear().unwrap();
            self.queue.launch(Seq(attempt), &self.launch, None).unwrap();
            // sleep: into the launch; where it is too early or too late, it is tried again
            std::thread::sleep(whole.mul_f64((attempt % 9 + 1) as f64 / 10.0));
            self.preemptor.evict().unwrap();
            self.preemptor.reset().unwrap();
            between();
            let drained = self.drain();
            let left = drained.partial.as_ref().map_or(0, |record| record.remaining());
            if (1..STOPPED_CELLS).contains(&left) {
                return drained;
            }
            self.preemptor.reactivate().unwrap();
            if drained.resume_at == Seq(attempt) {
                self.queue.launch(Seq(attempt), &self.launch, drained.partial.as_ref()).unwrap();
                until("it ends", || self.queue.completed().unwrap() > Seq(attempt));
            }
        }
        panic!("no part of the launch had run");
    }

    /// Takes back what is left.
    fn drain(&mut self) -> Drained<Remote> {
        let mut drained = None;
        until("the queue is drained", || {
            drained = self.queue.try_drain().unwrap();
            drained.is_some()
        });
        drained.unwrap()
    }

    /// Runs the blocks that are left, and no others.
    fn finish(mut self, device: &Remote, drained: &Drained<Remote>) {
        let record = drained.partial.as_ref().expect("a part of the launch is left");
        let (left, blocks) = (record.remaining(), device.blocks(record).unwrap());
        assert_eq!(blocks.count(), left);
        let has_run = self.cells.read().unwrap().iter().filter(|cell| **cell == 7).count();
        assert_eq!(has_run as u32 + left, STOPPED_CELLS);
        let Seq(at) = drained.resume_at;
        self.preemptor.reactivate().unwrap();
        self.queue.launch(Seq(at), &self.launch, Some(record)).unwrap();
        until("the rest has run", || self.queue.completed().unwrap() == Seq(at + 1));
        assert_eq!(self.cells.read().unwrap(), [7; STOPPED_CELLS as usize]);
    }
}

#[test]
fn stopped_launch_continues_at_the_other_server() {
    let servers = [support::own(), support::own()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let there_and_back = || {
        migrate(&servers[0], &to(&servers[1])).unwrap();
        migrate(&servers[1], &to(&servers[0])).unwrap();
    };
    // The server takes it back before the client asks.
    let mut stopped = Stopped::new(&device);
    let drained = stopped.stop(there_and_back);
    stopped.finish(&device, &drained);
    // The client has taken it back, and the server has the record.
    let mut stopped = Stopped::new(&device);
    let drained = stopped.stop(|| ());
    there_and_back();
    stopped.finish(&device, &drained);
    // Another queue's kernel has run some of its blocks as padding.
    let mut stopped = Stopped::new(&device);
    let drained = stopped.stop(|| ());
    let record = drained.partial.clone().unwrap();
    let (before, cells) = (record.remaining(), Cells::new(&device, 1).unwrap());
    let mut queue = device.queue(Priority::RealTime, None).unwrap();
    let padding = Padding { rt_units: 1, be_per_unit: 1, be_blocks: before.min(2) };
    let kernel = cells.launch(1, 10_000);
    queue.launch_padded(Seq(0), &kernel, &padding, &stopped.launch, &record).unwrap();
    there_and_back();
    until("the kernel has ended", || queue.completed().unwrap() == Seq(1));
    println!("{before} blocks were left, {} are after padding", record.remaining());
    assert_eq!(cells.read().unwrap(), [1]);
    if record.remaining() > 0 {
        stopped.finish(&device, &drained);
    }
}

/// Memory whose name was released is needed by launches, and goes along.
#[test]
fn memory_without_a_name_moves_with_its_launches() {
    let servers = [support::shared(), support::shared()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let dispatcher = start(&device);
    let weights = Model::open("resnet18").input_size(32).read().unwrap().weights(&device).unwrap();
    let network = weights.network().unwrap();
    let task = Task::new(network.graphs(usize::MAX).unwrap()).unwrap();
    drop(weights);
    let mut client = dispatcher.real_time().unwrap();
    let mut infer = |round: usize| {
        network.stage_input(&input(&network, round)).unwrap();
        client.run(&task).unwrap();
        network.staged_output().unwrap()
    };
    let before = infer(3);
    // Names are used again for other objects.
    let others: Vec<_> = (0..50).map(|_| device.alloc(100).unwrap()).collect();
    others.iter().for_each(|other| device.write(other, 0, &[5; 100]).unwrap());
    let report = migrate(&servers[0], &to(&servers[1])).unwrap();
    println!("{report:?}");
    assert_eq!(infer(3), before);
    assert_ne!(infer(4), before);
    let mut bytes = [0; 100];
    device.read(&others[49], 0, &mut bytes).unwrap();
    assert_eq!(bytes, [5; 100]);
}

/// A session as a file has it.
struct Saved {
    state: Vec<u8>,
    regions: Vec<Vec<u8>>,
}

impl Saved {
    fn write(from: &Served, ends: bool) -> Self {
        let mut saved = None;
        let mut write = |frozen: &Frozen<'_>| {
            let mut regions = Vec::new();
            for (at, region) in frozen.regions.iter().enumerate() {
                let mut bytes = Vec::new();
                (frozen.read)(at, &mut |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                })?;
                assert_eq!(bytes.len() as u64, region.bytes);
                regions.push(bytes);
            }
            saved = Some(Self { state: frozen.state.to_vec(), regions });
            Ok(0)
        };
        from.sessions.migration(ids(from)[0]).unwrap().snapshot(&mut write, ends).unwrap();
        saved.unwrap()
    }

    fn restore(&self, to: &Target) -> Result<u64, String> {
        restore(to, &self.state, &mut |at, _, each| {
            let bytes = self.regions.get(at).ok_or("there is no such region")?;
            bytes.chunks(2 << 20).try_for_each(&mut *each)
        })
    }
}

#[test]
fn written_session_continues_where_it_is_restored() {
    let served = support::shared();
    let device = Remote::open(0, &served.device()).unwrap();
    let dispatcher = start(&device);
    let network = network(&device, "resnet18");
    let task = Task::new(network.graphs(usize::MAX).unwrap()).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let mut infer = |round: usize| {
        network.stage_input(&input(&network, round)).unwrap();
        client.run(&task).unwrap();
        network.staged_output().unwrap()
    };
    let expected: Vec<_> = (0..5).map(&mut infer).collect();
    let older = Saved::write(&served, false);
    assert_eq!(infer(1), expected[1], "it runs on");
    let said = older.restore(&to(&served)).unwrap_err();
    assert!(said.contains("the session is at this server already"), "{said}");
    assert_eq!(infer(2), expected[2]);
    let saved = Saved::write(&served, true);
    until("it has ended", || served.server.is_empty());
    // Its client waits meanwhile.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| infer(3));
        // sleep: time in which a fault would show; none fails a right client
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        let bytes = saved.restore(&to(&served)).unwrap();
        assert!(bytes > 40 << 20, "{bytes} bytes");
        assert_eq!(waiting.join().unwrap(), expected[3]);
    });
    assert_eq!(infer(4), expected[4]);
    // The client has gone on, so an older state cannot be continued.
    let other = support::shared();
    older.restore(&to(&other)).unwrap();
    assert_eq!(infer(0), expected[0]);
}

#[test]
fn damaged_state_is_refused_by_a_server_that_goes_on() {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    let served = support::own();
    let device = Remote::open(0, &served.device()).unwrap();
    let mut stopped = Stopped::new(&device);
    let drained = stopped.stop(|| ());
    let saved = Saved::write(&served, false);
    let other = support::own();
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        default(info);
    }));
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let seed = std::env::var("REEF_TEST_SEED").map_or(now, |text| text.parse().unwrap());
    println!("REEF_TEST_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (mut refused, mut cut) = (0, 0);
    for at in 0..80 {
        let mut state = saved.state.clone();
        let place = rng.random_range(0..state.len());
        if at % 4 == 0 {
            state.truncate(place);
        } else {
            state[place] ^= 1 << rng.random_range(0..8);
        }
        let damaged = Saved { state, regions: saved.regions.clone() };
        if let Err(said) = damaged.restore(&to(&other)) {
            assert_eq!(said.lines().count(), 1, "{said}");
            refused += 1;
            cut += usize::from(at % 4 == 0);
        }
    }
    let short = Saved { state: saved.state.clone(), regions: vec![vec![1]; saved.regions.len()] };
    let said = short.restore(&to(&other)).unwrap_err();
    assert!(said.contains("must have"), "{said}");
    println!("{refused} of 80 refused, {cut} of them cut short");
    assert_eq!((cut, PANICS.load(Ordering::SeqCst)), (20, 0));
    assert!(refused >= 40, "{refused}");
    // A damaged name of the program hurts nothing, and the other server has the session then.
    // So it refuses it, at last.
    if !other.server.is_empty() {
        let said = migrate(&served, &to(&other)).unwrap_err();
        assert!(said.contains("the session is at this server already"), "{said}");
    }
    // It runs on where it is, and a server without it takes it.
    let third = support::own();
    migrate(&served, &to(&third)).unwrap();
    assert_eq!(ids(&third).len(), 1);
    stopped.finish(&device, &drained);
}

#[test]
fn server_that_refuses_leaves_the_session_where_it_is() {
    let (served, own) = (support::shared(), support::own());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for name in ["poor", "rich", "none"] {
        std::fs::write(file(name), format!("the token of {name}")).unwrap();
    }
    let rights = "[rights.\"token poor\"]\ntoken_file = \"poor\"\nmemory = \"1MiB\"\n\
                  [rights.\"token rich\"]\ntoken_file = \"rich\"\nmemory = \"64MiB\"\n\
                  [rights.\"token none\"]\ntoken_file = \"none\"\nsessions = 0\n";
    std::fs::write(file("rights"), rights).unwrap();
    let tenants = Tenants::read(&file("rights")).unwrap();
    let strict = support::shared_for(&tenants);
    let other_units = support::shared_by(|_| Host::start(&Cpu::open(0, "units=3")?));
    let device = Remote::open(0, &served.device()).unwrap();
    let buffer = device.alloc(2 << 20).unwrap();
    device.write(&buffer, 5, b"bytes").unwrap();
    let check = || {
        let mut bytes = [0; 5];
        device.read(&buffer, 5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"bytes");
    };
    let token = |name: &str| {
        let token = Some(Token::new(format!("the token of {name}").as_bytes()));
        Target { token, ..to(&strict) }
    };
    for (target, what) in [
        (Target::new("unix:/nowhere/reef.sock".parse().unwrap()), "/nowhere/reef.sock"),
        (to(&own), "sort of its sessions: must be shared, got own"),
        (to(&other_units), "name: must be software device, 2 units, got software device, 3 units"),
        (to(&strict), "this server wants a token"),
        (token("outsider"), "not one of this server's"),
        (token("none"), "tenant none: must have at most 0 sessions, got 0"),
        (token("poor"), "tenant poor: memory: must be at most 1048576 bytes"),
    ] {
        let said = migrate(&served, &target).unwrap_err();
        assert!(said.contains(what), "{what}: {said}");
        check();
        assert_eq!((ids(&served).len(), ids(&strict).len()), (1, 0), "{what}");
    }
    migrate(&served, &token("rich")).unwrap();
    check();
    // It is that tenant's now, with its bounds. The client has never had its token.
    let said = device.alloc(63 << 20).unwrap_err().to_string();
    assert!(said.contains("tenant rich: memory: must be at most 67108864 bytes"), "{said}");
    let listed = strict.sessions.list();
    assert_eq!(listed[0].facts.tenant.as_deref(), Some("rich"));
    assert_eq!(listed[0].counts.memory_bytes, 2 << 20);
    drop(buffer);
    device.alloc(63 << 20).unwrap();
}

#[test]
fn session_of_a_client_by_tcp_follows_to_tcp_alone() {
    let (first, second, socket) = (support::own_tcp(), support::own_tcp(), support::own());
    let device = Remote::open(0, &first.device()).unwrap();
    let buffer = device.alloc(5).unwrap();
    device.write(&buffer, 0, b"bytes").unwrap();
    let check = || {
        let mut bytes = [0; 5];
        device.read(&buffer, 0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"bytes");
    };
    let said = migrate(&first, &to(&socket)).unwrap_err();
    assert!(said.contains("its client came by TCP"), "{said}");
    check();
    assert_eq!(ids(&first).len(), 1);
    migrate(&first, &to(&second)).unwrap();
    check();
    assert_eq!(ids(&second).len(), 1);
}

/// Passes bytes on until this number of them has gone up, and ends then.
fn dying_relay(folder: &tempfile::TempDir, to: &str, bytes: u64) -> Target {
    let path = folder.path().join(format!("relay-{bytes}.sock"));
    let listener = UnixListener::bind(&path).unwrap();
    let target = Target::new(format!("unix:{}", path.display()).parse().unwrap());
    let to = to.strip_prefix("unix:").unwrap().to_owned();
    std::thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = UnixStream::connect(&to).unwrap();
        drop(listener);
        std::fs::remove_file(path).unwrap();
        let (mut down, mut back) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut down));
        let _ = std::io::copy(&mut (&near).take(bytes), &mut &far);
        for end in [near, far] {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    });
    target
}

#[test]
fn dying_server_leaves_the_session_at_one_or_none() {
    let [served, other] = [support::own(), support::own()];
    let folder = tempfile::tempdir().unwrap();
    let mut outcomes = [0; 2];
    for bytes in [10, 300, 900, 5_000, 1_000_000, 3_000_000, 4_194_304 + 1_500, 4_194_304 + 3_500] {
        let device = Remote::open(0, &served.device()).unwrap();
        let buffer = device.alloc(4 << 20).unwrap();
        device.write(&buffer, 0, &vec![9; 4 << 20]).unwrap();
        let cells = Cells::new(&device, 2).unwrap();
        let mut queue = device.queue(Priority::BestEffort, None).unwrap();
        queue.launch(Seq(0), &cells.launch(1, 10), None).unwrap();
        let target = dying_relay(&folder, &other.address, bytes);
        let id = *ids(&served).last().unwrap();
        let moved = served.sessions.migration(id).unwrap().migrate(&target);
        println!("{bytes} bytes: {moved:?}");
        let launched = queue.launch(Seq(1), &cells.launch(2, 10), None);
        let read = launched.and_then(|()| {
            while queue.completed()? < Seq(2) {
                std::thread::yield_now();
            }
            cells.read()
        });
        match (&moved, read) {
            (Err(why), Err(_)) => assert!(why.contains("the session has ended"), "{why}"),
            // It has died before the client came.
            (Ok(_), Err(why)) => assert!(matches!(why, Error::DeviceLost { .. }), "{why}"),
            (_, read) => assert_eq!(read.unwrap(), [appended([1, 2]); 2], "{bytes} bytes"),
        }
        outcomes[usize::from(moved.is_ok())] += 1;
        drop((queue, cells, buffer, device));
        until("no session is left", || served.server.is_empty() || moved.is_ok());
    }
    println!("refused and moved: {outcomes:?}");
    assert!(outcomes[0] >= 6, "{outcomes:?}");
}

/// Both connections break again and again: the client's, and the one between the servers.
#[test]
fn move_outlives_cuts_of_its_connections() {
    let servers = [support::own_torn(), support::own_torn()];
    let device = format!("{}?remote.emulate=cut:15000", servers[0].device());
    let device = Remote::open(0, &device).unwrap();
    // A message must be shorter than what a connection carries.
    const LEN: usize = 8 << 10;
    let buffer = device.alloc(LEN).unwrap();
    let bytes: Vec<u8> = (0..LEN).map(|at| ((at * 7) >> 3) as u8).collect();
    for (at, piece) in bytes.chunks(2 << 10).enumerate() {
        device.write(&buffer, at * (2 << 10), piece).unwrap();
    }
    let cells = Cells::new(&device, 2).unwrap();
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    for at in 0..6 {
        queue.launch(Seq(at as u64), &cells.launch(at as u64 + 1, 1000), None).unwrap();
        let line = Some(format!("cut:{}", 9_600 + 100 * at).parse().unwrap());
        let target = Target { line, ..to(&servers[1 - at % 2]) };
        migrate(&servers[at % 2], &target).unwrap();
    }
    until("all has ended", || queue.completed().unwrap() == Seq(6));
    assert_eq!(cells.read().unwrap(), [appended(1..=6); 2]);
    for _ in 0..6 {
        let mut read = vec![0; LEN];
        for (at, piece) in read.chunks_mut(2 << 10).enumerate() {
            device.read(&buffer, at * (2 << 10), piece).unwrap();
        }
        assert!(read == bytes);
    }
    // More bytes than a connection carries: it was cut, and made anew.
    let traffic = servers[0].sessions.list()[0].counts.traffic;
    assert!(traffic.connections >= 3, "{traffic:?}");
}

/// Work that does not end is waited for 10 s, and goes on.
#[test]
fn session_with_endless_work_is_refused_and_runs_on() {
    let servers = [support::own(), support::own()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let preemptor = device.preemptor(PreemptLevel::All).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let (endless, cells) = (Cells::new(&device, 1).unwrap(), Cells::new(&device, 2).unwrap());
    queue.launch(Seq(0), &endless.launch(1, u64::MAX), None).unwrap();
    let said = migrate(&servers[0], &to(&servers[1])).unwrap_err();
    assert!(said.contains("its work has not ended within 10s"), "{said}");
    let mut other = device.queue(Priority::BestEffort, None).unwrap();
    other.launch(Seq(0), &cells.launch(3, 10), None).unwrap();
    until("another queue works", || other.completed().unwrap() == Seq(1));
    assert_eq!(cells.read().unwrap(), [3; 2]);
    preemptor.evict().unwrap();
    preemptor.reset().unwrap();
    migrate(&servers[0], &to(&servers[1])).unwrap();
    assert_eq!(cells.read().unwrap(), [3; 2]);
    assert_eq!(endless.read().unwrap(), [0], "no block of it has taken effect");
}

/// The server has taken back what was stopped. What the client launches before it asks comes after.
#[test]
fn command_after_a_takeback_is_taken_back_too() {
    let servers = [support::own(), support::own()];
    let device = Remote::open(0, &servers[0].device()).unwrap();
    let preemptor = device.preemptor(PreemptLevel::All).unwrap();
    let mut queue = device.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let cells = Cells::new(&device, 2).unwrap();
    queue.launch(Seq(0), &cells.launch(1, u64::MAX), None).unwrap();
    preemptor.evict().unwrap();
    preemptor.reset().unwrap();
    migrate(&servers[0], &to(&servers[1])).unwrap();
    queue.launch(Seq(1), &cells.launch(2, 10), None).unwrap();
    let mut drained = None;
    until("the queue is drained", || {
        drained = queue.try_drain().unwrap();
        drained.is_some()
    });
    assert_eq!(drained.unwrap().resume_at, Seq(0));
    assert_eq!(cells.read().unwrap(), [0; 2]);
    preemptor.reactivate().unwrap();
    queue.launch(Seq(0), &cells.launch(1, 10), None).unwrap();
    queue.launch(Seq(1), &cells.launch(2, 10), None).unwrap();
    until("both have ended", || queue.completed().unwrap() == Seq(2));
    assert_eq!(cells.read().unwrap(), [appended([1, 2]); 2]);
}

#[test]
fn state_that_comes_is_bounded_for_a_tenant() {
    let (tenants, from) = (Tenants::default(), support::shared());
    let full = support::shared_for(&tenants);
    let device = Remote::open(0, &from.device()).unwrap();
    let other = tenants.open(None).unwrap();
    other.reserve(Resource::State, 4 << 30).unwrap();
    let said = migrate(&from, &to(&full)).unwrap_err();
    let expected = "sessions without a tenant: states and constants that come: must be at most";
    assert!(said.contains(expected), "{said}");
    device.alloc(1000).unwrap();
    assert_eq!((ids(&from).len(), ids(&full).len()), (1, 0));
    drop(other);
    migrate(&from, &to(&full)).unwrap();
    device.alloc(1000).unwrap();
    // The memory that it took has come back.
    tenants.open(None).unwrap().reserve(Resource::State, 4 << 30).unwrap();
}
