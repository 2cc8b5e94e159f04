//! Bounds of what the sessions of a tenant have together.

use crate::support;
use reef_core::{Device, Priority};
use reef_cpu::Cpu;
use reef_op::{Layout, Linear, Op, Operators as _, Tensor};
use reef_remote::Remote;
use reef_remote::server::{DeviceHost, Devices, Host, Listener, Resource, Security, Tenants};
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
