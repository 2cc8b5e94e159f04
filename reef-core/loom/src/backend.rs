//! Files of `reef-core/src/backend` that a queue needs.

#[path = "../../src/backend/blocks.rs"]
pub(crate) mod blocks;
#[path = "../../src/backend/command.rs"]
pub(crate) mod command;
#[path = "../../src/backend/device.rs"]
pub(crate) mod device;
#[path = "../../src/backend/error.rs"]
pub(crate) mod error;
#[path = "../../src/backend/host_memory.rs"]
pub(crate) mod host_memory;
#[path = "../../src/backend/info.rs"]
pub(crate) mod info;
#[path = "../../src/backend/preemptor.rs"]
pub(crate) mod preemptor;
#[path = "../../src/backend/queue.rs"]
pub(crate) mod queue;
#[path = "../../src/backend/resources.rs"]
pub(crate) mod resources;
#[path = "../../src/backend/types.rs"]
pub(crate) mod types;
