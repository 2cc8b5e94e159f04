//! Attributes of a launch that a program and a server agree on.

/// Bytes of an attribute in the driver's form: its number, four zeros, and its value.
pub const ATTRIBUTE_LEN: usize = 72;

/// Attribute of a launch. Those with handles or with addresses of host memory are none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the driver names them")]
pub enum LaunchAttribute {
    Ignore,
    /// Memory of the device that is to stay in its cache.
    AccessPolicyWindow {
        base: u64,
        bytes: u64,
        /// Part of the accesses (the bits of a float), and what hits and misses are.
        policy: [u32; 3],
    },
    Cooperative(u32),
    ClusterDimension([u32; 3]),
    ClusterSchedulingPolicy(u32),
    ProgrammaticStreamSerialization(u32),
    Priority(u32),
    MemSyncDomainMap([u8; 2]),
    MemSyncDomain(u32),
    PreferredClusterDimension([u32; 3]),
    PreferredSharedMemoryCarveout(u32),
}

impl LaunchAttribute {
    /// Reads the driver's form. `None`: the attribute is not passed on.
    pub fn read(bytes: &[u8; ATTRIBUTE_LEN]) -> Option<Self> {
        let words = bytes.as_chunks().0;
        let word = |at: usize| u32::from_le_bytes(words[2 + at]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        let three = |at: usize| [word(at), word(at + 1), word(at + 2)];
        Some(match u32::from_le_bytes(words[0]) {
            0 => Self::Ignore,
            1 => Self::AccessPolicyWindow { base: long(0), bytes: long(2), policy: three(4) },
            2 => Self::Cooperative(word(0)),
            4 => Self::ClusterDimension(three(0)),
            5 => Self::ClusterSchedulingPolicy(word(0)),
            6 => Self::ProgrammaticStreamSerialization(word(0)),
            8 => Self::Priority(word(0)),
            9 => Self::MemSyncDomainMap([bytes[8], bytes[9]]),
            10 => Self::MemSyncDomain(word(0)),
            11 => Self::PreferredClusterDimension(three(0)),
            14 => Self::PreferredSharedMemoryCarveout(word(0)),
            _ => return None,
        })
    }

    /// Writes the driver's form, with zeros for all that the attribute does not have.
    pub fn write(self) -> [u8; ATTRIBUTE_LEN] {
        let (mut number, mut words) = (0, [0; 7]);
        let mut set = |name: u32, values: &[u32]| {
            number = name;
            words[..values.len()].copy_from_slice(values);
        };
        match self {
            Self::Ignore => {}
            Self::AccessPolicyWindow { base, bytes, policy: [part, hit, miss] } => {
                let [low, high] = [base as u32, (base >> 32) as u32];
                set(1, &[low, high, bytes as u32, (bytes >> 32) as u32, part, hit, miss]);
            }
            Self::Cooperative(value) => set(2, &[value]),
            Self::ClusterDimension(sides) => set(4, &sides),
            Self::ClusterSchedulingPolicy(value) => set(5, &[value]),
            Self::ProgrammaticStreamSerialization(value) => set(6, &[value]),
            Self::Priority(value) => set(8, &[value]),
            Self::MemSyncDomainMap([own, remote]) => {
                set(9, &[u32::from(own) | u32::from(remote) << 8]);
            }
            Self::MemSyncDomain(value) => set(10, &[value]),
            Self::PreferredClusterDimension(sides) => set(11, &sides),
            Self::PreferredSharedMemoryCarveout(value) => set(14, &[value]),
        }
        let mut bytes = [0; ATTRIBUTE_LEN];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bits of a value, of which an attribute keeps those that it has.
    fn full(number: u32) -> [u8; ATTRIBUTE_LEN] {
        let mut bytes = [0xab; ATTRIBUTE_LEN];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    #[test]
    fn attribute_keeps_what_it_has_and_nothing_else() {
        for (number, len) in [
            (0, 0),
            (1, 28),
            (2, 4),
            (4, 12),
            (5, 4),
            (6, 4),
            (8, 4),
            (9, 2),
            (10, 4),
            (11, 12),
            (14, 4),
        ] {
            let bytes = LaunchAttribute::read(&full(number)).unwrap().write();
            assert_eq!(bytes[..4], u32::to_le_bytes(number));
            assert_eq!(bytes[8..8 + len], vec![0xab; len], "{number}");
            assert!(bytes[8 + len..].iter().all(|byte| *byte == 0), "{number}");
        }
    }

    #[test]
    fn attribute_with_a_handle_or_unknown_is_none() {
        for number in [3, 7, 12, 13, 15, 99, u32::MAX] {
            assert_eq!(LaunchAttribute::read(&full(number)), None, "{number}");
        }
    }
}
