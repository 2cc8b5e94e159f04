//! Log of what has made the session's objects: messages as they came, to be made again elsewhere.

use crate::bounded::list;
use reef_remote_calls::Kind;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Number of entries beyond which those that nothing needs are dropped, at first.
const FIRST_BOUND: usize = 4096;

/// Bytes of the longest log: no server takes a longer state.
const MAX_LEN: usize = 512 << 20;
/// Bytes that a message takes besides its body, about.
const MESSAGE_LEN: usize = 256;

/// A message that made or changed something, with the thread and the context that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Logged {
    pub(crate) lane: u32,
    pub(crate) context: u64,
    pub(crate) op: u16,
    pub(crate) body: Vec<u8>,
}

impl Logged {
    fn len(&self) -> usize {
        self.body.len() + MESSAGE_LEN
    }
}

/// Messages that are made again together: one, or those of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Objects that they made or changed, the one that the worker named first. Empty: the entry is
    /// always needed.
    #[serde(deserialize_with = "list")]
    pub(crate) made: Vec<u64>,
    /// Objects that they used.
    #[serde(deserialize_with = "list")]
    pub(crate) uses: Vec<u64>,
    #[serde(deserialize_with = "list")]
    pub(crate) messages: Vec<Logged>,
}

/// Entries in their order, and captures that are open.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    /// Messages of open captures, by the driver's numbers of these, with what they used.
    captures: HashMap<u64, (Vec<Logged>, Vec<u64>)>,
    /// Addresses of globals that the program has asked for.
    pub(crate) globals: HashSet<u64>,
    /// Allocations outside of the window.
    pub(crate) outside: HashSet<u64>,
    bound: usize,
    /// Bytes of all messages.
    len: usize,
    /// Living objects need more than there may be: nothing is noted any more, and the session
    /// does not migrate.
    pub(crate) is_full: bool,
}

impl Log {
    /// Notes a message.
    pub(crate) fn add(&mut self, made: Vec<u64>, uses: Vec<u64>, message: Logged) {
        self.len += message.len();
        self.entries.push(Entry { made, uses, messages: vec![message] });
    }

    /// Returns whether so much has been noted that [`prune`](Self::prune) is due.
    pub(crate) fn is_long(&self) -> bool {
        self.entries.len() > self.bound.max(FIRST_BOUND) || self.len > MAX_LEN
    }

    /// Drops what no object of these needs.
    pub(crate) fn prune(&mut self, live: impl Fn(u64) -> bool) {
        self.entries = self.needed(live).0;
        self.bound = 2 * self.entries.len();
        let of_captures = self.captures.values().flat_map(|(messages, _)| messages);
        let all = self.entries.iter().flat_map(|entry| &entry.messages).chain(of_captures);
        self.len = all.map(Logged::len).sum();
        if self.len > MAX_LEN || self.is_full {
            self.is_full = true;
            self.entries = Vec::new();
            self.captures.values_mut().for_each(|all| *all = Default::default());
            self.len = 0;
        }
    }

    /// Returns the entries that live objects need, and the objects among theirs that have ended.
    pub(crate) fn needed(&self, live: impl Fn(u64) -> bool) -> (Vec<Entry>, Vec<u64>) {
        let (mut used, mut kept) = (HashSet::new(), Vec::new());
        for entry in self.entries.iter().rev() {
            let is_needed = |id: &u64| live(*id) || used.contains(id);
            if entry.made.is_empty() || entry.made.iter().any(is_needed) {
                used.extend(entry.uses.iter().chain(&entry.made).copied());
                kept.push(entry.clone());
            }
        }
        kept.reverse();
        let mut ended: Vec<u64> = Vec::new();
        for id in kept.iter().flat_map(|entry| &entry.made) {
            if !live(*id) && !ended.contains(id) {
                ended.push(*id);
            }
        }
        (kept, ended)
    }

    /// True while a capture is open.
    pub(crate) fn is_capturing(&self) -> bool {
        !self.captures.is_empty()
    }

    /// Notes a message of a capture, which begins with the first.
    pub(crate) fn capture(&mut self, number: u64, uses: Vec<u64>, message: Logged) {
        self.len += message.len();
        let (messages, all) = self.captures.entry(number).or_default();
        messages.push(message);
        all.extend(uses);
    }

    /// Ends a capture, whose graph is `made` unless it has failed.
    pub(crate) fn end_capture(&mut self, number: u64, made: Option<u64>) {
        let Some((messages, mut uses)) = self.captures.remove(&number) else { return };
        if let Some(graph) = made {
            uses.sort_unstable();
            uses.dedup();
            self.entries.push(Entry { made: vec![graph], uses, messages });
        }
    }
}

/// Call that ends an object of a kind. `None`: it ends with another one.
pub(crate) fn ender(kind: Kind) -> Option<reef_remote_calls::Call> {
    use reef_remote_calls::Call;
    Some(match kind {
        Kind::Context => Call::cuCtxDestroy_v2,
        Kind::Stream => Call::cuStreamDestroy_v2,
        Kind::Event => Call::cuEventDestroy_v2,
        Kind::Module => Call::cuModuleUnload,
        Kind::Library => Call::cuLibraryUnload,
        Kind::Graph => Call::cuGraphDestroy,
        Kind::Exec => Call::cuGraphExecDestroy,
        Kind::Function | Kind::Kernel | Kind::Node | Kind::Link | Kind::Pool => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(op: u16) -> Logged {
        Logged { lane: 1, context: 0, op, body: vec![op as u8] }
    }

    #[test]
    fn ended_objects_fall_out_unless_living_ones_need_them() {
        let mut log = Log::default();
        log.add(vec![16], vec![], message(1)); // a graph
        log.add(vec![32, 16], vec![], message(2)); // its node
        log.add(vec![48], vec![16], message(3)); // what was instantiated from it
        log.add(vec![64], vec![], message(4)); // a stream that has ended
        log.add(vec![], vec![], message(5));
        let (kept, ended) = log.needed(|id| id == 48);
        let ops: Vec<u16> = kept.iter().map(|entry| entry.messages[0].op).collect();
        assert_eq!((ops, ended), (vec![1, 2, 3, 5], vec![16, 32]));
        log.prune(|_| false);
        assert_eq!(log.needed(|_| true).0.len(), 1);
    }

    #[test]
    fn messages_of_a_capture_are_one_entry() {
        let mut log = Log::default();
        log.capture(7, vec![16], message(1));
        log.capture(8, vec![16], message(9));
        log.capture(7, vec![32, 16], message(2));
        assert!(log.is_capturing());
        log.end_capture(7, Some(64));
        log.end_capture(8, None);
        assert!(!log.is_capturing());
        let (kept, _) = log.needed(|id| id == 64);
        assert_eq!((kept.len(), kept[0].messages.len()), (1, 2));
        assert_eq!(kept[0].uses, [16, 32]);
    }
}
