//! A device that hangs: callers that check it go on, and it is lost in the end.

use super::*;
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
    switch.store(true, Ordering::SeqCst);
    let at_last = AtLast(switch);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(node.check(), Ok(()), "it may be busy"));
        }
        elsewhere.run(Replica::rt).unwrap();
    });
    assert!(node.lost().is_none(), "callers go on before the device is lost");
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

#[test]
fn overload_does_not_probe_the_device() {
    within(LIMIT, || {
        let devices = losable(1, false);
        let cluster = cluster(&devices);
        let mut client = rt(&cluster, Demand::default());
        let before = opened(&devices[0]);
        let full = Error::State("too many real-time requests wait");
        assert_eq!(client.recover(&full), Ok(false));
        assert_eq!(opened(&devices[0]), before);
        assert_eq!(client.recover(&Error::Cancelled), Ok(false));
        assert!(opened(&devices[0]) > before);
    });
}
