//! What a service manager such as systemd and the daemon tell each other.
//!
//! - **In**: sockets that it has opened for us (sd_listen_fds(3)), and how often it wants a sign of
//!   life.
//! - **Out**: what the daemon is at: ready, reloading, stopping, alive (sd_notify(3)).
//! - **Invariant**: a socket that is passed is served as one of our own: with the same checks of
//!   who may come in. Without a service manager nothing here does anything.

pub(crate) mod activation;
pub(crate) mod notify;
