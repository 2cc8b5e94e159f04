//! Messages between the daemon and a service manager such as systemd.
//!
//! - **In**: sockets that it has opened for the daemon (sd_listen_fds(3)), and the interval of its
//!   watchdog.
//! - **Out**: state of the daemon: ready, reloading, stopping, alive (sd_notify(3)).
//! - **Invariant**: a passed socket is served like one of the daemon's own, with the same access
//!   checks. Without a service manager nothing here does anything.

pub(crate) mod activation;
pub(crate) mod notify;
