//! Connections whose clients are not authenticated: they have not been greeted.

use rustix::net::{Shutdown, shutdown};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that wait at a time.
const MAX_WAITING: usize = 256;

/// Places for connections until their clients are greeted. If all are taken, the oldest connection
/// of the machine that has most of them is closed for the next one.
///
/// Cloning is cheap, and each clone has the same places.
#[derive(Debug, Clone, Default)]
pub(super) struct Lobby(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    /// `None`: it came by a UNIX socket.
    machine: Option<IpAddr>,
    socket: OwnedFd,
}

/// A place, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct LobbySlot {
    number: u64,
    of: Lobby,
}

impl Lobby {
    /// Takes a place for a connection.
    ///
    /// # Errors
    ///
    /// An error of the system: too many files are open.
    pub(super) fn enter(
        &self,
        machine: Option<IpAddr>,
        socket: impl AsFd,
    ) -> io::Result<LobbySlot> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        let mut state = self.state();
        if state.waiting.len() >= MAX_WAITING
            && let Some(oldest) = state.oldest_of_most()
        {
            let _ = shutdown(oldest.socket, Shutdown::Both); // it has ended by itself
        }
        state.last += 1;
        let number = state.last;
        state.waiting.push_back(Waiting { number, machine, socket });
        Ok(LobbySlot { number, of: self.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the oldest connection of the machine that has most of them.
    fn oldest_of_most(&mut self) -> Option<Waiting> {
        let mut counts = HashMap::<_, usize>::new();
        for waiting in &self.waiting {
            *counts.entry(waiting.machine).or_default() += 1;
        }
        let (machine, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let at = self.waiting.iter().position(|waiting| waiting.machine == machine)?;
        self.waiting.remove(at)
    }
}

impl Drop for LobbySlot {
    fn drop(&mut self) {
        self.of.state().waiting.retain(|waiting| waiting.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// One machine that takes all places closes its own connections, and no other's.
    #[test]
    fn machine_with_most_connections_loses_its_oldest() {
        let (lobby, mut ends, mut places) = (Lobby::default(), Vec::new(), Vec::new());
        let mut enter = |machine: &str| {
            let (near, far) = UnixStream::pair().unwrap();
            places.push(lobby.enter(Some(machine.parse().unwrap()), &far).unwrap());
            near.set_nonblocking(true).unwrap();
            ends.push((near, far));
        };
        enter("10.0.0.1");
        for _ in 0..MAX_WAITING + 10 {
            enter("10.0.0.2");
        }
        let closed = |at: usize| matches!((&ends[at].0).read(&mut [0]), Ok(0));
        let all: Vec<usize> = (0..ends.len()).filter(|at| closed(*at)).collect();
        assert_eq!(all, (1..=11).collect::<Vec<_>>());
        assert_eq!(lobby.state().waiting.len(), MAX_WAITING);
        places.clear();
        assert_eq!(lobby.state().waiting.len(), 0);
    }
}
