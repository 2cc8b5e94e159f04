//! Frames of an inference, counted by a relay between the client and its server.

mod support;

use reef_core::scheduler::Reef;
use reef_core::{Device, Dispatcher, PreemptLevel, Task};
use reef_models::Model;
use reef_remote::Remote;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

/// Operation of the client's command, and of the server's message that commands have ended.
const RUN: u16 = 24;
const ADVANCE: u16 = 31;
/// Operation of acknowledgements, which belong to the session. They go along with other frames.
const ACKNOWLEDGE: u16 = 5;
/// Bytes of a frame before its body, whose length stands first and is rounded up to 8.
const HEADER_LEN: usize = 16;

/// Number of frames by direction (up: from the client) and operation.
type Counts = Arc<Mutex<BTreeMap<(&'static str, u16), usize>>>;

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
        *counts.lock().unwrap().entry((direction, op)).or_default() += 1;
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
