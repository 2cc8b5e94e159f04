//! Bounds of what the sessions of a tenant have together.

use crate::support;
use reef_core::{Device, Fill, Priority, Queue as _, Seq};
use reef_cpu::Cpu;
use reef_op::{Layout, Linear, Op, Operators as _, Tensor};
use reef_remote::messages::{BUFFER, GRAPH, RemoteCommand, Request};
use reef_remote::server::{DeviceHost, Devices, Host, Listener, Resource, Security, Tenants};
use reef_remote::{Remote, schema};
use reef_wire::{
    Address, Client, ClientOptions, Endpoint, Handler, Id, Message, Mint, Token, codec,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn sessions_of_a_tenant_share_its_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("a"), "the token of alice").unwrap();
    std::fs::write(file("b"), "the token of bob").unwrap();
    let rights = "[rights.\"token alice\"]\ntoken_file = \"a\"\nsessions = 2\nmemory = \"1MiB\"\n\
                  [rights.\"token bob\"]\ntoken_file = \"b\"\n";
    std::fs::write(file("rights"), rights).unwrap();
    let tenants = Tenants::read(&file("rights")).unwrap();
    let devices = Devices::shared(|_| {
        Ok(Arc::new(Host::start(&Cpu::open(0, "units=2")?)?) as Arc<dyn DeviceHost>)
    });
    let server = devices.for_tenants(&tenants).serve(tenants.tokens());
    let address = reef_wire::Address::Unix(file("socket"));
    let listener = Listener::bind(&address, &Security::default()).unwrap();
    std::thread::spawn(move || listener.run(&server, |_| ()));
    let open = |token: &str| {
        let token = file(token);
        let options = format!("remote.token_file={}", token.display());
        Remote::open(0, &format!("{address}/cpu:0?{options}"))
    };
    let (first, second) = (open("a").unwrap(), open("a").unwrap());
    let said = open("a").unwrap_err().to_string();
    assert!(said.contains("tenant alice: must have at most 2 sessions, got 2"), "{said}");
    let buffer = first.alloc(700 << 10).unwrap();
    let said = second.alloc(400 << 10).unwrap_err().to_string();
    let expected =
        "tenant alice: memory: must be at most 1048576 bytes, got 716800 and 409600 more";
    assert!(said.contains(expected), "{said}");
    let tensor = |channels| Tensor::new(Layout::Nchw, [1, channels, 1, 1]);
    let (input, output, function) = (tensor(1024), tensor(512), None);
    let op = Op::Linear(Linear { input, output, relu: false, function });
    let queue = second.queue(Priority::BestEffort, None).unwrap();
    let constants = second.pack(&op, &vec![1.0; 512 << 10], &vec![0.0; 512]);
    drop(queue); // it has not seen that the constants have no room
    let said = second.alloc(1).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("tenant alice: memory: must be at most"), "{said}");
    drop(constants);
    open("b").unwrap().alloc(16 << 20).unwrap();
    drop(buffer);
    let begin = Instant::now();
    while second.alloc(1 << 20).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the bytes of a freed buffer");
    }
    drop(first);
    while open("a").is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the place of an ended session");
    }
}

/// It runs as best-effort work: no other tenant's waits for it.
#[test]
fn real_time_work_without_the_right_is_best_effort() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("a"), "the token of alice").unwrap();
    std::fs::write(file("b"), "the token of bob").unwrap();
    let rights = "[rights.\"token alice\"]\ntoken_file = \"a\"\n\
                  [rights.\"token bob\"]\ntoken_file = \"b\"\nrt = true\n";
    std::fs::write(file("rights"), rights).unwrap();
    let tenants = Tenants::read(&file("rights")).unwrap();
    let host = Arc::new(Host::start(&Cpu::open(0, "units=2").unwrap()).unwrap());
    let shared = host.clone();
    let devices = Devices::shared(move |_| Ok(shared.clone() as Arc<dyn DeviceHost>));
    let server = devices.for_tenants(&tenants).serve(tenants.tokens());
    let address = reef_wire::Address::Unix(file("socket"));
    let listener = Listener::bind(&address, &Security::default()).unwrap();
    std::thread::spawn(move || listener.run(&server, |_| ()));
    let begin = Instant::now();
    let check_time = || assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
    let run = |token: &str, times: u64| {
        let options = format!("remote.token_file={}", file(token).display());
        let device = Remote::open(0, &format!("{address}/cpu:0?{options}")).unwrap();
        let fill = Fill { buffer: device.alloc(64).unwrap(), offset: 0, bytes: 64, word: 7 };
        let mut queue = device.queue(Priority::RealTime, None).unwrap();
        for seq in 0..times {
            queue.fill(Seq(seq), &fill).unwrap();
            while queue.completed().unwrap() <= Seq(seq) {
                check_time();
                std::thread::yield_now();
            }
        }
    };
    run("a", 3);
    run("b", 1);
    while host.stats().rt_finished == 0 {
        check_time();
        std::thread::yield_now();
    }
    assert_eq!(host.stats().rt_finished, 1, "of the tenant with the right alone");
}

/// Operations of messages that a client sends: an allocation, a release and a graph.
const ALLOC: u16 = 16;
const FREE: u16 = 17;
const MAKE_GRAPH: u16 = 21;

struct Deaf;

impl Handler for Deaf {
    fn handle(&mut self, _: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        Ok(())
    }
}

/// Memory counts as long as something keeps it, and not only as long as it has a name.
#[test]
fn memory_without_a_name_counts_while_a_graph_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("a"), "the token of alice").unwrap();
    let rights = "[rights.\"token alice\"]\ntoken_file = \"a\"\nmemory = \"1MiB\"\n";
    std::fs::write(file("rights"), rights).unwrap();
    let served = support::shared_for(&Tenants::read(&file("rights")).unwrap());
    let address: Address = served.address.parse().unwrap();
    let dial = move || address.connect(Duration::from_secs(60), None);
    let mut options = ClientOptions::new(schema(), dial);
    let request = Request { device: "cpu:0".into(), is_migrated: false };
    options.request = codec::write(&request).unwrap();
    options.token = Some(Token::new(b"the token of alice"));
    let client = Client::open(options, Box::new(Deaf)).unwrap();
    let alloc = |id: Id, address: u64| {
        let body = codec::write(&(id.bits(), address, 700_u64 << 10, false)).unwrap();
        client.call(ALLOC, 0, &[&body])
    };
    let free = |id: Id| {
        client.post(FREE, 0, &[&id.bits().to_le_bytes()]).unwrap();
    };
    let (mut buffers, graph) = (Mint::new(BUFFER), Mint::new(GRAPH).mint());
    let (first, second) = (buffers.mint(), buffers.mint());
    alloc(first, 1 << 20).unwrap();
    let fill = RemoteCommand::Fill { buffer: first.bits(), offset: 0, bytes: 64, word: 7 };
    let body = codec::write(&(graph.bits(), vec![fill])).unwrap();
    client.call(MAKE_GRAPH, 0, &[&body]).unwrap();
    free(first);
    let said = alloc(second, 2 << 20).unwrap_err().to_string();
    assert!(said.contains("tenant alice: memory: must be at most 1048576 bytes"), "{said}");
    free(graph);
    alloc(second, 2 << 20).unwrap();
}

/// Constants take memory of the server's machine before they are packed.
#[test]
fn constants_that_come_are_bounded_for_a_tenant() {
    let tenants = Tenants::default();
    let served = support::shared_for(&tenants);
    let device = Remote::open(0, &served.device()).unwrap();
    let other = tenants.open(None).unwrap();
    other.reserve(Resource::State, 4 << 30).unwrap();
    let tensor = |channels| Tensor::new(Layout::Nchw, [1, channels, 1, 1]);
    let (input, output, function) = (tensor(1024), tensor(512), None);
    let op = Op::Linear(Linear { input, output, relu: false, function });
    let constants = device.pack(&op, &vec![1.0; 512 << 10], &vec![0.0; 512]);
    let said = device.alloc(1).map(|_| ()).unwrap_err().to_string();
    drop(constants);
    let expected = "sessions without a tenant: states and constants that come: must be at most";
    assert!(said.contains(expected), "{said}");
    drop(other);
    device.pack(&op, &vec![1.0; 512 << 10], &vec![0.0; 512]).unwrap();
    device.alloc(1).unwrap();
}

/// A session has a few queues for itself, and those beyond them are the tenant's.
#[test]
fn threads_of_queues_are_bounded_for_a_tenant() {
    let tenants = Tenants::default();
    let served = support::shared_for(&tenants);
    let device = Remote::open(0, &served.device()).unwrap();
    let other = tenants.open(None).unwrap();
    other.reserve(Resource::Threads, 16 + 4096).unwrap();
    let queue = || device.queue(Priority::BestEffort, None);
    let queues: Vec<_> = (0..16).map(|_| queue().unwrap()).collect();
    let said = queue().map(|_| ()).unwrap_err().to_string();
    let expected = "sessions without a tenant: threads: must be at most 4096, got 4096 and 1 more";
    assert!(said.contains(expected), "{said}");
    drop(queues);
    let begin = Instant::now();
    while queue().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the thread of an ended queue");
    }
}

/// Objects take memory of the server's machine, whatever they take of the device.
#[test]
fn objects_are_bounded_for_a_tenant() {
    let tenants = Tenants::default();
    let served = support::shared_for(&tenants);
    let address: Address = served.address.parse().unwrap();
    let dial = move || address.connect(Duration::from_secs(60), None);
    let mut options = ClientOptions::new(schema(), dial);
    let request = Request { device: "cpu:0".into(), is_migrated: false };
    options.request = codec::write(&request).unwrap();
    let client = Client::open(options, Box::new(Deaf)).unwrap();
    let buffer = Mint::new(BUFFER).mint();
    let body = codec::write(&(buffer.bits(), 1_u64 << 20, 64_u64, false)).unwrap();
    client.call(ALLOC, 0, &[&body]).unwrap();
    let other = tenants.open(None).unwrap();
    other.reserve(Resource::Objects, (64 << 20) + (4 << 30)).unwrap();
    // Each session has 64 MiB for itself.
    let fill = RemoteCommand::Fill { buffer: buffer.bits(), offset: 0, bytes: 64, word: 7 };
    let (mut graphs, mut made) = (Mint::new(GRAPH), Vec::new());
    let mut make = || {
        let graph = graphs.mint();
        let body = codec::write(&(graph.bits(), vec![fill.clone(); 10_000])).unwrap();
        client.call(MAKE_GRAPH, 0, &[&body]).map(|_| made.push(graph))
    };
    let refused = (0..1000).find_map(|_| make().err()).unwrap().to_string();
    let expected = "sessions without a tenant: objects: must be at most 4294967296 bytes";
    assert!(refused.contains(expected), "{refused}");
    drop(other);
    make().unwrap();
    for graph in made {
        client.post(FREE, 0, &[&graph.bits().to_le_bytes()]).unwrap();
    }
    let other = tenants.open(None).unwrap();
    let begin = Instant::now();
    while other.reserve(Resource::Objects, (64 << 20) + (4 << 30)).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the bytes of released graphs");
    }
}
