//! Frames of an inference, counted by a relay between the client and its server.

use crate::support;
use reef_core::scheduler::Reef;
use reef_core::{Device, Dispatcher, Fill, PreemptLevel, Priority, Queue as _, Seq, Task};
use reef_models::Model;
use reef_remote::Remote;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

/// Operation of the client's command, and of the server's message that commands have ended.
const RUN: u16 = 24;
const ADVANCE: u16 = 31;
/// Operation that packs constants.
const PACK: u16 = 27;
/// Wanted of a whole load, the session's beginning included.
const MAX_ROUND_TRIPS: usize = 40;
/// Operation of acknowledgements, which belong to the session. They go along with other frames.
const ACKNOWLEDGE: u16 = 5;
/// Bytes of a frame before its body, whose length stands first and is rounded up to 8.
const HEADER_LEN: usize = 16;

/// Bytes whose fill takes milliseconds.
const FILLED_LEN: usize = 64 << 20;
/// Commands of a round, and rounds of which one has to show it.
const COMMANDS: u64 = 8;
const MAX_ROUNDS: u64 = 30;

/// Number of frames by direction (up: from the client) and operation.
type Counts = Arc<Mutex<BTreeMap<(&'static str, u16), usize>>>;

/// Number under which requests that want a reply are counted as well, and their flag in a frame.
const REQUESTS: u16 = u16::MAX;
const WANTS_REPLY: u16 = 2;

/// Passes frames on and counts them.
fn pass(mut from: UnixStream, mut to: UnixStream, direction: &'static str, counts: &Counts) {
    let mut frame = vec![0; HEADER_LEN];
    while from.read_exact(&mut frame[..HEADER_LEN]).is_ok() {
        let len = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        let op = u16::from_le_bytes(frame[4..6].try_into().unwrap());
        frame.resize(HEADER_LEN + len.next_multiple_of(8), 0);
        if from.read_exact(&mut frame[HEADER_LEN..]).is_err() {
            break;
        }
        let flags = u16::from_le_bytes(frame[6..8].try_into().unwrap());
        let mut counts = counts.lock().unwrap();
        *counts.entry((direction, op)).or_default() += 1;
        if flags & WANTS_REPLY != 0 {
            *counts.entry((direction, REQUESTS)).or_default() += 1;
        }
        drop(counts);
        if to.write_all(&frame).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both); // it may be gone
}

/// Address of a relay to a UNIX socket.
fn relay(folder: &tempfile::TempDir, to: &str, counts: &Counts) -> String {
    let path = folder.path().join("relay.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (to, counts) = (to.strip_prefix("unix:").unwrap().to_owned(), counts.clone());
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), UnixStream::connect(&to).unwrap());
            let (near_2, far_2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let up = counts.clone();
            std::thread::spawn(move || pass(near, far, "up", &up));
            let down = counts.clone();
            std::thread::spawn(move || pass(far_2, near_2, "down", &down));
        }
    });
    format!("unix:{}", path.display())
}

/// The input goes along with the inference, and its output comes with its end.
#[test]
fn warm_inference_is_one_frame_up_and_one_down() {
    const INFERENCES: usize = 40;
    let served = support::shared();
    let (folder, counts) = (tempfile::tempdir().unwrap(), Counts::default());
    let address = relay(&folder, &served.address, &counts);
    let device = Remote::open(0, &format!("{address}/cpu:0")).unwrap();
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let network = model.weights(&device).unwrap().network().unwrap();
    let scheduler = Box::new(Reef::default().level(PreemptLevel::HostQueue));
    let dispatcher = Dispatcher::start(&device, scheduler).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let task = Task::new(network.graphs(usize::MAX).unwrap()).unwrap();
    let mut infer = |round: usize| {
        let input: Vec<f32> =
            (0..network.input_len()).map(|i| ((i + round) % 13) as f32 / 4.0).collect();
        network.stage_input(&input).unwrap();
        client.run(&task).unwrap();
        network.staged_output().unwrap()
    };
    let first = infer(0);
    counts.lock().unwrap().clear();
    let outputs: Vec<_> = (1..=INFERENCES).map(&mut infer).collect();
    let mut counts = counts.lock().unwrap().clone();
    counts.retain(|(_, op), _| *op != ACKNOWLEDGE);
    let wanted = BTreeMap::from([(("up", RUN), INFERENCES), (("down", ADVANCE), INFERENCES)]);
    assert_eq!(counts, wanted);
    // Each output is that of its input: the thirteenth input is the first again.
    assert_eq!(outputs[12], first);
    assert!(outputs[..12].iter().all(|output| *output != first));
}

/// Requests that a client waits for, when it loads a network: packing waits for none, and
/// operations are prepared together.
#[test]
fn network_is_loaded_in_few_round_trips() {
    let served = support::shared();
    let (folder, counts) = (tempfile::tempdir().unwrap(), Counts::default());
    let address = relay(&folder, &served.address, &counts);
    let device = Remote::open(0, &format!("{address}/cpu:0")).unwrap();
    let model = Model::open("resnet50").input_size(32).read().unwrap();
    let network = model.weights(&device).unwrap().network().unwrap();
    let task = Task::new(network.graphs(usize::MAX).unwrap()).unwrap();
    let counts = counts.lock().unwrap();
    let count = |op| counts.get(&("up", op)).copied().unwrap_or(0);
    let packed = count(PACK);
    assert!(packed > 50, "packed constants: {packed}");
    let waited = count(REQUESTS) - packed;
    assert!(waited <= MAX_ROUND_TRIPS, "round trips: {waited}; frames: {counts:?}");
    drop(task);
}

/// On a device of its own a client says which end it waits for, and is told of that one alone.
#[test]
fn end_that_is_waited_for_is_the_only_one_that_is_told() {
    let served = support::own();
    let (folder, counts) = (tempfile::tempdir().unwrap(), Counts::default());
    let address = relay(&folder, &served.address, &counts);
    let device = Remote::open(0, &format!("{address}/cpu:0")).unwrap();
    let buffer = device.alloc(FILLED_LEN).unwrap();
    let fill = Fill { buffer, offset: 0, bytes: FILLED_LEN, word: 7 };
    let mut queue = device.queue(Priority::RealTime, None).unwrap();
    assert!(queue.wake(std::thread::current()));
    let mut told = Vec::new();
    for round in 0..MAX_ROUNDS {
        let begin = round * COMMANDS;
        counts.lock().unwrap().clear();
        (begin..begin + COMMANDS).for_each(|seq| queue.fill(Seq(seq), &fill).unwrap());
        queue.wake_at(Seq(begin + COMMANDS));
        while queue.completed().unwrap() < Seq(begin + COMMANDS) {
            std::thread::park();
        }
        let counts = counts.lock().unwrap();
        assert_eq!(counts.get(&("up", RUN)), Some(&(COMMANDS as usize)));
        told.push(counts.get(&("down", ADVANCE)).copied().unwrap_or(0));
        // The first command may have ended before the server heard the rest.
        if told.last() == Some(&1) {
            return;
        }
    }
    panic!("frames that told of ends: {told:?}");
}
