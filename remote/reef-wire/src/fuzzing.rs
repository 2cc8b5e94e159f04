//! Ways in for fuzz targets.

use crate::bulk::Assembly;
use crate::codec;
use crate::frame::{self, Decoder};
use crate::session::handshake::{Hello, Opening, Welcome};

/// Decodes bytes as frames, in pieces of the length that the first byte says, and reads each frame
/// as everything that a peer could take it for.
///
/// # Panics
///
/// If a frame is written otherwise than it was read.
pub fn frames(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let (mut decoder, mut assembly) = (Decoder::default(), Assembly::default());
    for piece in bytes.chunks(usize::from(piece).max(1)) {
        let space = decoder.space();
        space[..piece.len()].copy_from_slice(piece);
        decoder.filled(piece.len());
        loop {
            let frame = match decoder.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return,
            };
            let mut again = Vec::new();
            frame::append(&mut again, frame.op, frame.flags, frame.seq, frame.lane, &[frame.body]);
            let mut reader = Decoder::default();
            reader.space()[..again.len().min(64 << 10)]
                .copy_from_slice(&again[..again.len().min(64 << 10)]);
            reader.filled(again.len().min(64 << 10));
            if again.len() <= 64 << 10 {
                assert_eq!(reader.next(), Ok(Some(frame)), "written as it was read");
            }
            let front = &frame.body[..frame.body.len() / 2];
            if matches!(assembly.begin(front, frame.body.len(), 1 << 20), Ok(false)) {
                let space = assembly.space().expect("a chunk is open");
                let count = space.len().min(frame.body.len() - front.len());
                space[..count].copy_from_slice(&frame.body[front.len()..][..count]);
                let _ = assembly.filled(count); // or an error
            }
            assembly.disconnect();
            let _ = assembly.begin(frame.body, frame.body.len(), 1 << 20); // or an error
            let _ = assembly.take(frame.body);
            bodies(frame.body);
        }
    }
}

/// Reads a body as each message of the handshake.
fn bodies(body: &[u8]) {
    if let Ok(rest) = Opening::check(body, 0) {
        let _ = codec::read::<Hello>(rest); // or an error
    }
    if let Ok(hello) = codec::read::<Hello>(body) {
        let again = codec::write(&hello).expect("it was read");
        assert_eq!(codec::read::<Hello>(&again), Ok(hello));
    }
    let _ = codec::read::<Welcome>(body); // or an error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk;
    use crate::credit::Limits;
    use crate::journal::Progress;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    /// A session's frames as they should be: greeting, hello, welcome, a payload, a message.
    fn session() -> Vec<u8> {
        let received = Progress { frames: 3, bytes: 400 };
        let (program, request) = ("program".into(), vec![1, 2, 3]);
        let hello = Hello {
            program,
            request,
            session: Some([7; 16]),
            received,
            proof: Some([9; 32]),
            tenant: None,
        };
        let (limits, facts) = (Limits::default(), vec![5; 40]);
        let welcome = Welcome { session: [7; 16], received, limits, facts };
        let (hello, welcome) = (codec::write(&hello).unwrap(), codec::write(&welcome).unwrap());
        let opening = Opening::new(0);
        let mut bytes = vec![13];
        frame::append(&mut bytes, 1, 1, 0, 0, &[opening.as_bytes(), &[4; 32]]);
        frame::append(&mut bytes, 2, 1, 0, 0, &[opening.as_bytes(), &hello]);
        frame::append(&mut bytes, 3, 1, 0, 0, &[&welcome]);
        for (header, slices) in bulk::chunks(1, &[b"abc"]) {
            frame::append(&mut bytes, 6, 0, 0, 0, &[header.as_bytes(), &slices.concat()]);
        }
        frame::append(&mut bytes, 16, 4, 1, 0, &[&1_u64.to_le_bytes(), &3_u64.to_le_bytes()]);
        frame::append(&mut bytes, 17, 2, 2, 5, &[b"hello"]);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn damaged_sessions_are_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            len in any::<prop::sample::Index>(),
        ) {
            let mut bytes = session();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(len.index(bytes.len()) + 1);
            frames(&bytes);
        }

        #[test]
        fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            frames(&bytes);
        }
    }
}
