//! What the service manager is told, by datagrams to `NOTIFY_SOCKET`.

use crate::server::Server;
use sd_notify::NotifyState::{self, Ready, Reloading, Stopping, Watchdog};
use std::sync::Arc;
use std::time::Duration;

/// The daemon serves: after the start, and after a reload.
pub(crate) fn ready() {
    tell(&[Ready]);
}

/// Files are read anew, until [`ready`] is told.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[Reloading, now]), // systemd finds out by it which reload is meant
        Err(error) => tracing::warn!(%error, "the service manager was not told of a reload"),
    }
}

/// The daemon takes nothing more.
pub(crate) fn stopping() {
    tell(&[Stopping]);
}

/// Gives signs of life for as long as the threads of I/O and the dispatchers of devices that work
/// answer, if they are wanted.
pub(crate) async fn give_signs_of_life(server: Arc<Server>) {
    let Some(time) = sd_notify::watchdog_enabled().filter(|time| !time.is_zero()) else { return };
    loop {
        let server = server.clone();
        let asked = tokio::task::spawn_blocking(move || {
            server.nodes.iter().for_each(|node| _ = node.stats());
        });
        if matches!(tokio::time::timeout(time, asked).await, Ok(Ok(()))) {
            tell(&[Watchdog]);
        }
        tokio::time::sleep(sign_interval(time)).await;
    }
}

/// Twice as often as it is wanted, as sd_watchdog_enabled(3) recommends.
fn sign_interval(wanted: Duration) -> Duration {
    wanted / 2
}

/// A service manager that doesn't hear is no reason to end.
fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, ?what, "the service manager was not told");
    }
}
