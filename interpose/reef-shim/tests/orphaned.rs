//! A best-effort program whose daemon is deaf at first, whose holder stays for too long, whose
//! daemon and holder die, and whose daemon comes back.

mod common;

use common::graph::Graph;
use common::{Driver, FAKE, SOON, UUID, Work, call, library, until, until_at_rest};
use reef_guest::join::{JoinRequest, join};
use reef_guest::page::Class;
use reef_guest::registry::Registry;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::time::{Duration, Instant};

struct Program {
    driver: Driver,
    work: Work,
    path: PathBuf,
}

impl Program {
    fn start(path: &Path) -> Self {
        // SAFETY: this test is alone in its process.
        unsafe {
            std::env::set_var("REEF_GUESTS", path);
            std::env::set_var("REEF_CUDA", library(FAKE));
        }
        let driver = Driver::begin();
        Self { driver, work: driver.work(8), path: path.into() }
    }

    fn launch(&self) {
        let Work { stream, memory, mix } = self.work;
        assert_eq!(self.driver.launch("cuLaunchKernel", mix, stream, memory, 1), 0);
    }

    fn is_idle(&self) -> bool {
        call!(self.driver, cuStreamQuery(self.work.stream)) == 0
    }

    fn is_held(&self) -> bool {
        self.launch();
        until_at_rest();
        !self.is_idle()
    }

    fn daemon(&self) -> Registry {
        let _ = std::fs::remove_file(&self.path); // of one that was deaf
        Registry::open(&self.path, Box::new(|_, wish| Ok(wish.class))).unwrap()
    }
}

/// Socket without an answer.
fn deaf(path: &Path) -> OwnedFd {
    let _ = std::fs::remove_file(path);
    // SAFETY: an address of this path, which is short; the result is checked.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        let bytes = path.as_os_str().as_encoded_bytes().iter();
        address.sun_path.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte as libc::c_char);
        let length = size_of::<libc::sockaddr_un>() as u32;
        assert_eq!(libc::bind(socket, (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(socket, 8), 0);
        OwnedFd::from_raw_fd(socket)
    }
}

/// One test: the library's state is the process's.
#[test]
fn guest_outlives_its_daemons_and_joins_the_next() {
    let path = std::env::temp_dir().join(format!("reef-orphaned-{}", std::process::id()));
    let deaf = deaf(&path);
    let program = Program::start(&path);
    let registry = joins_late(&program, deaf);
    breathes(&program, &registry);
    let exec = graph(&program);
    opens_for_good(&program, registry);
    joins_again(&program, exec);
}

/// A daemon that doesn't answer costs the first launch a moment, and is joined by no call of the
/// program.
fn joins_late(program: &Program, deaf: OwnedFd) -> Registry {
    program.launch();
    until("the first, which is passed on", || program.is_idle());
    drop(deaf);
    let registry = program.daemon();
    until("it joins by itself", || !registry.guests().is_empty());
    registry.hold(UUID, true);
    until("held", || program.is_held());
    registry.hold(UUID, false);
    until("released", || program.is_idle());
    registry
}

/// A holder of more than a second holds, except for a starvation relief in which waiting work runs.
fn breathes(program: &Program, registry: &Registry) {
    // Its watchdog has looked at the gate between two times that it counted, so that the time of
    // the hold before is forgotten.
    for _ in 0..2 {
        let busy = registry.guests()[0].busy;
        until("its watchdog sees it busy", || {
            program.launch();
            registry.guests()[0].busy > busy
        });
    }
    until("the end", || program.is_idle());
    let begin = Instant::now();
    registry.hold(UUID, true);
    program.launch();
    until("a starvation relief", || program.is_idle());
    let time = begin.elapsed();
    assert!(time > Duration::from_millis(500), "held until {time:?}");
    assert!(registry.guests()[0].starvation_reliefs >= 1); // or more
    until("held again", || program.is_held());
    registry.hold(UUID, false);
    until("released", || program.is_idle());
    assert!(registry.guests()[0].held > Duration::from_millis(500), "as long as it was held");
    until("looks that see it busy", || {
        program.launch();
        registry.guests()[0].busy > Duration::ZERO
    });
    until("the end", || program.is_idle());
}

/// Holds a guest when a graph reaches its middle.
static HOLDER: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn hold(_: usize) {
    // SAFETY: null, or the test's registry, which outlives the graph's run.
    unsafe { HOLDER.load(SeqCst).as_ref() }.into_iter().for_each(|holder| holder.hold(UUID, true));
}

/// An executable graph that has gates inside, behind a function that holds.
fn graph(program: &Program) -> usize {
    let graph = Graph::new(program.driver, program.work.mix);
    let host = graph.host(&[], hold, 0);
    graph.chain(&[host], program.work.memory, 0..100);
    graph.instantiate()
}

/// The daemon dies, and then a real-time guest that holds: no process removes its bit.
fn opens_for_good(program: &Program, registry: Registry) {
    let rt =
        join(&program.path, &JoinRequest { class: Class::RealTime, device: UUID }, SOON).unwrap();
    registry.hold(UUID, true);
    rt.page.activity.hold();
    drop((registry, rt));
    program.launch();
    let time = until("open", || program.is_idle());
    println!("opened after {time:?}");
    // sleep: time in which it would close again; none fails a right library
    std::thread::sleep(Duration::from_millis(20));
    let begin = Instant::now();
    for _ in 0..100 {
        program.launch();
        assert_eq!(call!(program.driver, cuStreamSynchronize(program.work.stream)), 0);
    }
    // Otherwise each launch would wait most of a second for a starvation relief.
    assert!(begin.elapsed() < SOON, "it stays open");
}

/// The next daemon takes the same page, so that gates which graphs have had inside since before are
/// its own as well.
fn joins_again(program: &Program, exec: usize) {
    let mut registry = program.daemon();
    until("it is there again", || !registry.guests().is_empty());
    registry.hold(UUID, true);
    until("held", || program.is_held());
    registry.hold(UUID, false);
    until("released", || program.is_idle());

    // A starvation relief lets it pass where this thread is late: then it is tried again.
    until("it stands inside of the graph", || {
        HOLDER.store(&raw mut registry, SeqCst);
        assert_eq!(call!(program.driver, cuGraphLaunch(exec, program.work.stream)), 0);
        until_at_rest();
        let stands = !program.is_idle();
        HOLDER.store(std::ptr::null_mut(), SeqCst);
        registry.hold(UUID, false);
        until("the graph's end", || program.is_idle());
        stands
    });
}
