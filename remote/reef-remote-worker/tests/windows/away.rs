//! Sessions that move while their programs have no connection.

use crate::common::{self, Driver, call, until};
use crate::gate::Gate;
use crate::server::{Server, open, prepare};
use reef_remote_worker::{Destination, migrate};
use std::time::Duration;

/// A program with memory.
struct Program {
    driver: Driver,
    memory: usize,
}

impl Program {
    fn begin(driver: Driver) -> Self {
        let (mut context, mut memory) = (0_usize, 0_usize);
        assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut context, 0)), 0);
        assert_eq!(call!(driver, cuCtxSetCurrent(context)), 0);
        assert_eq!(call!(driver, cuMemAlloc_v2(&raw mut memory, 8_usize)), 0);
        assert_eq!(call!(driver, cuMemsetD8_v2(memory, 3, 8_usize)), 0);
        Self { driver, memory }
    }

    #[track_caller]
    fn reads_its_memory(&self) {
        let mut word = 0_u64;
        assert_eq!(call!(self.driver, cuMemcpyDtoH_v2(&raw mut word, self.memory, 8_usize)), 0);
        assert_eq!(word, u64::from_ne_bytes([3; 8]));
    }
}

/// A program whose connections go through a gate, and its servers.
fn gated(name: &str) -> ([Server; 2], Gate, Program) {
    let servers = ["a", "b"].map(|end| Server::start_torn(&format!("{name}-{end}")));
    let gate = Gate::start(&servers[0].address, &format!("{name}-gate"));
    let program = Program::begin(open(name, &gate.address));
    program.reads_its_memory();
    (servers, gate, program)
}

#[test]
fn program_whose_connection_was_closed_is_told_of_a_move() {
    let _one = prepare();
    let (servers, gate, program) = gated("away-closed");
    gate.shut();
    // sleep: the server sees it; one that does not yet holds the session as well
    std::thread::sleep(Duration::from_millis(100));
    let moved = std::thread::scope(|scope| {
        scope.spawn(|| {
            // sleep: length of the absence
            std::thread::sleep(Duration::from_millis(1300));
            gate.open();
        });
        migrate(servers[0].worker(), &Destination::new(&servers[1].address)).unwrap()
    });
    // The gate of a busy machine may open too late for that: then the program is told afterwards.
    println!("told while the first server waited: {}", moved.is_client_told);
    program.reads_its_memory();
    until("the first server has none", || servers[0].workers().is_empty());
    assert_eq!(servers[1].workers().len(), 1);
}

#[test]
fn session_that_comes_back_at_once_is_found_by_its_program() {
    let _one = prepare();
    let (servers, gate, program) = gated("away-back");
    gate.shut();
    std::thread::scope(|scope| {
        let first = servers[0].worker();
        let to = Destination::new(&servers[1].address);
        let there = scope.spawn(move || migrate(first, &to));
        let back = Destination::new(&servers[0].address);
        until("it goes back", || migrate(servers[1].worker(), &back).is_ok());
        assert!(!there.join().unwrap().unwrap().is_client_told);
    });
    gate.open();
    program.reads_its_memory();
}

#[test]
fn session_moves_to_its_own_server() {
    let _one = prepare();
    let server = Server::start("away-self");
    let program = Program::begin(open("away-self", &server.address));
    migrate(server.worker(), &Destination::new(&server.address)).unwrap();
    program.reads_its_memory();
}
