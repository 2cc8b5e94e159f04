//! Templates of a thread. Where two of them have the same beginning, a sequence that leaves one may
//! go on in the other.
//!
//! The nodes of the trie are hashes of beginnings: a template is a path, and two paths share a node
//! where their hashes are equal.

use crate::economics::Account;
use crate::numbers::Numbers;
use crate::op::Op;
use crate::segment::Segment;

/// Maximum number of templates of a thread.
const MAX_TEMPLATES: usize = 32;

/// Template.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) number: u16,
    pub(crate) segment: Segment,
    pub(crate) account: Account,
    /// Time of its last use, in uses.
    used_at: u64,
}

/// Templates, of which the one that was unused for longest goes first.
#[derive(Debug)]
pub(crate) struct Trie {
    numbers: Numbers,
    templates: Vec<Template>,
    now: u64,
}

impl Trie {
    pub(crate) fn new(numbers: Numbers) -> Self {
        Self { numbers, templates: Vec::new(), now: 0 }
    }

    pub(crate) fn get(&mut self, at: usize) -> &mut Template {
        &mut self.templates[at]
    }

    /// Returns the template that an operation may be the first one of.
    pub(crate) fn begin(&self, op: &Op<'_>, predicted: Option<u64>) -> Option<usize> {
        self.branch(crate::fingerprint::NONE, 0, op, predicted)
    }

    /// Returns the template that goes on with an operation after the beginning of this hash: the
    /// predicted one, or the one that was used last.
    pub(crate) fn branch(
        &self,
        beginning: u64,
        len: usize,
        op: &Op<'_>,
        predicted: Option<u64>,
    ) -> Option<usize> {
        let does = |(_, Template { segment, .. }): &(usize, &Template)| {
            segment.matches(len, op) && segment.hash(len) == beginning
        };
        let rank = |(_, Template { segment, used_at, .. }): &(usize, &Template)| {
            (predicted == Some(segment.hash(segment.len())), *used_at)
        };
        self.templates.iter().enumerate().filter(does).max_by_key(rank).map(|(at, _)| at)
    }

    /// Returns whether a sequence is a template or the beginning of one.
    pub(crate) fn covers(&self, hash: u64, len: usize) -> bool {
        let does =
            |Template { segment, .. }: &Template| segment.len() >= len && segment.hash(len) == hash;
        self.templates.iter().any(does)
    }

    /// Notes a use.
    pub(crate) fn touch(&mut self, at: usize) {
        self.now += 1;
        self.templates[at].used_at = self.now;
    }

    /// Adds a template, and returns its number. `None`: the session has no room.
    pub(crate) fn insert(&mut self, segment: Segment) -> Option<u16> {
        if self.templates.len() >= MAX_TEMPLATES {
            let oldest = (0..self.templates.len()).min_by_key(|at| self.templates[*at].used_at)?;
            self.remove(oldest);
        }
        let number = self.numbers.take(segment.bytes())?;
        self.now += 1;
        let account = Account::default();
        self.templates.push(Template { number, segment, account, used_at: self.now });
        Some(number)
    }

    /// Removes a template.
    pub(crate) fn remove(&mut self, at: usize) {
        self.numbers.give(self.templates.swap_remove(at).number);
    }
}

impl Drop for Trie {
    fn drop(&mut self) {
        self.templates.iter().for_each(|template| self.numbers.give(template.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(shape: &[u8]) -> Op<'_> {
        Op { kind: 1, shape, words: &[], payload: &[] }
    }

    fn segment(shapes: &str) -> Segment {
        let mut segment = Segment::default();
        shapes.as_bytes().chunks(1).for_each(|shape| segment.push(&op(shape)));
        segment
    }

    #[test]
    fn sequence_branches_where_templates_share_their_beginning() {
        let mut trie = Trie::new(Numbers::default());
        for shapes in ["abcd", "abxy", "qbcz"] {
            trie.insert(segment(shapes)).unwrap();
        }
        let hash = |shapes: &str| segment(shapes).hash(shapes.len());
        assert_eq!(trie.begin(&op(b"a"), None), Some(1), "the last one");
        assert_eq!(trie.begin(&op(b"a"), Some(hash("abcd"))), Some(0), "the predicted one");
        assert_eq!(trie.begin(&op(b"z"), None), None);
        assert_eq!(trie.branch(hash("ab"), 2, &op(b"c"), None), Some(0));
        assert_eq!(trie.branch(hash("ab"), 2, &op(b"x"), None), Some(1));
        assert_eq!(trie.branch(hash("abc"), 3, &op(b"z"), None), None, "another beginning");
        assert!(trie.covers(hash("abx"), 3) && !trie.covers(hash("abz"), 3));
    }

    #[test]
    fn template_that_is_unused_for_longest_goes_first() {
        let numbers = Numbers::default();
        let mut trie = Trie::new(numbers.clone());
        let shapes = |at: usize| ["a", "b"].map(|c| c.repeat(1 + at % 16))[at / 16].clone();
        for at in 0..MAX_TEMPLATES {
            trie.insert(segment(&shapes(at))).unwrap();
        }
        trie.touch(0);
        trie.insert(segment("new")).unwrap();
        let hash = |shapes: &str| segment(shapes).hash(shapes.len());
        assert!(trie.covers(hash(&shapes(0)), 1));
        assert_eq!(trie.templates.len(), MAX_TEMPLATES);
        assert!(trie.templates.iter().all(|t| t.segment.hash(t.segment.len()) != hash(&shapes(1))));
        drop(trie);
        let free = std::iter::from_fn(|| numbers.take(1)).count();
        assert_eq!(free, crate::numbers::MAX_TEMPLATES, "a thread that ends gives all back");
    }
}
