//! Kernels that users bring.

use reef_core::{
    Args, Command, Config, Device, Error, Launch, PreemptLevel, Queue, Seq, VirtualQueue,
};
use reef_cuda::{Cuda, Kernel};

/// Adds its second parameter, 4 bytes, to the word at its first; for any GPU since 2014.
const PTX: &str = include_str!("bump.ptx");

/// `bump.ptx`, packed by NVIDIA's nvFatbin 12.9.
const FATBIN: &[u8] = include_bytes!("../../interpose/reef-ptx/tests/bump.fatbin");

const PREEMPTIBLE: &str = r#"
#include "reef.h"
extern "C" __global__ void scale(reef::Guard guard, float *data, unsigned factor) {
    REEF_CLAIM(block, guard);
    unsigned at = block.index * blockDim.x + threadIdx.x;
    float value = data[at] * factor;
    REEF_PREEMPTION_POINT(block);
    data[at] = value;
}
"#;

fn open() -> Option<Cuda> {
    reef_conformance::open(0, "")
}

fn launch(kernel: &Kernel, blocks: u32, words: &[u64]) -> Launch<Cuda> {
    // SAFETY: the tests below pass what the sources above take.
    unsafe { Launch::new(kernel.clone(), [blocks, 1, 1], [32, 1, 1], Args::new(words)) }
}

/// Runs commands on a queue at a level.
fn run(device: &Cuda, level: PreemptLevel, commands: &[Command<Cuda>]) -> Result<(), Error> {
    let config = Config::default().level(level);
    let (mut submitter, queue) = VirtualQueue::enable(device, config)?;
    for command in commands {
        submitter.submit_blocking(command.clone())?;
    }
    queue.finish()
}

#[test]
fn kernels_without_a_guard_are_stopped_between_launches_only() {
    let Some(device) = open() else { return };
    for image in [PTX.as_bytes(), FATBIN] {
        unguarded(&device, &device.load(image).unwrap().kernel("bump").unwrap());
    }
}

fn unguarded(device: &Cuda, bump: &Kernel) {
    let word = device.alloc(4).unwrap();
    let command = Command::Launch(launch(bump, 1, &[device.address(&word), 5]));
    let commands = vec![command; 20];
    run(device, PreemptLevel::HostQueue, &commands).unwrap();
    let mut bytes = [0; 4];
    device.read(&word, 0, &mut bytes).unwrap();
    assert_eq!(u32::from_ne_bytes(bytes), 100);
    for level in [PreemptLevel::DeviceQueue, PreemptLevel::All] {
        let error = run(device, level, &commands).unwrap_err();
        assert!(matches!(error, Error::Level { .. }), "{error}");
    }
}

#[test]
fn faulty_module_is_an_error_with_its_reason() {
    let Some(device) = open() else { return };
    let module = device.load(PTX.as_bytes()).unwrap();
    assert!(matches!(module.kernel("jump"), Err(Error::NotFound(_))));
    assert!(matches!(device.load(b"GIF89a"), Err(Error::Invalid(_))));
    assert!(device.load(b".version 6.0\nnonsense").is_err());
    assert!(matches!(device.load(&FATBIN[..FATBIN.len() - 1]), Err(Error::Invalid(_))));
    let bump = module.kernel("bump").unwrap();
    let mut queue = device.queue(reef_core::Priority::BestEffort, None).unwrap();
    match queue.launch(Seq(0), &launch(&bump, 1, &[0, 0, 0]), None) {
        Err(Error::Invalid(bump)) => assert_eq!(bump.reason, "takes 2 arguments, got 3"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_source_with_a_guard_runs_at_every_level() {
    let Some(device) = open() else { return };
    let module = match device.compile(PREEMPTIBLE) {
        Ok(module) => module,
        Err(Error::NotFound(why)) => return reef_conformance::skip(&why),
        Err(other) => panic!("{other}"),
    };
    let scale = module.kernel("scale").unwrap();
    let data = device.alloc(4 * 32 * 10).unwrap();
    for level in PreemptLevel::ALL {
        device.write(&data, 0, &1f32.to_ne_bytes().repeat(320)).unwrap();
        let command = Command::Launch(launch(&scale, 10, &[device.address(&data), 3]));
        run(&device, level, &[command.clone(), command]).unwrap();
        let mut bytes = vec![0; 1280];
        device.read(&data, 0, &mut bytes).unwrap();
        assert_eq!(bytes, 9f32.to_ne_bytes().repeat(320), "level {level}");
    }
    assert!(matches!(device.compile("nonsense"), Err(Error::Invalid(_))));
    let bare = device.compile("extern \"C\" __global__ void bare() {}").unwrap();
    match bare.kernel("bare") {
        Err(Error::Invalid(bare)) => assert!(bare.reason.contains("reef::Guard"), "{bare}"),
        other => println!("{other:?}: this driver can't tell"),
    }
}
