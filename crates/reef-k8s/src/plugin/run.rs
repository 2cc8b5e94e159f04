//! The plugin as a whole.

use super::life::Life;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::node::cdi;
use crate::node::state::State;
use crate::node::violations::Violations;
use crate::shutdown::until_signal;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Offers the resources of `config` until SIGTERM or SIGINT. Blocks.
///
/// # Errors
///
/// `Refused`, if nothing can be offered; `Failed`, if another plugin takes over, or the system
/// refuses.
pub fn run(config: &Config) -> Result<()> {
    until_signal(async |end| serve(config, end).await)
}

/// Offers the resources of `config` until `end`.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub async fn serve(config: &Config, end: impl Future<Output = ()>) -> Result<()> {
    config.check()?;
    let first = State::read(&config.node, &State::default()).await;
    write_names(config, &first);
    let (state, seen) = watch::channel(first);
    let config = Arc::new(config.clone());
    let mut lives = JoinSet::new();
    for resource in config.resources.iter().filter(|resource| resource.replicas > 0) {
        let (config, resource) = (config.clone(), resource.clone());
        lives.spawn(Life { config, resource, state: seen.clone() }.offer());
    }
    let ended = tokio::select! {
        () = end => Ok(()),
        () = poll(&config, &state) => Ok(()),
        Some(ended) = lives.join_next() => ended.unwrap_or_else(broken),
    };
    lives.shutdown().await; // sockets go with them
    ended
}

fn broken(error: tokio::task::JoinError) -> Result<()> {
    Err(Error::Failed(format!("a resource's task has ended: {error}")))
}

/// Polls GPUs and daemon for ever, and sends changes to all receivers.
async fn poll(config: &Config, state: &watch::Sender<State>) {
    tracing::info!("{}", state.borrow().line());
    let mut violations = Violations::default();
    loop {
        violations.poll(&config.node.daemon).await;
        sleep(config.pace.health).await;
        let before = state.borrow().clone();
        let now = State::read(&config.node, &before).await;
        write_names(config, &now); // before containers are given them
        let changed = state.send_if_modified(|state| {
            let is_new = *state != now;
            *state = now;
            is_new
        });
        if changed {
            tracing::info!("{}", state.borrow().line());
        }
    }
}

fn write_names(config: &Config, state: &State) {
    let Some(folder) = &config.cdi else { return };
    if let Err(error) = cdi::write(&config.node, folder, &state.gpus) {
        tracing::warn!("{error}");
    }
}
