//! A device that is lost: its models go on elsewhere or say why not, and nothing hangs.

use super::*;
use crate::engine::api::*;
use crate::engine::device;
use crate::engine::shared::SharedMemory;
use crate::kserve::http::trace;
use crate::local::client::connection::Client;
use crate::local::client::options::Options;
use crate::local::session::listen::Local;
use crate::net::access::Access;
use crate::net::folder::make_folder;
use crate::net::listener::bind;
use parking_lot::Mutex;
use reef::cluster::SILENCE_TIMEOUT;
use reef::models::Model;
use reef::{ClientConfig, HostMemory, Neighbours};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Two software devices.
pub(super) const TWO: &str = "cpu:0?units=1,cpu:1?units=1";

/// A device that can be lost: from then on whatever it is asked for fails.
#[derive(Debug, Clone)]
pub(super) struct Losable {
    pub(super) inner: Arc<dyn Engine>,
    is_lost: Arc<AtomicBool>,
    /// Blocks there don't end.
    hangs: Arc<AtomicBool>,
    /// The memory that it reports, in bytes.
    pub(super) memory: Option<u64>,
    /// False: it refuses all networks.
    pub(super) has_kernels: bool,
    /// Loads, allocations, mappings and questions whether it works don't end.
    pub(super) slow: Arc<AtomicBool>,
    /// Loads alone don't end.
    hangs_loads: Arc<AtomicBool>,
    /// The number of loads that have begun, of runs, and of checks.
    pub(super) loads: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
    checks: Arc<AtomicUsize>,
    /// Memory of other processes: the first byte of a handle is its place here.
    pub(super) shared: Arc<Mutex<Vec<Arc<dyn SharedMemory>>>>,
}

impl Losable {
    pub(super) fn new(inner: Arc<dyn Engine>) -> Self {
        let (is_lost, hangs, slow, hangs_loads, loads, runs, checks, shared) = Default::default();
        let memory = inner.memory();
        Self {
            inner,
            is_lost,
            hangs,
            memory,
            has_kernels: true,
            slow,
            hangs_loads,
            loads,
            runs,
            checks,
            shared,
        }
    }

    fn wait_if_slow(&self) {
        until("the device goes on", || (!self.slow.load(Ordering::SeqCst)).then_some(()));
    }

    fn test(&self) -> Result<()> {
        let lost = Error::Failed("losable: device lost: it fell off the bus".into());
        if self.is_lost.load(Ordering::SeqCst) { Err(lost) } else { Ok(()) }
    }

    fn model(&self, inner: Arc<dyn DeviceModel>) -> Arc<dyn DeviceModel> {
        Arc::new(LosableModel { inner, device: self.clone() })
    }
}

impl Engine for Losable {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn sizes(&self, model: &Model) -> Sizes {
        self.inner.sizes(model)
    }

    fn load(&self, model: Model, measure: bool) -> Result<Arc<dyn DeviceModel>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        self.wait_if_slow();
        until("the load goes on", || (!self.hangs_loads.load(Ordering::SeqCst)).then_some(()));
        self.test()?;
        if !self.has_kernels {
            return Err(Error::Unsupported("losable: no kernel".into()));
        }
        Ok(self.model(self.inner.load(model, measure)?))
    }

    fn load_sharing(&self, model: Model, _: &dyn DeviceModel) -> Result<Arc<dyn DeviceModel>> {
        self.load(model, false)
    }

    fn open_shared(&self, handle: &[u8; 64]) -> Result<Arc<dyn SharedMemory>> {
        self.wait_if_slow();
        self.test()?;
        let none = || Error::Invalid("no memory of another process".into());
        self.shared.lock().get(usize::from(handle[0])).cloned().ok_or_else(none)
    }

    fn alloc_shared(&self, bytes: usize) -> Result<Arc<dyn SharedMemory>> {
        self.wait_if_slow();
        self.inner.alloc_shared(bytes)
    }

    fn trim(&self) -> Result<()> {
        self.inner.trim()
    }

    fn stats(&self) -> reef::Stats {
        until("the device goes on", || (!self.hangs.load(Ordering::SeqCst)).then_some(()));
        self.inner.stats()
    }

    fn units(&self) -> u32 {
        self.inner.units()
    }

    fn memory(&self) -> Option<u64> {
        self.memory
    }

    fn check(&self) -> Result<()> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        self.wait_if_slow();
        let goes_on = || self.test().is_err() || !self.hangs.load(Ordering::SeqCst);
        until("the device goes on", || goes_on().then_some(()));
        self.test()
    }

    fn mark_lost(&self, why: &str) {
        self.inner.mark_lost(why);
    }

    fn uuid(&self) -> Option<[u8; 16]> {
        self.inner.uuid()
    }

    fn set_neighbours(&self, principal: Option<Arc<dyn Neighbours>>) {
        self.inner.set_neighbours(principal);
    }

    fn run_pass(&self) {
        self.inner.run_pass();
    }

    fn has_best_effort(&self) -> bool {
        self.inner.has_best_effort()
    }

    fn clock(&self) -> Duration {
        self.inner.clock()
    }

    fn set_trace(&self, on: bool) {
        until("the device goes on", || (!self.hangs.load(Ordering::SeqCst)).then_some(()));
        self.inner.set_trace(on);
    }

    fn take_trace(&self) -> DeviceTrace {
        self.inner.take_trace()
    }
}

#[derive(Debug)]
struct LosableModel {
    inner: Arc<dyn DeviceModel>,
    device: Losable,
}

impl DeviceModel for LosableModel {
    fn instance(&self, class: Class, config: ClientConfig) -> Result<Box<dyn Instance>> {
        self.device.test()?;
        let inner = self.inner.instance(class, config)?;
        Ok(Box::new(LosableInstance { inner, device: self.device.clone() }))
    }

    fn own_bytes(&self) -> u64 {
        self.inner.own_bytes()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
struct LosableInstance {
    inner: Box<dyn Instance>,
    device: Losable,
}

impl Instance for LosableInstance {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.device.test()?;
        self.inner.write(offset, bytes)
    }

    fn share(&mut self, memory: HostMemory, slots: &[(usize, usize)]) -> Result<bool> {
        self.device.test()?;
        self.inner.share(memory, slots)
    }

    fn run(&mut self, run: Run<'_>) -> Result<RunTiming> {
        self.device.test()?;
        self.device.runs.fetch_add(1, Ordering::SeqCst);
        until("the device goes on", || (!self.device.hangs.load(Ordering::SeqCst)).then_some(()));
        let ran = self.inner.run(run)?;
        self.device.test()?; // lost while it ran
        Ok(ran)
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.device.test()?;
        self.inner.read(offset, bytes)
    }
}

/// A daemon on software devices that have these names for it, and the devices.
pub(super) fn on(
    test: &str,
    [software, names]: [&str; 2],
    change: impl FnOnce(&mut Config),
) -> (Fixture, Vec<Losable>) {
    let inner = device::start(software, "reef", 0.0).unwrap();
    let devices: Vec<Losable> = inner.into_iter().map(Losable::new).collect();
    let engine = |device: &Losable| Arc::new(device.clone()) as Arc<dyn Engine>;
    let engines: Vec<_> = devices.iter().map(engine).collect();
    let open = |mut config: Config| {
        config.device = names.into();
        Server::on(Nodes::new(names, engines), config)
    };
    (Fixture::open(test, change, open), devices)
}

/// A daemon on two devices with `tiny` on the first.
pub(super) fn two(test: &str, change: impl FnOnce(&mut Config)) -> (Fixture, Vec<Losable>) {
    on(test, [TWO; 2], change)
}

/// A daemon on one device with `tiny`.
fn one(test: &str) -> (Fixture, Losable) {
    let (fixture, mut devices) = on(test, ["cpu:0?units=1"; 2], |_| ());
    (fixture, devices.remove(0))
}

fn lose(device: &Losable) {
    device.is_lost.store(true, Ordering::SeqCst);
}

/// True if an error says that the device is lost, or is the device's own: its check may take longer
/// than a request waits for it.
fn tells_of_loss(error: &Error, device: &str) -> bool {
    let is_known = matches!(error, Error::Unavailable(text) if text.contains(device));
    let is_own = matches!(error, Error::Failed(text) if text.ends_with("it fell off the bus"));
    is_known && error.text().contains("is lost") || is_own
}

impl Fixture {
    fn request(&self, priority: u64) -> Result<Vec<u8>> {
        let model = self.server.registry.get("tiny", "")?;
        let made = block_on(self.server.infer(self.inference_on(model, priority)));
        made.map(|mut outputs| outputs.remove(0))
    }

    fn place(&self) -> Option<usize> {
        self.server.registry.get("tiny", "").ok().map(|model| model.node().index)
    }
}

pub(super) fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begin.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

/// The request that finds out is told; later ones run elsewhere, with the same result.
#[test]
fn a_model_of_a_lost_device_goes_on_on_another() {
    for priority in [1, 2] {
        let (fixture, lost) = two(&format!("moved-{priority}"), |_| ());
        let want = fixture.request(priority).unwrap();
        assert_eq!((fixture.place(), fixture.server.is_ready()), (Some(0), true));
        lose(&lost[0]);
        let said = fixture.request(priority).unwrap_err();
        let why = "losable: device lost: it fell off the bus";
        // The second one if the check of the device takes longer than a request waits for it.
        let told =
            [Error::Unavailable(format!("device cpu:0 is lost: {why}")), Error::Failed(why.into())];
        assert!(told.contains(&said), "{said}");
        let got = until("moved", || match fixture.request(priority) {
            Ok(got) => Some(got),
            Err(Error::Unavailable(said)) => {
                assert!(said.contains("cpu:0 is lost"), "{said}");
                None
            }
            Err(error) if told.contains(&error) => None,
            Err(error) => panic!("{error}"),
        });
        assert_eq!((got == want, fixture.place()), (true, Some(1)));
        let numbers = fixture.server.registry.get("tiny", "").unwrap().numbers();
        assert_eq!(numbers.success.count, 2, "it goes on counting");
        let text = fixture.server.metrics_now();
        for line in ["reef_device_up{device=\"cpu:0\"} 0", "reef_device_up{device=\"cpu:1\"} 1"] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(fixture.server.is_ready(), "a device works");
    }
}

/// Without room for it elsewhere: requests and later loads say what is wrong with each device, and
/// it can be unloaded.
#[test]
fn a_model_that_no_device_takes_says_why() {
    let (fixture, lost) = two("nowhere", |_| ());
    let registry = &fixture.server.registry;
    lost.iter().for_each(lose);
    assert!(fixture.request(2).is_err());
    let said = until("refused", || match registry.get("tiny", "") {
        Err(Error::Unavailable(said)) if said.contains("no device can take it") => Some(said),
        _ => None,
    });
    for device in ["cpu:0", "cpu:1"] {
        assert!(said.contains(device), "{said}");
    }
    assert!(said.contains("it fell off the bus"), "{said}");
    let listed = registry.index().unwrap();
    let tiny = listed.iter().find(|entry| entry.name.as_str() == "tiny").unwrap();
    assert_eq!((tiny.is_ready, &tiny.reason), (false, &said), "the index says it, too");
    assert!(!fixture.server.is_ready(), "no device works");
    assert!(registry.load(&ModelName::new("tiny").unwrap()).is_err());
    registry.unload(&ModelName::new("tiny").unwrap()).unwrap();
    assert!(matches!(registry.get("tiny", ""), Err(Error::NotFound(_))));
}

/// Requests that wait, run or come later on both devices while one is lost: each ends, with its
/// result or the reason.
#[test]
fn every_request_ends_when_one_of_two_devices_is_lost() {
    let (fixture, lost) = two("in-flight", |config| config.models.replicas = 2);
    let want = fixture.request(2).unwrap();
    let fixture = &fixture;
    let answers = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let ask = |thread: u64| {
            let request = |_| {
                let answer = fixture.request(1 + thread % 2);
                answers.fetch_add(1, Ordering::SeqCst);
                answer.err()
            };
            for error in (0..30).filter_map(request) {
                assert!(tells_of_loss(&error, "cpu:1"), "{error}");
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
        until("requests run", || (answers.load(Ordering::SeqCst) >= 8).then_some(()));
        lose(&lost[1]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    until("one replica", || {
        let _ = fixture.request(2); // the request that runs there finds out
        let replicas = &fixture.server.registry.select("tiny", "").ok()?[0];
        (replicas.each().len() == 1).then_some(())
    });
    for _ in 0..4 {
        assert_eq!(fixture.request(1).unwrap(), want);
    }
    until("its memory", || {
        let used: Vec<_> = fixture.server.registry.device_memory().collect();
        (used[1] == 0 && used[0] > 0).then_some(())
    });
}

/// A request never ends on a lost device: its model goes on elsewhere, and models come and go, as
/// does the daemon.
#[test]
fn a_hung_device_holds_up_no_request_once_it_is_lost() {
    let (fixture, fates) = two("hangs", |_| ());
    let (registry, tiny) = (fixture.server.registry.clone(), ModelName::new("tiny").unwrap());
    fates[0].hangs.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let _hung = scope.spawn(|| fixture.request(1));
        let node = &fixture.server.nodes[0];
        until("it runs", || (node.load() > 0).then_some(()));
        node.mark_lost("it hangs");
        until("moved", || fixture.place().filter(|at| *at == 1));
        let (sender, done) = channel();
        std::thread::spawn(move || {
            let _ = sender.send(registry.load(&tiny).and_then(|()| registry.unload(&tiny)));
            registry.clear();
            let _ = sender.send(Ok(()));
        });
        let said = [(); 2].map(|()| done.recv_timeout(SOON));
        fates[0].hangs.store(false, Ordering::SeqCst); // whatever came of it
        assert_eq!(said, [(); 2].map(|()| Ok(Ok(()))), "it waits for the device");
    });
}

/// Everything that it is asked hangs, also whether it works. Its model goes on elsewhere, and so do
/// those that were there.
#[test]
fn device_that_hangs_is_lost_after_some_silence() {
    let (fixture, fates) = two("silent", |config| config.models.replicas = 2);
    let want = fixture.request(1).unwrap();
    let node = fixture.server.nodes[0].clone();
    fates[0].hangs.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    let failed = Error::Failed("a kernel".into());
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8).map(|_| scope.spawn(|| node.is_lost_after(&failed))).collect();
        let busy = node.enter(); // so that requests go to the other
        assert_eq!(fixture.request(1).unwrap(), want, "meanwhile");
        drop(busy);
        askers.into_iter().for_each(|asker| assert!(!asker.join().unwrap(), "it may be busy"));
    });
    let waited = begin.elapsed();
    until("lost", || node.lost().map(|why| assert_eq!(why, "no answer for 10s")));
    fates[0].hangs.store(false, Ordering::SeqCst); // whatever came of it
    assert!(waited < SILENCE_TIMEOUT, "{waited:?}");
    until("one replica", || {
        let replicas = &fixture.server.registry.select("tiny", "").ok()?[0];
        (replicas.each().len() == 1).then_some(())
    });
    assert_eq!((fixture.request(1).unwrap(), fixture.place()), (want, Some(1)));
}

/// Metrics, readiness, the list of devices and the page ask all devices for them.
#[test]
fn counters_of_a_device_that_hangs_keep_no_caller() {
    let (fixture, fates) = two("counters", |_| ());
    let (server, node) = (fixture.server.clone(), fixture.server.nodes[0].clone());
    let before = node.stats();
    fates[0].hangs.store(true, Ordering::SeqCst);
    let (sender, done) = channel();
    std::thread::spawn(move || {
        let text = server.metrics_now();
        let known: Vec<_> = server.nodes.iter().map(|node| node.stats()).collect();
        let _ = sender.send((text.contains("reef_device_up{device=\"cpu:0\"} 1"), known[0]));
    });
    let said = done.recv_timeout(SOON);
    fates[0].hangs.store(false, Ordering::SeqCst); // whatever came of it
    assert_eq!(said, Ok((true, before)), "it waits for the device");
    fixture.request(1).unwrap();
    until("its counters", || (node.stats().rt_finished > before.rt_finished).then_some(()));
}

/// The runtime of this test has one thread.
#[test]
fn trace_of_a_device_that_hangs_keeps_no_io_thread() {
    let (fixture, fates) = two("traced-hang", |_| ());
    fates[0].hangs.store(true, Ordering::SeqCst);
    let text = block_on(async {
        let trace = trace::record(fixture.server.clone(), Duration::from_millis(1));
        let mut trace = std::pin::pin!(trace);
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut trace).await;
        fates[0].hangs.store(false, Ordering::SeqCst); // whatever came of it
        assert!(waits.is_err(), "the thread waited for the device");
        trace.await
    });
    assert!(!text.unwrap().is_empty());
}

/// A lost device refuses at once, so it has the least to do.
#[test]
fn a_lost_device_gets_no_requests_while_another_works() {
    let (fixture, fates) = two("least", |config| config.models.replicas = 2);
    let replicas = fixture.server.registry.select("tiny", "").unwrap().remove(0);
    fates.iter().for_each(|fate| fate.hangs.store(true, Ordering::SeqCst));
    let nodes = &fixture.server.nodes;
    let _busy = nodes[0].enter();
    assert_eq!(replicas.next().node().index, 1);
    nodes[1].mark_lost("taken out");
    for _ in 0..3 {
        assert_eq!(replicas.next().node().index, 0);
    }
    nodes[0].mark_lost("taken out, too");
    nodes.iter().for_each(|node| _ = node.stats()); // asks neither
    assert_eq!(replicas.next().node().index, 1, "each says why");
}

/// The daemon has memory for one replica at a time.
#[test]
fn memory_of_a_lost_replica_is_enough_for_the_next_one() {
    let (fixture, fates) = two("room", |config| config.memory.total_mib = 1 << 20);
    let registry = &fixture.server.registry;
    let bytes = registry.select("tiny", "").unwrap()[0].bytes();
    let is_room = |left: u64| {
        let rest = registry.budget().remaining() - left;
        let _rest = registry.budget().reserve("the rest", rest).unwrap();
        registry.load(&ModelName::new("tiny").unwrap()).is_ok()
    };
    let enough = (1..).map(|n| n * bytes / 8).find(|&left| is_room(left)).unwrap();
    let left = enough - bytes / 8;
    let rest = registry.budget().remaining() - left;
    let _rest = registry.budget().reserve("the rest", rest).unwrap();
    let (had, want) = (fixture.place().unwrap(), fixture.request(2).unwrap());
    lose(&fates[had]);
    assert!(fixture.request(2).is_err());
    let got = until("moved", || match fixture.request(2) {
        Err(Error::Unavailable(said)) if said.contains("no device can take it") => panic!("{said}"),
        answer => answer.ok(),
    });
    assert_eq!((got == want, fixture.place()), (true, Some(1 - had)));
}

/// Of two replicas one is made, and then the other's device turns out to be lost.
#[test]
fn device_loss_during_a_load_keeps_the_other_replica() {
    let (fixture, fates) = two("while-loading", |config| config.models.replicas = 2);
    let registry = &fixture.server.registry;
    lose(&fates[1]);
    let name = ModelName::new("other").unwrap();
    // Again if the check of the device takes longer than the load waits for it.
    until("loaded", || registry.load(&name).ok());
    let other = registry.select("other", "").unwrap().remove(0);
    let devices: Vec<_> = other.each().iter().map(|replica| replica.node().index).collect();
    assert_eq!(devices, [0]);
}

#[test]
fn a_loss_is_noticed_by_a_request_for_a_network() {
    let (fixture, fates) = two("network", |_| ());
    let model = fixture.server.registry.get("tiny", "").unwrap();
    lose(&fates[0]);
    let said = model.make(&vec![vec![7]], &Tenant::owner(), u64::MAX).unwrap_err();
    assert!(tells_of_loss(&said, "cpu:0"), "{said}");
    until("moved", || fixture.place().filter(|at| *at == 1));
}

/// The daemon's local path, and how to come in by it.
fn local(fixture: &Fixture) -> (Local, Options) {
    let folder = fixture.folder.join("run");
    make_folder(&folder).unwrap();
    let socket = bind(&folder.join("local.sock"), Access::Owner).unwrap();
    let local = Local::start(&fixture.server, socket, Access::Owner).unwrap();
    (local, Options { folder: Some(folder), ..Options::default() })
}

#[test]
fn a_loss_is_noticed_by_a_local_client_that_comes() {
    let (fixture, fates) = two("comes", |_| ());
    let (local, options) = local(&fixture);
    lose(&fates[0]);
    let said = Client::connect("tiny", &options).map(drop).unwrap_err();
    assert!(tells_of_loss(&said, "cpu:0"), "{said}");
    until("moved", || Client::connect("tiny", &options).ok());
    assert_eq!(fixture.place(), Some(1));
    local.stop();
}

/// It gets the reason, not the error for an unloaded model.
#[test]
fn a_local_client_hears_why_no_device_takes_its_model() {
    let (fixture, fates) = two("nowhere-local", |_| ());
    let (local, options) = local(&fixture);
    let mut client = Client::connect("tiny", &options).unwrap();
    fates.iter().for_each(lose);
    fixture.server.nodes[0].mark_lost("taken out");
    let said = until("its end", || client.ping().err());
    assert!(said.text().contains("no device can take it"), "{said}");
    local.stop();
}

/// It is abandoned: other models are loaded and moved meanwhile.
#[test]
fn load_that_hangs_on_a_lost_device_keeps_no_other_change() {
    let (fixture, devices) = two("load-lost", |_| ());
    let text = "network = \"resnet18\"\nsize = 32\nseed = 1\ndevices = [\"cpu:0\"]\n";
    std::fs::write(fixture.folder.join("other/model.toml"), text).unwrap();
    let before = devices[0].loads.load(Ordering::SeqCst);
    devices[0].slow.store(true, Ordering::SeqCst);
    let registry = fixture.server.registry.clone();
    let (sender, done) = channel();
    std::thread::spawn(move || {
        let [other, tiny] = ["other", "tiny"].map(|name| ModelName::new(name).unwrap());
        let _ = sender.send(registry.load(&other));
        let _ = sender.send(registry.load(&tiny));
    });
    until("it loads", || (devices[0].loads.load(Ordering::SeqCst) > before).then_some(()));
    fixture.server.nodes[0].mark_lost("a test");
    let said = [(); 2].map(|()| done.recv_timeout(SOON));
    devices[0].slow.store(false, Ordering::SeqCst); // whatever came of it
    let why = "model other/1: no device can take it: cpu:0 is lost: a test";
    assert_eq!(said, [Ok(Err(Error::Unavailable(why.into()))), Ok(Ok(()))]);
    until("moved", || fixture.place().filter(|at| *at == 1));
}

/// Nothing else asks whether the device works.
#[test]
fn load_that_hangs_does_not_keep_the_end_of_the_daemon() {
    let (fixture, device) = one("load-end");
    let before = device.loads.load(Ordering::SeqCst);
    device.hangs_loads.store(true, Ordering::SeqCst);
    let [loading, ending] = [(); 2].map(|()| fixture.server.registry.clone());
    std::thread::spawn(move || loading.load(&ModelName::new("other").unwrap()));
    until("it loads", || (device.loads.load(Ordering::SeqCst) > before).then_some(()));
    device.is_lost.store(true, Ordering::SeqCst);
    let (sender, done) = channel();
    std::thread::spawn(move || {
        ending.clear();
        let _ = sender.send(());
    });
    let said = done.recv_timeout(SOON / 2); // the load panics after `SOON`
    device.hangs_loads.store(false, Ordering::SeqCst); // whatever came of it
    assert_eq!(said, Ok(()), "it waits for the load");
}

/// Nothing else asks whether the device works.
#[test]
fn request_that_hangs_does_not_keep_the_end_of_the_daemon() {
    let (fixture, device) = one("request-end");
    device.hangs.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let _hung = scope.spawn(|| fixture.request(1));
        until("it runs", || (device.runs.load(Ordering::SeqCst) > 0).then_some(()));
        device.is_lost.store(true, Ordering::SeqCst);
        let registry = fixture.server.registry.clone();
        let (sender, done) = channel();
        std::thread::spawn(move || {
            registry.clear();
            let _ = sender.send(());
        });
        let said = done.recv_timeout(SOON / 2); // the run panics after `SOON`
        device.hangs.store(false, Ordering::SeqCst); // whatever came of it
        assert_eq!(said, Ok(()), "it waits for the request");
    });
}

/// However many jobs fail at once; a device that works is asked once more, for those that failed
/// after the first question.
#[test]
fn one_thread_asks_whether_a_device_works() {
    let ask_all = |is_lost: bool| {
        let inner = device::start("cpu:0?units=1", "reef", 0.0).unwrap().remove(0);
        let device = Losable::new(inner);
        let nodes = Nodes::new("cpu:0", vec![Arc::new(device.clone())]);
        device.slow.store(true, Ordering::SeqCst);
        device.is_lost.store(is_lost, Ordering::SeqCst);
        let failed = Error::Failed("a kernel".into());
        let coming = AtomicUsize::new(0);
        let are_told = std::thread::scope(|scope| {
            let ask = || {
                coming.fetch_add(1, Ordering::SeqCst);
                nodes.all[0].is_lost_after(&failed)
            };
            let jobs: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            until("all ask", || (coming.load(Ordering::SeqCst) == 8).then_some(()));
            until("one asks", || (device.checks.load(Ordering::SeqCst) > 0).then_some(()));
            // sleep: time in which other checks would begin; none fails a right daemon
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(device.checks.load(Ordering::SeqCst), 1, "at a time");
            device.slow.store(false, Ordering::SeqCst);
            let told: Vec<_> = jobs.into_iter().map(|job| job.join().unwrap()).collect();
            told.into_iter().all(|told| told == is_lost)
        });
        (are_told, device.checks.load(Ordering::SeqCst))
    };
    for (is_lost, most) in [(false, 2), (true, 1)] {
        // Not if a job asks later than the others, or the answer takes longer than a job waits.
        until("all share the answers", || {
            let (are_told, asked) = ask_all(is_lost);
            (are_told && asked <= most).then_some(())
        });
    }
}

#[test]
fn a_daemon_that_ends_moves_no_further_model() {
    let (fixture, devices) = two("ending", |config| config.models.replicas = 1);
    for name in ["b", "c", "d", "e"] {
        std::fs::create_dir_all(fixture.folder.join(name).join("1")).unwrap();
        let [from, to] = ["tiny", name].map(|name| fixture.folder.join(name).join("model.toml"));
        std::fs::copy(from, to).unwrap();
        fixture.load(name).unwrap();
    }
    let registry = &fixture.server.registry;
    assert_eq!(registry.models_by_device()[&0].len(), 3, "{:?}", registry.models_by_device());
    let before = devices[1].loads.load(Ordering::SeqCst);
    devices[1].slow.store(true, Ordering::SeqCst);
    fixture.server.nodes[0].mark_lost("a test");
    let begun = || devices[1].loads.load(Ordering::SeqCst) - before;
    until("a move begins", || (begun() == 1).then_some(()));
    std::thread::scope(|scope| {
        let end = scope.spawn(|| registry.clear());
        until("the daemon ends", || registry.is_closing().then_some(()));
        devices[1].slow.store(false, Ordering::SeqCst);
        end.join().unwrap();
    });
    assert_eq!((begun(), registry.len()), (1, 0));
}
