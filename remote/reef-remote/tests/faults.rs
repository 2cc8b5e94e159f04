//! Processes that are killed, hostile frames, and many sessions.

mod support;

use rand::{Rng, RngExt, SeedableRng};
use reef_core::scheduler::Reef;
use reef_core::{
    Cells, ClientConfig, Config, Device, Dispatcher, Error, PreemptLevel, VirtualQueue,
};
use reef_remote::messages::{RemoteCommand, Section};
use reef_remote::{Remote, schema};
use reef_wire::{Address, Client, ClientOptions, Endpoint, Handler, Message, codec};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::Served;

/// Tells a child what to do: `client:DEVICE` or `server`.
const ROLE: &str = "REEF_REMOTE_ROLE";
const MIB: usize = 1 << 20;
/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Not a test by itself: the other process of the tests below.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(':') {
        Some(("client", device)) => hold_memory_and_work(device),
        _ => {
            let served = support::own();
            println!("ready {}", served.device());
            park_for_ever();
        }
    }
}

fn park_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

/// A client with 256 MiB, and with a block that would run for minutes.
fn hold_memory_and_work(device: &str) -> ! {
    let device = Remote::open(0, device).unwrap();
    let buffer = device.alloc(256 * MIB).unwrap();
    for at in 0..256 {
        device.write(&buffer, at * MIB, &vec![1; MIB]).unwrap();
    }
    device.read(&buffer, 0, &mut [0]).unwrap();
    let work = Cells::new(&device, 2).map(|cells| {
        let config = Config::default().level(PreemptLevel::All);
        let (mut submitter, queue) = VirtualQueue::enable(&device, config).unwrap();
        submitter.submit(cells.append(1, u64::MAX)).unwrap();
        (submitter, queue)
    });
    // sleep: so that the block runs; an end before that is right as well
    std::thread::sleep(Duration::from_millis(50));
    println!("ready with work: {}", work.is_ok());
    park_for_ever();
}

/// Starts this program as another process, and returns it with its first word after `ready`.
fn spawn(role: &str) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child_process", "--exact", "--nocapture"]).env(ROLE, role);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let ready = lines.find_map(|line| line.split_once("ready ").map(|(_, rest)| rest.to_owned()));
    (child, ready.expect("the process is ready"))
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A killed client's memory is released within a second, also if its work would run for longer.
fn check_killed_client(served: &Served, has_work: bool) {
    let before = resident();
    let (mut child, ready) = spawn(&format!("client:{}", served.device()));
    assert_eq!(ready, format!("with work: {has_work}"));
    let during = resident();
    assert!(during > before + 200 * MIB, "{before} bytes before, {during} during");
    child.kill().unwrap();
    let begin = Instant::now();
    child.wait().unwrap();
    while resident() > before + 100 * MIB || !served.server.is_empty() {
        assert!(begin.elapsed() < SOON, "{} bytes are not released", resident());
        std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
    }
    println!("released after {:?}", begin.elapsed());
}

#[test]
fn killed_client_of_an_own_device_frees_its_memory_soon() {
    let _one = one_at_a_time();
    check_killed_client(&support::own(), true);
}

#[test]
fn killed_client_of_a_shared_device_frees_its_memory_soon() {
    let _one = one_at_a_time();
    check_killed_client(&support::shared(), false);
}

/// Tests overlap with none that look at the process's memory.
fn one_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn killed_server_is_an_error_and_no_hang() {
    let _one = one_at_a_time();
    let (mut child, device) = spawn("server");
    let device = Remote::open(0, &device).unwrap();
    let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
    let cells = Cells::new(&device, 2).unwrap();
    let mut client = dispatcher.best_effort(ClientConfig::default()).unwrap();
    client.run(&[cells.append(1, 1)]).unwrap();
    let last = client.submit(&[cells.append(1, u64::MAX)]).unwrap();
    // sleep: so that it runs; an end before that is right as well
    std::thread::sleep(Duration::from_millis(20));
    child.kill().unwrap();
    child.wait().unwrap();
    let begin = Instant::now();
    let errors = [
        client.wait(last).unwrap_err(),
        device.alloc(64).map(|_| ()).unwrap_err(),
        cells.read().map(|_| ()).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("reef.sock"), "{error}");
    }
    drop((client, dispatcher, cells, device));
    let took = begin.elapsed();
    assert!(took < SOON, "the client waited for {took:?}");
}

struct Deaf;

impl Handler for Deaf {
    fn handle(&mut self, _: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        Ok(())
    }
}

fn raw_client(address: &str) -> Client {
    let address: Address = address.parse().unwrap();
    let mut options = ClientOptions::new(schema(), move || address.connect(SOON, None));
    let request = reef_remote::messages::Request { device: "cpu:0".into(), is_migrated: false };
    options.request = codec::write(&request).unwrap();
    Client::open(options, Box::new(Deaf)).unwrap()
}

/// Bodies that some operation could nearly read: small numbers, and now and then any bytes.
fn body(rng: &mut impl Rng) -> Vec<u8> {
    let len = rng.random_range(0..48);
    let is_small = rng.random();
    (0..len).map(|_| if is_small { rng.random_range(0..4) } else { rng.random() }).collect()
}

/// A session that sends anything ends or gets errors. Other sessions and the server go on.
#[test]
fn hostile_frames_reach_no_other_session() {
    let _one = one_at_a_time();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed =
        std::env::var("REEF_MALFORMED_SEED").map_or(now.as_nanos() as u64, |n| n.parse().unwrap());
    println!("REEF_MALFORMED_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    for served in [support::own(), support::shared()] {
        let other = Remote::open(0, &served.device()).unwrap();
        let buffer = other.alloc(64).unwrap();
        other.write(&buffer, 0, &[7; 64]).unwrap();
        let mut ended = 0;
        for _ in 0..100 {
            let client = raw_client(&served.address);
            for _ in 0..20 {
                let (op, lane) = (rng.random_range(16..58), rng.random_range(0..3));
                if client.post(op, lane, &[&body(&mut rng)]).is_err() {
                    break;
                }
            }
            ended += usize::from(client.call(30, 0, &[]).is_err());
        }
        assert!(ended > 50, "{ended} of 100 sessions ended");
        let mut bytes = [0; 64];
        other.read(&buffer, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 64]);
    }
}

/// A position that no device counts to ends its session, and not a thread of the server's.
#[test]
fn position_beyond_those_of_devices_ends_its_session() {
    const OPEN_LANE: u16 = 22;
    const RUN: u16 = 24;
    const ASK_CLOCK: u16 = 30;
    let _one = one_at_a_time();
    for served in [support::own(), support::shared()] {
        let client = raw_client(&served.address);
        let lane = codec::write(&(false, None::<u64>)).unwrap();
        client.call(OPEN_LANE, 1, &[&lane]).unwrap();
        let (none, command) = (Vec::<Section>::new(), RemoteCommand::Record);
        let run = (u64::MAX, command, None::<u64>, [false; 2], none.clone(), none);
        client.post(RUN, 1, &[&codec::write(&run).unwrap()]).unwrap();
        let said = client.call(ASK_CLOCK, 0, &[]).unwrap_err().to_string();
        assert!(said.contains("position"), "{said}");
    }
}

/// A queue would release what a command needs at the end of another one, and commands of one
/// position would have no bound.
#[test]
fn position_that_is_taken_ends_its_session() {
    const OPEN_LANE: u16 = 22;
    const RUN: u16 = 24;
    const ASK_CLOCK: u16 = 30;
    let _one = one_at_a_time();
    let served = support::own();
    for second in [4_u64, 3] {
        let client = raw_client(&served.address);
        let lane = codec::write(&(false, None::<u64>)).unwrap();
        client.call(OPEN_LANE, 1, &[&lane]).unwrap();
        for (seq, is_taken) in [(2_u64, false), (4, false), (second, true)] {
            let (none, command) = (Vec::<Section>::new(), RemoteCommand::Record);
            let run = (seq, command, None::<u64>, [false; 2], none.clone(), none);
            client.post(RUN, 1, &[&codec::write(&run).unwrap()]).unwrap();
            assert_eq!(client.call(ASK_CLOCK, 0, &[]).is_err(), is_taken, "{seq} of {second}");
        }
        let said = client.call(ASK_CLOCK, 0, &[]).unwrap_err().to_string();
        assert!(
            said.contains(&format!("position {second} of a lane: must be from 5 on")),
            "{said}"
        );
    }
}

/// Outputs of a command are kept until that has ended, also those without bytes.
#[test]
fn command_with_too_many_outputs_ends_its_session() {
    const RUN: u16 = 24;
    const ASK_CLOCK: u16 = 30;
    let _one = one_at_a_time();
    let served = support::shared();
    let client = raw_client(&served.address);
    let (inputs, outputs): (Vec<Section>, Vec<Section>) = (Vec::new(), vec![(0, 0, 0); 1000]);
    let run = (0_u64, RemoteCommand::Record, None::<u64>, [false; 2], inputs, outputs);
    client.post(RUN, 1, &[&codec::write(&run).unwrap()]).unwrap();
    let said = client.call(ASK_CLOCK, 0, &[]).unwrap_err().to_string();
    assert!(said.contains("outputs: must be at most 256, got 1000"), "{said}");
}

/// A thousand sessions work at once, and the next one is refused.
#[test]
fn thousand_sessions_work_and_no_more() {
    let _one = one_at_a_time();
    let served = support::shared();
    let open = || Remote::open(0, &served.device());
    let mut devices = Vec::new();
    for _ in 0..1000 {
        devices.push(open().unwrap());
    }
    let refused = open().map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("1000 sessions"), "{refused}");
    for (index, device) in devices.iter().enumerate().step_by(37) {
        let buffer = device.alloc(8).unwrap();
        device.write(&buffer, 0, &index.to_le_bytes()).unwrap();
        let mut bytes = [0; 8];
        device.read(&buffer, 0, &mut bytes).unwrap();
        assert_eq!(usize::from_le_bytes(bytes), index);
    }
    drop(devices);
    let begin = Instant::now();
    while !served.server.is_empty() {
        assert!(begin.elapsed() < SOON, "{} sessions", served.server.len());
        std::thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
    }
    open().unwrap();
}
