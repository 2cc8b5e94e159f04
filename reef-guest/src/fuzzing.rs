//! Ways in for the targets in `fuzz/`.

/// What a daemon or a guest does with bytes that came over the socket.
pub fn message(bytes: &[u8]) {
    crate::join::wire::understand(bytes);
}
