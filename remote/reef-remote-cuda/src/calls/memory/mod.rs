//! Memory of the device and of the host, and copies between them.
//!
//! *In*: addresses of both. *Out*: bytes in messages. *Invariant*: bytes of the host are read and
//! written within the call alone.

mod copies;
mod device_memory;
mod host_memory;
mod pools;
mod rows;
