//! Bodies of frames: fixed structs for hot operations, postcard for the others.
//!
//! A *hot* message is its own bytes: numbers are little-endian, alignment is 1, and reading it is a
//! check of its length. A *cold* message is whatever serde can write, in postcard's format. Both
//! are declared in `messages!`, which also makes the hash of the declarations. Two ends whose
//! hashes differ refuse each other, so neither ever reads the other's bytes with another meaning.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message that is sent as it lies in memory.
pub trait Hot: Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// Operation of its frame.
    const OP: u16;

    /// Reads one from the front of a body, and returns what follows.
    ///
    /// # Errors
    ///
    /// `Protocol` if the body is too short.
    fn split(body: &[u8]) -> Result<(&Self, &[u8])> {
        Self::ref_from_prefix(body).map_err(|_| {
            let (least, got) = (size_of::<Self>(), body.len());
            Error::Protocol(format!("operation {}: must have {least} bytes, got {got}", Self::OP))
        })
    }
}

/// A message that serde writes.
pub trait Cold: Serialize + DeserializeOwned {
    /// Operation of its frame.
    const OP: u16;

    /// Returns its bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` for what the format cannot express.
    fn to_bytes(&self) -> Result<Vec<u8>> {
        write(self)
    }

    /// Reads one. It must be all of `body`.
    ///
    /// # Errors
    ///
    /// `Protocol` names the operation.
    fn from_bytes(body: &[u8]) -> Result<Self> {
        read(body).map_err(|e| Error::Protocol(format!("operation {}: {e}", Self::OP)))
    }

    /// Reads one from the front of a body, and returns what follows.
    ///
    /// # Errors
    ///
    /// `Protocol` names the operation.
    fn front(body: &[u8]) -> Result<(Self, &[u8])> {
        postcard::take_from_bytes(body)
            .map_err(|e| Error::Protocol(format!("operation {}: {e}", Self::OP)))
    }
}

/// Writes a value in postcard's format.
///
/// # Errors
///
/// `Invalid` for what the format cannot express.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|e| Error::Invalid(format!("cannot be written: {e}")))
}

/// Reads a value in postcard's format, which must be all of `bytes`.
///
/// # Errors
///
/// `Protocol`.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Error::Protocol(format!("{} bytes too many", rest.len()))),
        Err(e) => Err(Error::Protocol(e.to_string())),
    }
}

/// Hash of a text, FNV-1a with 64 bits: equal declarations have equal hashes, and others differ
/// but for accidents. It protects from mistakes, not from an attacker.
pub const fn hash(text: &str) -> u64 {
    let (bytes, mut hash, mut at) = (text.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

/// Declares messages with their operations, and a constant with the hash of their declarations.
///
/// ```
/// use reef_wire::{Hot, little_endian::{U32, U64}, messages};
///
/// messages! {
///     /// Hash of these declarations.
///     pub SCHEMA;
///     /// Runs a graph.
///     hot 16 RunGraph { graph: U64, lane: U32 }
///     /// Makes a buffer.
///     cold 17 Alloc { bytes: u64, is_host: bool }
/// }
///
/// let run = RunGraph { graph: U64::new(7), lane: U32::new(1) };
/// let bytes = reef_wire::hot_bytes(&run).to_vec();
/// assert_eq!(RunGraph::split(&bytes).unwrap().0.graph.get(), 7);
/// assert_ne!(SCHEMA, 0);
/// ```
#[macro_export]
macro_rules! messages {
    ($(#[$schema_doc:meta])* $vis:vis $schema:ident;
     $($(#[$doc:meta])* $kind:ident $op:literal $name:ident
       { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(#[$schema_doc])*
        $vis const $schema: u64 = $crate::codec::hash(concat!(
            $(stringify!($kind $op $name { $($field: $type),* })),*
        ));
        $($crate::codec::message! { $(#[$doc])* $vis $kind $op $name { $($(#[$field_doc])* $field: $type),* } })*
    };
}

/// One message of [`messages!`].
#[doc(hidden)]
#[macro_export]
macro_rules! message {
    ($(#[$doc:meta])* $vis:vis hot $op:literal $name:ident
     { $($(#[$field_doc:meta])* $field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, $crate::codec::zerocopy::FromBytes,
            $crate::codec::zerocopy::IntoBytes, $crate::codec::zerocopy::Immutable,
            $crate::codec::zerocopy::KnownLayout, $crate::codec::zerocopy::Unaligned,
        )]
        #[zerocopy(crate = "zerocopy")]
        #[repr(C)]
        $vis struct $name { $($(#[$field_doc])* #[allow(missing_docs)] $vis $field: $type),* }

        impl $crate::Hot for $name {
            const OP: u16 = $op;
        }
    };
    ($(#[$doc:meta])* $vis:vis cold $op:literal $name:ident
     { $($(#[$field_doc:meta])* $field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, $crate::codec::serde::Serialize, $crate::codec::serde::Deserialize)]
        #[serde(crate = "serde")]
        $vis struct $name { $($(#[$field_doc])* #[allow(missing_docs)] $vis $field: $type),* }

        impl $crate::Cold for $name {
            const OP: u16 = $op;
        }
    };
}

// For what the macros write.
pub use message;
pub use {serde, zerocopy};

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::little_endian::{U32, U64};

    messages! {
        /// Hash.
        pub(super) SCHEMA;
        /// Hot.
        hot 16 Step { graph: U64, lane: U32 }
        /// Cold.
        cold 17 Alloc { bytes: u64, name: String }
    }

    #[test]
    fn hot_message_is_its_bytes_and_returns_what_follows() {
        let step = Step { graph: U64::new(5), lane: U32::new(9) };
        let mut bytes = step.as_bytes().to_vec();
        assert_eq!(bytes, [5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
        bytes.push(1);
        assert_eq!(Step::split(&bytes).unwrap(), (&step, &[1][..]));
        let said = Step::split(&bytes[..11]).unwrap_err().to_string();
        assert!(said.contains("operation 16: must have 12 bytes, got 11"), "{said}");
    }

    #[test]
    fn cold_message_round_trips_and_must_be_all_of_its_body() {
        let alloc = Alloc { bytes: 1 << 40, name: "weights".into() };
        let mut bytes = alloc.to_bytes().unwrap();
        assert_eq!(Alloc::from_bytes(&bytes).unwrap(), alloc);
        bytes.push(0);
        assert!(Alloc::from_bytes(&bytes).is_err() && Alloc::from_bytes(&bytes[..3]).is_err());
    }

    #[test]
    fn schema_hash_depends_on_fields_and_operations() {
        mod other {
            messages! {
                /// Hash.
                pub(super) SCHEMA;
                /// Cold, with another type.
                cold 17 Alloc { bytes: u32, name: String }
            }
        }
        assert_ne!(SCHEMA, other::SCHEMA);
        let _ = other::Alloc { bytes: 0, name: String::new() };
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c, "the published test vector");
    }
}
