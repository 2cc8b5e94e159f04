//! The traits of a transport.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Sending half of a link.
pub trait SendHalf: Debug + Send {
    /// Sends all of `bytes`. Blocks while the line is full.
    ///
    /// # Errors
    ///
    /// An error of the system; the link is then broken.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Receiving half of a link.
pub trait ReceiveHalf: Debug + Send {
    /// Waits for bytes, and returns how many of them are now at the front of `to`: at least one.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` where the peer has closed the link; an error of the system.
    fn receive(&mut self, to: &mut [u8]) -> io::Result<usize>;

    /// Waits until [`receive`](Self::receive) would return, [`Control::wake`] is called, or
    /// `timeout` has passed. Returns whether there is something to receive.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool>;

    /// Sets the time for which it looks for bytes before it sleeps. Transports that can't look
    /// ignore it.
    fn spin_for(&mut self, _time: Duration) {}
}

/// Handle of a link for other threads.
pub trait Control: Debug + Send + Sync {
    /// Breaks the link: calls that wait in it return an error soon.
    fn cut(&self);

    /// Ends a [`ReceiveHalf::wait`], now or at the next call.
    fn wake(&self);
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    /// Sending half.
    pub send: Box<dyn SendHalf>,
    /// Receiving half.
    pub receive: Box<dyn ReceiveHalf>,
    /// Handle for other threads.
    pub control: Arc<dyn Control>,
    /// Secret that both ends of this connection know and no other does, if there is one: a proof
    /// that is bound to it is of no use on another connection.
    pub binding: Option<[u8; 32]>,
    /// The other end for people: `HOST:PORT`, or `pid NUMBER` of this machine. Empty: unknown.
    pub peer: String,
}

impl Link {
    /// Has the receiver look for bytes for this time before it sleeps. A wake of a thread costs
    /// more than 10 µs, a poll costs a processor.
    #[must_use]
    pub fn spin_for(mut self, time: Duration) -> Self {
        self.receive.spin_for(time);
        self
    }

    /// Returns whether the other end is a loopback address of this machine. A UNIX socket has none.
    pub fn is_loopback(&self) -> bool {
        let peer = self.peer.parse::<SocketAddr>();
        peer.is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
    }
}
