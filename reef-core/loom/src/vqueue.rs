//! Files of `reef-core/src/vqueue`: all but the one that starts and joins threads.

#[path = "../../src/vqueue/config.rs"]
pub(crate) mod config;
#[path = "../../src/vqueue/drain_time.rs"]
pub(crate) mod drain_time;
#[path = "../../src/vqueue/group.rs"]
pub(crate) mod group;
#[path = "../../src/vqueue/hold.rs"]
pub(crate) mod hold;
#[path = "../../src/vqueue/launcher.rs"]
pub(crate) mod launcher;
#[path = "../../src/vqueue/parked.rs"]
pub(crate) mod parked;
#[path = "../../src/vqueue/shared.rs"]
pub(crate) mod shared;
#[path = "../../src/vqueue/submitter.rs"]
pub(crate) mod submitter;
#[path = "../../src/vqueue/worker.rs"]
pub(crate) mod worker;
