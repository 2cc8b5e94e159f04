//! Messages, byte by byte. Numbers are little-endian.

use super::guest_info::GuestInfo;
use crate::colocation::share::ShareRequest;
use crate::page::layout::{Class, Identity};
use reef_files::descriptors;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// UUID of a device (`cuDeviceGetUuid`), the same in all processes.
pub type Uuid = [u8; 16];

/// Size of every message. Version 1 had 128 bytes; in version 2 real-time guests had the pages of
/// others (kinds 4 and 5).
pub(crate) const BYTES: usize = 256;

/// Version of the messages. The first 12 bytes, a magic number and the version, are the same in all
/// versions.
const VERSION: u32 = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"REEFGUES");
/// Offset of a message's text or UUID.
const TEXT: usize = 32;
/// Offsets of the job's name and the token in a request. Each ends with a zero byte.
const JOB: usize = TEXT + 16;
const TOKEN: usize = JOB + GuestInfo::MAX_JOB + 1;
/// Offset of the program's number in a request: six bytes, which were zero before there was one.
const PROGRAM: usize = BYTES - 6;
const _: () = assert!(TOKEN + GuestInfo::MAX_TOKEN < PROGRAM);
const _: () = assert!(GuestInfo::MAX_PROGRAM >> (8 * (BYTES - PROGRAM)) == 0);

/// Request of a guest that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// Requested class.
    pub class: Class,
    /// Device that the guest uses.
    pub device: Uuid,
}

/// Request of a real-time program for free memory on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRequest {
    /// Device on which it must be free.
    pub device: Uuid,
    /// Bytes.
    pub bytes: u64,
    /// True if the bytes stay reserved for the process and its children until it ends. False if the
    /// process allocates them at once.
    pub is_reserved: bool,
}

/// Message on the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The guest's first message, with the file of its page if it has one from a daemon that has
    /// ended.
    Join(JoinRequest, GuestInfo),
    /// The daemon's answer to `Join`, with the page's file.
    Page(Identity),
    /// The daemon's refusal, with its reason.
    Refused(String),
    /// Question for the class that a program would get. Its executable file is sent along; no guest
    /// joins.
    Ask(JoinRequest, GuestInfo),
    /// The daemon's answer to `Ask` and to `Memory`, unless it refuses.
    Granted(Class),
    /// Request of a real-time program for this many bytes of free memory on a device. No guest
    /// joins. Daemons of before this kind refuse it.
    Memory(MemoryRequest, GuestInfo),
}

impl Message {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let (kind, numbers, rest): (u32, [u32; 4], &[u8]) = match self {
            Self::Join(request, info) | Self::Ask(request, info) => {
                put_info(&mut bytes, info);
                let kind = if matches!(self, Self::Join(..)) { 1 } else { 6 };
                let (part, phases) = (info.part(), info.is_for_phases().into());
                let numbers = [request.class.to_number(), part, phases, info.shares().to_word()];
                (kind, numbers, &request.device)
            }
            Self::Memory(request, info) => {
                put_info(&mut bytes, info);
                let (low, high) = (request.bytes as u32, (request.bytes >> 32) as u32);
                let numbers = [request.is_reserved.into(), info.part(), low, high];
                (8, numbers, &request.device)
            }
            Self::Page(who) => (2, [who.class.to_number(), who.guest, who.holder, who.pid], &[]),
            Self::Refused(why) => (3, [0; 4], why.as_bytes()),
            Self::Granted(class) => (7, [class.to_number(), 0, 0, 0], &[]),
        };
        let words = [VERSION, kind].into_iter().chain(numbers);
        for (place, word) in bytes[8..TEXT].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let end = rest.len().min(BYTES - TEXT);
        bytes[TEXT..TEXT + end].copy_from_slice(&rest[..end]);
        bytes
    }

    /// Decodes a message. The error says why the bytes aren't a message of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let word = |at: usize| {
            bytes[at..at + 4].iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
        };
        if bytes.len() < TEXT || bytes[..8] != MAGIC.to_le_bytes() {
            return Err("not a message of guests".into());
        }
        if word(8) != VERSION {
            let other = word(8);
            return Err(format!("it speaks version {other} of guests' messages, this {VERSION}"));
        }
        if bytes.len() != BYTES {
            return Err(format!("a message of {} bytes", bytes.len()));
        }
        let class = || Class::from_number(word(16)).ok_or_else(|| format!("class {}", word(16)));
        let device = || std::array::from_fn(|k| bytes[TEXT + k]);
        let info = || {
            let info = GuestInfo::new(text(&bytes[JOB..TOKEN]), text(&bytes[TOKEN..PROGRAM]))?;
            let number = bytes[PROGRAM..].iter().rev();
            let number = number.fold(0, |sum, &byte| sum << 8 | u64::from(byte));
            Ok::<_, String>(info.with_part(word(20)).with_program_number(number))
        };
        let phased = || {
            let info = info()?.with_shares(ShareRequest::from_word(word(28))?);
            Ok::<_, String>(if word(24) == 0 { info } else { info.for_phases() })
        };
        let join = || Ok::<_, String>(JoinRequest { class: class()?, device: device() });
        Ok(match word(12) {
            1 => Self::Join(join()?, phased()?),
            6 => Self::Ask(join()?, phased()?),
            2 => Self::Page(Identity {
                guest: word(20),
                class: class()?,
                holder: word(24),
                pid: word(28),
            }),
            3 => Self::Refused(text(&bytes[TEXT..])),
            7 => Self::Granted(class()?),
            8 => {
                let bytes = u64::from(word(28)) << 32 | u64::from(word(24));
                let is_reserved = word(16) != 0;
                Self::Memory(MemoryRequest { device: device(), bytes, is_reserved }, info()?)
            }
            kind => return Err(format!("a message of kind {kind}")),
        })
    }
}

/// Writes the job, the token and the program of a request.
fn put_info(bytes: &mut [u8; BYTES], info: &GuestInfo) {
    put(&mut bytes[JOB..TOKEN], info.job());
    put(&mut bytes[TOKEN..PROGRAM], info.token());
    bytes[PROGRAM..].copy_from_slice(&info.program().to_le_bytes()[..BYTES - PROGRAM]);
}

/// Writes a text. The caller's checks leave room for the zero byte after it.
fn put(place: &mut [u8], text: &str) {
    place.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Sends a message, with a file if there is one. Doesn't block.
///
/// # Errors
///
/// The other side has closed the connection, or its buffer is full.
pub(crate) fn send(
    socket: impl AsFd,
    message: &Message,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    descriptors::try_send(socket, &message.encode(), file).map(|_| ())
}

/// Receives a message, and the file that came with it. Doesn't block. `None`: there is no message
/// now.
///
/// # Errors
///
/// `UnexpectedEof`: the other side has closed the connection. `InvalidData`: the bytes aren't a
/// message.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
    let mut bytes = [0; BYTES];
    let got = match descriptors::try_receive(socket, &mut bytes) {
        Ok(got) => got,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let message = Message::decode(&bytes[..got.bytes]).map_err(invalid)?;
    Ok(Some((message, got.descriptor)))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Checks that any bytes are refused, or are a message that is the same after it is encoded again.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn understand(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        let again = Message::decode(&message.encode());
        assert!(matches!(message, Message::Refused(_)) || again == Ok(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encoded_messages_decode_to_the_same() {
        let who = Identity { guest: 3, class: Class::RealTime, holder: 4, pid: 5 };
        let request = JoinRequest { class: Class::BestEffort, device: *b"sixteen bytes id" };
        let all = [
            Message::Join(request, GuestInfo::default()),
            Message::Join(request, GuestInfo::new("j".repeat(40), "t".repeat(160)).unwrap()),
            Message::Join(request, GuestInfo::default().with_part(300_000)),
            Message::Join(
                request,
                GuestInfo::new("", "t".repeat(160))
                    .unwrap()
                    .with_program_number(GuestInfo::MAX_PROGRAM),
            ),
            Message::Join(request, GuestInfo::default().for_phases()),
            Message::Join(
                request,
                GuestInfo::default().with_shares(ShareRequest::from_word(7).unwrap()),
            ),
            Message::Page(who),
            Message::Refused("class rt is not granted to user 7".into()),
            Message::Ask(request, GuestInfo::new("", "token").unwrap()),
            Message::Granted(Class::RealTime),
            Message::Memory(
                MemoryRequest {
                    device: *b"sixteen bytes id",
                    bytes: 5 << 35 | 7,
                    is_reserved: true,
                },
                GuestInfo::new("job", "token").unwrap(),
            ),
        ];
        for message in all {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn message_of_another_version_is_refused_with_its_number() {
        let mut bytes = Message::Granted(Class::RealTime).encode();
        bytes[8] = 1;
        for size in [TEXT, 128, BYTES] {
            let error = Message::decode(&bytes[..size]).unwrap_err();
            assert_eq!(error, "it speaks version 1 of guests' messages, this 3");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_come_back_as_the_same_message(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..BYTES + 8),
            is_ours: bool,
            kind in 0_u8..10,
        ) {
            if is_ours {
                bytes.resize(BYTES, 0);
                bytes[..12].copy_from_slice(&Message::Granted(Class::RealTime).encode()[..12]);
                bytes[12..20].copy_from_slice(&[kind, 0, 0, 0, kind % 3, 0, 0, 0]);
            }
            understand(&bytes);
        }
    }
}
