//! A kernel that never answers costs its own queue, and is waited for by nothing else. Alone in its
//! file because the device is left with it.

use reef_core::{
    Args, Command, Config, Device, Error, Launch, Priority, Queue as _, Seq, VirtualQueue,
};
use reef_gfx906::{Settings, Software};
use reef_gpu::{Build, Modules};
use reef_hip::{Buffer, Hip, Kernel};
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
extern "C" __global__ void deaf(unsigned *word) {
    while (!__hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM))
        __builtin_amdgcn_s_sleep(1);
}
extern "C" __global__ void bump(unsigned *word) { *word += 1; }
"#;
/// Timeout that the device was opened with: longer than its threads wait for a processor, or other
/// queues are abandoned too.
const TIMEOUT: Duration = Duration::from_secs(10);

struct Bench {
    device: Hip,
    deaf: Kernel,
    bump: Kernel,
}

impl Bench {
    fn open() -> Option<Self> {
        let software = Software::load().expect("cargo builds the library before its tests");
        assert!(software.configure(&Settings::default()));
        let device = match Hip::open(0, "timeout=10") {
            Ok(device) => device,
            Err(Error::NotFound(why)) => {
                reef_conformance::skip(&why);
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let module = device.load(&device.vendor().compile(SOURCE, Build::Plain).unwrap()).unwrap();
        let [deaf, bump] = ["deaf", "bump"].map(|name| module.kernel(name).unwrap());
        Some(Self { device, deaf, bump })
    }

    fn launch(&self, kernel: &Kernel, word: &Buffer) -> Launch<Hip> {
        let args = Args::new(&[word.address()]);
        // SAFETY: both kernels take an address of a word, which the launch keeps.
        let launch = unsafe { Launch::new(kernel.clone(), [1; 3], [1; 3], args) };
        launch.keep(vec![word.clone()])
    }

    /// Result of 20 launches on a zero, in a queue of this class.
    fn count(&self, class: Priority) -> u32 {
        let word = self.device.alloc(4).unwrap();
        let mut queue = self.device.queue(class, None).unwrap();
        for seq in 0..20 {
            queue.launch(Seq(seq), &self.launch(&self.bump, &word), None).unwrap();
        }
        while queue.completed().unwrap() < Seq(20) {
            std::thread::yield_now();
        }
        let mut count = [0; 4];
        self.device.read(&word, 0, &mut count).unwrap();
        u32::from_le_bytes(count)
    }
}

#[test]
fn queue_that_never_answers_is_abandoned_and_others_live() {
    let Some(bench) = Bench::open() else { return };
    let device = &bench.device;
    let features = device.info().features;
    assert!(features.iter().any(|feature| feature.contains("abandons")), "{features:?}");
    let (end, count) = (device.alloc_host(4).unwrap(), device.alloc(4).unwrap());
    let (mut submitter, queue) = VirtualQueue::enable(device, Config::default()).unwrap();
    let start = Instant::now();
    let deaf = submitter.submit(Command::Launch(bench.launch(&bench.deaf, &end))).unwrap();
    let behind = submitter.submit(Command::Launch(bench.launch(&bench.bump, &count))).unwrap();

    // Others go on meanwhile.
    assert_eq!(bench.count(Priority::RealTime), 20);
    assert_eq!(bench.count(Priority::BestEffort), 20);

    // Its work is reported lost, and so is what is behind it.
    let lost = submitter.wait(deaf).unwrap_err();
    assert!(matches!(&lost, Error::DeviceLost { why, .. } if why.contains("abandoned")), "{lost}");
    assert!(start.elapsed() >= TIMEOUT);
    assert_eq!(submitter.wait(behind), Err(lost));
    ends_soon(|| drop(queue));

    // Memory that its commands keep is not used by others, and a new queue takes the place of the
    // old one.
    let address = count.address();
    drop((count, submitter));
    assert_ne!(device.alloc(4).unwrap().address(), address);
    assert_eq!(bench.count(Priority::BestEffort), 20);
    assert_eq!(bench.count(Priority::RealTime), 20);

    // A queue that is dropped before its silence is noticed.
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    queue.launch(Seq(0), &bench.launch(&bench.deaf, &end), None).unwrap();
    ends_soon(|| drop(queue));
    assert_eq!(bench.count(Priority::BestEffort), 20);

    device.write(&end, 0, &1u32.to_ne_bytes()).unwrap(); // lets the process end
    ends_soon(|| drop(bench));
}

/// Runs `act`, which must not wait for the kernel: it would wait for ever.
#[track_caller]
fn ends_soon(act: impl FnOnce()) {
    let start = Instant::now();
    act();
    assert!(start.elapsed() < 6 * TIMEOUT, "{:?}", start.elapsed());
}
