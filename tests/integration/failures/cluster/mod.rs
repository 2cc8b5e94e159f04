//! Several devices, of which one is lost: no work is lost without an error.

mod hung;
mod losable;

use super::within;
use losable::Losable;
use reef::cluster::{BePlaced, Cluster, Demand, Node, RtPlaced};
use reef::cpu::{Cpu, Kernel, Outcome};
use reef::dkp::{Profile, Resources};
use reef::scheduler::Reef;
use reef::{
    Args, Backend, BeClient, ClientConfig, Command, Device, Error, Launch, Result, RtClient, Task,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Far more than any of these takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Commands of a request.
const COMMANDS: usize = 5;

/// Work of a client: commands whose order, number and repetition show in one word.
struct Replica<D: Device> {
    word: Arc<AtomicU64>,
    commands: Vec<Command<D>>,
}

fn step(word: u64) -> u64 {
    word.wrapping_mul(3).wrapping_add(1)
}

/// A kernel of one block that takes a while and can be stopped before it takes effect.
fn kernel(word: &Arc<AtomicU64>, time: Duration) -> Kernel {
    let word = word.clone();
    Kernel::new("step", move |block, _| {
        let begin = Instant::now();
        while begin.elapsed() < time {
            if block.stopped() {
                return Outcome::Stopped;
            }
            std::thread::yield_now();
        }
        word.store(step(word.load(Ordering::SeqCst)), Ordering::SeqCst);
        Outcome::Done
    })
}

impl<D: Device + Backend<Kernel = Kernel>> Replica<D> {
    fn new(time: Duration) -> Self {
        let word = Arc::new(AtomicU64::new(0));
        // SAFETY: the kernel takes no arguments and holds its memory.
        let launch = unsafe { Launch::new(kernel(&word, time), [1; 3], [1; 3], Args::new(&[])) };
        let resources = Resources { threads: 1, ..Resources::default() };
        let micros = time.as_micros().max(1) as u32;
        let profile = Profile { blocks: 1, resources, micros, round_micros: vec![micros] };
        let launch = launch.with_profile(Arc::new(profile));
        Self { word, commands: vec![Command::Launch(launch); COMMANDS] }
    }

    /// Returns whether each command has run once since the last call.
    fn is_right(&self) -> bool {
        let want = (0..COMMANDS).fold(0, |word, _| step(word));
        self.word.swap(0, Ordering::SeqCst) == want
    }

    fn rt(client: &mut RtClient<D>, replica: &mut Self) -> Result<()> {
        client.run(&Task::new(replica.commands.clone())?)?;
        assert!(replica.is_right(), "commands were lost or repeated");
        Ok(())
    }

    fn be(client: &mut BeClient<D>, replica: &mut Self) -> Result<()> {
        client.run(&replica.commands)?;
        assert!(replica.is_right(), "commands were lost or repeated");
        Ok(())
    }
}

fn cluster<D: Device>(devices: &[D]) -> Cluster<D> {
    Cluster::start(devices.to_vec(), || Box::new(Reef::default())).unwrap()
}

fn losable(number: usize, polled: bool) -> Vec<Losable> {
    (0..number).map(|_| Losable::open("units=2&pin=0&nice=0", polled)).collect()
}

fn make<D: Device + Backend<Kernel = Kernel>>(_: &Node<D>) -> Result<Replica<D>> {
    Ok(Replica::new(Duration::from_micros(100)))
}

fn rt(cluster: &Cluster<Losable>, demand: Demand) -> RtPlaced<Losable, Replica<Losable>> {
    cluster.real_time(demand, ClientConfig::default(), make).unwrap()
}

fn be(cluster: &Cluster<Losable>) -> BePlaced<Losable, Replica<Losable>> {
    cluster.best_effort(Demand::default(), ClientConfig::default(), make).unwrap()
}

/// Two clients of each class in closed loops; the first device is lost when all have begun.
fn go_on_elsewhere(polled: bool) {
    let devices = losable(2, polled);
    let cluster = cluster(&devices);
    let (began, stop) = (&AtomicU32::new(0), &AtomicBool::new(false));
    let (mut rts, mut bes) =
        ([(); 2].map(|()| rt(&cluster, Demand::default())), [(); 2].map(|()| be(&cluster)));
    assert_eq!(cluster.nodes()[0].clients(), 2, "each device has one of each class");
    std::thread::scope(|scope| {
        // Three requests before the loss, three after.
        let turns = |run: &mut dyn FnMut()| {
            (0..3).for_each(|_| run());
            began.fetch_add(1, Ordering::SeqCst);
            while !stop.load(Ordering::SeqCst) {
                run();
            }
            (0..3).for_each(|_| run());
        };
        for client in &mut rts {
            scope.spawn(move || turns(&mut || client.run(Replica::rt).unwrap()));
        }
        for client in &mut bes {
            scope.spawn(move || turns(&mut || client.run(Replica::be).unwrap()));
        }
        while began.load(Ordering::SeqCst) < 4 {
            std::thread::yield_now();
        }
        devices[0].lose();
        stop.store(true, Ordering::SeqCst);
    });
    let places: Vec<_> = rts.iter().map(|c| (c.node().index(), c.moves())).collect();
    assert_eq!(places, [(1, 1), (1, 0)]);
    let places: Vec<_> = bes.iter().map(|c| (c.node().index(), c.moves())).collect();
    assert_eq!(places, [(1, 1), (1, 0)]);
    assert!(matches!(cluster.nodes()[0].lost(), Some(Error::DeviceLost { .. })));
    assert_eq!([0, 1].map(|at| cluster.nodes()[at].clients()), [0, 4]);
}

#[test]
fn clients_of_a_lost_device_move_to_another() {
    within(LIMIT, || go_on_elsewhere(false));
}

#[test]
fn clients_of_a_lost_polled_device_move_to_another() {
    within(LIMIT, || go_on_elsewhere(true));
}

/// A task that ends when that is so.
fn lasting(is_over: &Arc<AtomicBool>) -> Task<Losable> {
    let is_over = is_over.clone();
    let kernel = Kernel::new("lasts", move |_, _| {
        while !is_over.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Outcome::Done
    });
    // SAFETY: the kernel takes no arguments and touches no memory.
    let launch = unsafe { Launch::new(kernel, [1; 3], [1; 3], Args::new(&[])) };
    Task::new(vec![Command::Launch(launch)]).unwrap()
}

/// Requests that no thread waits for yet when the device is lost, while best-effort work pads them.
fn all_tickets_end(polled: bool) {
    let devices = losable(2, polled);
    let cluster = cluster(&devices);
    let (mut client, mut colocated) = (rt(&cluster, Demand::default()), be(&cluster));
    let mut third = rt(&cluster, Demand::default());
    let mut fourth = be(&cluster);
    assert_eq!([client.node(), fourth.node()].map(|node| node.index()), [0, 0]);
    let (be, replica) = fourth.parts().unwrap();
    let last = (0..20).map(|_| be.submit(&replica.commands).unwrap()).last().unwrap();
    let (rt, replica) = client.parts().unwrap();
    let task = Task::new(replica.commands.clone()).unwrap();
    let mut tickets: Vec<_> = (0..20).map(|_| rt.submit(&task).unwrap()).collect();
    // One that lasts until the device is lost, so that this meets work.
    let is_lost = Arc::new(AtomicBool::new(false));
    tickets.push(rt.submit(&lasting(&is_lost)).unwrap());
    tickets.extend((21..40).map(|_| rt.submit(&task).unwrap()));
    while tickets[5].try_wait().is_none() {
        std::thread::yield_now();
    }
    devices[0].lose();
    is_lost.store(true, Ordering::SeqCst);
    let ends: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
    let done = ends.iter().filter(|end| end.is_ok()).count();
    assert!((6..40).contains(&done), "{done} of 40 done");
    let error = ends.iter().find_map(|end| end.clone().err()).unwrap();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(ends[..done].iter().all(Result::is_ok), "in their order");
    // On a busy machine all of it may have ended before the loss.
    if let Err(error) = fourth.parts().unwrap().0.wait(last) {
        assert_eq!(fourth.recover(&error), Ok(true));
    }
    for client in [&mut client, &mut third] {
        client.run(Replica::rt).unwrap();
        assert_eq!(client.node().index(), 1);
    }
    for client in [&mut colocated, &mut fourth] {
        client.run(Replica::be).unwrap();
        assert_eq!(client.node().index(), 1);
    }
}

#[test]
fn every_ticket_of_a_lost_device_ends() {
    within(LIMIT, || all_tickets_end(false));
}

#[test]
fn every_ticket_of_a_lost_polled_device_ends() {
    within(LIMIT, || all_tickets_end(true));
}

#[test]
fn client_with_state_on_a_lost_device_gets_an_error() {
    within(LIMIT, || {
        let devices = losable(2, false);
        let cluster = cluster(&devices);
        let mut client = rt(&cluster, Demand::default().stays());
        client.run(Replica::rt).unwrap();
        devices[0].lose();
        for _ in 0..2 {
            let error = client.run(Replica::rt).unwrap_err().to_string();
            assert!(error.starts_with("losable: device lost: device 0 ("), "{error}");
            assert!(error.contains("off the bus; its client keeps state there"), "{error}");
        }
        assert_eq!(client.node().index(), 0);
    });
}

#[test]
fn request_losing_two_devices_gets_no_third() {
    within(LIMIT, || {
        let devices = losable(3, false);
        let cluster = cluster(&devices);
        let with_index = |node: &Node<Losable>| Ok((make(node)?, node.index()));
        let (demand, config) = (Demand::default(), ClientConfig::default());
        let mut bad = cluster.real_time(demand, config, with_index).unwrap();
        let mut good = rt(&cluster, demand);
        for _ in 0..2 {
            let error = bad.run(|client, (replica, at)| {
                devices[*at].lose();
                Replica::rt(client, replica)
            });
            let error = error.unwrap_err().to_string();
            assert!(error.contains("2 devices were lost under this client's requests"), "{error}");
        }
        let lost = cluster.nodes().iter().filter(|node| node.lost().is_some()).count();
        assert_eq!(lost, 2);
        good.run(Replica::rt).unwrap();
        assert_eq!(good.node().index(), 1);
    });
}

#[test]
fn error_without_a_device_left_names_all() {
    within(LIMIT, || {
        let devices = losable(2, false);
        let cluster = cluster(&devices);
        cluster.nodes()[1].limit_memory(10);
        let mut client = rt(&cluster, Demand::default().bytes(11));
        devices[0].lose();
        let error = client.run(Replica::rt).unwrap_err();
        assert!(matches!(error, Error::Unplaced(_)), "{error}");
        let error = error.to_string();
        assert!(error.starts_with("no device takes a client of 11 bytes: device 0 ("), "{error}");
        assert!(error.contains("off the bus; device 1 ("), "{error}");
        assert!(error.ends_with("0 of 10 bytes promised"), "{error}");
        cluster.nodes()[1].limit_memory(11);
        client.run(Replica::rt).unwrap();
    });
}

/// A dispatcher marks a device lost that answers but refuses to restore: its clients go elsewhere
/// as well.
#[test]
fn device_that_its_dispatcher_marks_lost_is_lost() {
    within(LIMIT, || {
        let cluster = cluster(&losable(2, false));
        let mut client = rt(&cluster, Demand::default());
        client.run(Replica::rt).unwrap();
        let why = Error::DeviceLost { backend: "losable", why: "it restores nothing".into() };
        cluster.nodes()[0].dispatcher().mark_lost(&why);
        client.run(Replica::rt).unwrap();
        assert_eq!((client.node().index(), client.moves()), (1, 1));
        assert_eq!(cluster.nodes()[0].lost(), Some(&why));
        assert_eq!(cluster.nodes()[1].check(), Ok(()));
    });
}

/// A device that has no memory left to be asked works all the same.
#[test]
fn full_device_is_not_lost() {
    within(LIMIT, || {
        let devices = losable(1, false);
        let cluster = cluster(&devices);
        let mut client = rt(&cluster, Demand::default());
        devices[0].fill();
        assert_eq!(cluster.nodes()[0].check(), Ok(()));
        client.run(Replica::rt).unwrap();
    });
}

/// A device that has no memory to go on with best-effort work is abandoned by its dispatcher,
/// whatever the error is.
#[test]
fn device_marked_lost_for_any_reason_is_lost() {
    within(LIMIT, || {
        let cluster = cluster(&losable(1, false));
        let node = &cluster.nodes()[0];
        let why = Error::OutOfMemory { backend: "losable", asked: 7 };
        node.dispatcher().mark_lost(&why);
        assert_eq!(node.check(), Err(why));
    });
}

/// The first kernel panics, which ends its queue and nothing else.
#[test]
fn failed_kernel_does_not_lose_the_device() {
    within(LIMIT, || {
        let devices = [0, 1].map(|at| Cpu::open(at, "units=1").unwrap());
        let cluster = cluster(&devices);
        let build = |_: &Node<Cpu>| {
            let panics = Kernel::new("panics", |_, _| panic!("on purpose"));
            // SAFETY: the kernel takes no arguments and touches no memory.
            Ok(unsafe { Launch::new(panics, [1; 3], [1; 3], Args::new(&[])) })
        };
        let config = ClientConfig::default();
        let mut client = cluster.real_time(Demand::default(), config, build).unwrap();
        let ran = client
            .run(|client, launch| client.run(&Task::new(vec![Command::Launch(launch.clone())])?));
        assert!(matches!(ran, Err(Error::DeviceLost { .. })), "{ran:?}");
        assert_eq!((client.node().index(), client.moves()), (0, 0));
        assert!(cluster.nodes().iter().all(|node| node.lost().is_none()));
    });
}

/// A device turns out to have less room than it promised.
#[test]
fn client_refused_by_a_full_device_goes_to_the_next() {
    let devices = losable(3, false);
    let cluster = cluster(&devices);
    let build = |node: &Node<Losable>| match node.index() {
        0 => Err(Error::OutOfMemory { backend: "losable", asked: 7 }),
        1 => Err(Error::invalid("file", "is broken")),
        _ => Ok(()),
    };
    let place = || cluster.real_time(Demand::default(), ClientConfig::default(), build);
    assert_eq!(
        place().map(drop),
        Err(Error::invalid("file", "is broken")),
        "no other would do better"
    );
    let _first = rt(&cluster, Demand::default());
    let _second = rt(&cluster, Demand::default());
    assert_eq!(place().unwrap().node().index(), 2);
}

#[test]
fn clients_on_one_device_share_a_replica_until_the_last_ends() {
    let devices = losable(2, false);
    let cluster = cluster(&devices);
    let made = Arc::new(AtomicU32::new(0));
    let count = made.clone();
    let weights =
        Arc::new(cluster.replicas(100, move |_: &Losable| {
            Ok::<u32, Error>(count.fetch_add(1, Ordering::SeqCst))
        }));
    let place = || {
        let weights = weights.clone();
        let build = move |node: &Node<Losable>| weights.on(node);
        cluster.best_effort(Demand::default().bytes(1), ClientConfig::default(), build).unwrap()
    };
    let mut clients: Vec<_> = (0..4).map(|_| place()).collect();
    assert_eq!(made.load(Ordering::SeqCst), 2);
    assert_eq!([0, 1].map(|at| cluster.nodes()[at].promised_bytes()), [102, 102]);
    clients.remove(2);
    assert_eq!(cluster.nodes()[0].promised_bytes(), 101);
    clients.remove(0);
    assert_eq!(cluster.nodes()[0].promised_bytes(), 0);
    devices[1].lose();
    for client in &mut clients {
        assert_eq!(client.recover(&Error::Cancelled), Ok(true));
        assert_eq!(***client.parts().unwrap().1, 2, "one for both");
    }
}

#[test]
fn device_named_twice_is_refused() {
    let uuid = format!("units=1&uuid={:032x}", 7);
    let devices = ["units=1", &uuid, &uuid].map(|options| Cpu::open(0, options).unwrap());
    let error = Cluster::start(devices.to_vec(), || Box::new(Reef::default())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "devices 1 and 2: must differ, both are software device, 1 units"
    );
    let none = Cluster::<Cpu>::start(Vec::new(), || Box::new(Reef::default()));
    assert_eq!(none.unwrap_err(), Error::invalid("devices", "must be at least one, got none"));
}
