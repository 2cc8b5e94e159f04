//! A device that hangs: callers that check it go on, and it is lost in the end.

use super::*;
use reef::cluster::SILENCE_TIMEOUT;
use std::sync::atomic::AtomicBool as Switch;
use std::thread;

/// Ends what hangs, so that the test can end whatever came of it.
struct AtLast<'a>(&'a Switch);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

fn opened(device: &Losable) -> u32 {
    device.hangs().opened.load(Ordering::SeqCst)
}

/// The device hangs where `place` is; clients of another one notice nothing.
fn is_lost_in_the_end(place: fn(&losable::Hang) -> &Switch) {
    let devices = losable(2, false);
    let cluster = cluster(&devices);
    let mut elsewhere = rt(&cluster, Demand::default());
    let [well, hung] = [elsewhere.node().index(), 1 - elsewhere.node().index()];
    let mut moving = rt(&cluster, Demand::default());
    assert_eq!(moving.node().index(), hung);
    let (node, before) = (&cluster.nodes()[hung], opened(&devices[hung]));
    let switch = place(devices[hung].hangs());
    let begin = Instant::now();
    switch.store(true, Ordering::SeqCst);
    let at_last = AtLast(switch);
    // A busy machine may need as long.
    let may_be_lost = || begin.elapsed() >= SILENCE_TIMEOUT;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(node.check().is_ok() || may_be_lost(), "it may be busy"));
        }
        elsewhere.run(Replica::rt).unwrap();
    });
    let is_early = node.lost().is_some() && !may_be_lost();
    assert!(!is_early, "callers go on before the device is lost");
    assert!(opened(&devices[hung]) <= before + 2, "one thread asks, and the dispatcher once");
    while node.lost().is_none() {
        assert!(begin.elapsed() < LIMIT / 2, "it is still taken for well");
        elsewhere.run(Replica::rt).unwrap();
        thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
    }
    let said = node.lost().unwrap().to_string();
    assert_eq!(said, "losable: device lost: no answer for 10s");
    let asked = opened(&devices[hung]);
    assert!(node.check().is_err() && opened(&devices[hung]) == asked, "it is asked no more");
    moving.run(Replica::rt).unwrap();
    assert_eq!((moving.node().index(), cluster.nodes()[well].check()), (well, Ok(())));
    drop(at_last);
}

#[test]
fn device_hanging_when_a_queue_opens_is_lost() {
    within(LIMIT, || is_lost_in_the_end(|hang| &hang.opening));
}

#[test]
fn device_hanging_when_a_queue_is_asked_is_lost() {
    within(LIMIT, || is_lost_in_the_end(|hang| &hang.asking));
}

#[test]
fn device_hanging_when_a_queue_closes_is_lost() {
    within(LIMIT, || is_lost_in_the_end(|hang| &hang.closing));
}

/// Clients of one device with requests in flight, when the driver's calls hang. One thread may hang
/// in a call itself; the requests of the others go on elsewhere while it does.
fn requests_go_on_elsewhere(polled: bool) {
    let devices = losable(2, polled);
    let cluster = cluster(&devices);
    cluster.nodes()[1].limit_memory(0); // until the first has them all
    let demand = Demand::default().bytes(1);
    let config = ClientConfig::default();
    let mut rts = [(); 2].map(|()| cluster.real_time(demand, config, make).unwrap());
    let mut bes = [(); 2].map(|()| cluster.best_effort(demand, config, make).unwrap());
    cluster.nodes()[1].limit_memory(1 << 20);
    let (begun, moved, stop) = (&AtomicU32::new(0), &AtomicU32::new(0), &Switch::new(false));
    let switch = &devices[0].hangs().asking;
    thread::scope(|scope| {
        let at_last = AtLast(switch);
        let turns = |run: &mut dyn FnMut() -> bool| {
            run();
            begun.fetch_add(1, Ordering::SeqCst);
            while !run() && !stop.load(Ordering::SeqCst) {}
            moved.fetch_add(1, Ordering::SeqCst);
        };
        for client in &mut rts {
            scope.spawn(move || {
                turns(&mut || {
                    client.run(Replica::rt).unwrap();
                    client.moves() == 1
                });
            });
        }
        for client in &mut bes {
            scope.spawn(move || {
                turns(&mut || {
                    client.run(Replica::be).unwrap();
                    client.moves() == 1
                });
            });
        }
        while begun.load(Ordering::SeqCst) < 4 {
            thread::yield_now();
        }
        switch.store(true, Ordering::SeqCst);
        let begin = Instant::now();
        while moved.load(Ordering::SeqCst) < 3 {
            let moved = moved.load(Ordering::SeqCst);
            if begin.elapsed() > LIMIT / 2 {
                stop.store(true, Ordering::SeqCst);
                panic!("{moved} of 4 clients moved");
            }
            thread::sleep(Duration::from_millis(10)); // sleep: poll of a condition
        }
        let said = cluster.nodes()[0].lost().unwrap().to_string();
        assert!(said.contains("has not returned for 10s") || said.contains("no answer"), "{said}");
        drop(at_last); // the call returns
    });
    let at = |node: &Node<Losable>| node.index();
    assert_eq!(rts.each_ref().map(|client| (at(client.node()), client.moves())), [(1, 1); 2]);
    assert_eq!(bes.each_ref().map(|client| (at(client.node()), client.moves())), [(1, 1); 2]);
    assert_eq!([0, 1].map(|at| cluster.nodes()[at].clients()), [0, 4]);
}

#[test]
fn requests_on_a_hanging_device_go_on_elsewhere() {
    within(LIMIT, || requests_go_on_elsewhere(false));
}

#[test]
fn requests_on_a_hanging_polled_device_go_on_elsewhere() {
    within(LIMIT, || requests_go_on_elsewhere(true));
}

/// Part of a replica whose memory is freed by a call that hangs while the switch is up.
struct Freed(Arc<Switch>);

impl Drop for Freed {
    fn drop(&mut self) {
        while self.0.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
    }
}

#[test]
fn request_moves_before_its_old_replica_is_freed() {
    within(LIMIT, || {
        let devices = losable(2, false);
        let cluster = cluster(&devices);
        let hangs = Arc::new(Switch::new(false));
        let build = {
            let hangs = hangs.clone();
            move |node: &Node<Losable>| Ok((make(node)?, Freed(hangs.clone())))
        };
        let config = ClientConfig::default();
        let mut client = cluster.best_effort(Demand::default(), config, build).unwrap();
        let run = |client: &mut BeClient<Losable>, replica: &mut (Replica<Losable>, Freed)| {
            Replica::be(client, &mut replica.0)
        };
        client.run(run).unwrap();
        hangs.store(true, Ordering::SeqCst);
        let at_last = AtLast(&hangs);
        devices[0].lose();
        client.run(run).unwrap();
        assert_eq!((client.node().index(), client.moves()), (1, 1));
        drop(at_last);
    });
}

#[test]
fn overload_does_not_probe_the_device() {
    within(LIMIT, || {
        let devices = losable(1, false);
        let cluster = cluster(&devices);
        let mut client = rt(&cluster, Demand::default());
        let before = opened(&devices[0]);
        let full = Error::state("submitting a real-time task", "too many wait");
        assert_eq!(client.recover(&full), Ok(false));
        assert_eq!(opened(&devices[0]), before);
        assert_eq!(client.recover(&Error::Cancelled), Ok(false));
        assert!(opened(&devices[0]) > before);
    });
}
