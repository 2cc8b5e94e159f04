//! One thread of the program: follows a template, or records.
//!
//! | state | at an operation | at a wait |
//! |---|---|---|
//! | start | the first one of a template: follow; else record | – |
//! | following | goes on: a few bytes of a record; branches: another template; else record | the next start |
//! | recording | as it is | the segment repeats: a definition |
//!
//! Records stay valid when an operation diverges: a record has the operations that were issued and
//! no others.

use crate::advance::{CHANGED, MAX_RUN, SWITCH, place, put, put_difference};
use crate::economics::{Economics, MIN_FRAMES_LEN};
use crate::numbers::Numbers;
use crate::op::Op;
use crate::period::Periods;
use crate::segment::{MAX_OPS, Segment};
use crate::trie::Trie;

/// Bytes for a record.
#[derive(Debug, Clone, Copy)]
pub struct Growth<'a> {
    /// Bytes in place of as many last ones, if the last record is still open.
    pub replace: &'a [u8],
    /// Bytes after those, if it is.
    pub more: &'a [&'a [u8]],
    /// A record of its own, if it is not.
    pub fresh: &'a [&'a [u8]],
}

/// Line to the server. Everything arrives in the order of these calls.
pub trait Line {
    /// Reason of a line that is broken.
    type Error;

    /// Sends an operation as it is.
    ///
    /// # Errors
    ///
    /// The line is broken.
    fn plain(&mut self, op: &Op<'_>) -> Result<(), Self::Error>;

    /// Sends a definition, for [`Templates::define`](crate::Templates::define).
    ///
    /// # Errors
    ///
    /// The line is broken.
    fn define(&mut self, number: u16, definition: &[u8]) -> Result<(), Self::Error>;

    /// Lets the thread's last record grow, if it is open: it was not sent yet, and nothing was sent
    /// after it. Otherwise sends another one, for [`Templates::expand`](crate::Templates::expand).
    /// Returns whether it was open.
    ///
    /// # Errors
    ///
    /// The line is broken.
    fn advance(&mut self, growth: &Growth<'_>) -> Result<bool, Self::Error>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// The next operation should be this one of a template.
    Following {
        template: usize,
        at: usize,
        /// The server does not know it from the last token.
        is_new: bool,
    },
    Recording,
    /// Nothing is kept of this segment.
    Idle,
}

/// State of a thread.
#[derive(Debug)]
pub struct Player {
    state: State,
    recording: Segment,
    periods: Periods,
    predicted: Option<u64>,
    trie: Trie,
    economics: Economics,
    /// Operations without changes of the last token that was sent; 0 for another token.
    run: u8,
    token: Vec<u8>,
    /// Bytes of this segment as frames, and those that were sent for them.
    plain: usize,
    taken: usize,
    /// Template that this segment has left too often.
    left: Option<usize>,
}

impl Player {
    /// A thread whose templates have numbers of these.
    pub fn new(numbers: Numbers) -> Self {
        Self {
            state: State::Start,
            recording: Segment::default(),
            periods: Periods::default(),
            predicted: None,
            trie: Trie::new(numbers),
            economics: Economics::default(),
            run: 0,
            token: Vec::new(),
            plain: 0,
            taken: 0,
            left: None,
        }
    }

    /// Sends an operation.
    ///
    /// # Errors
    ///
    /// The line's.
    pub fn issue<L: Line>(&mut self, op: &Op<'_>, line: &mut L) -> Result<(), L::Error> {
        loop {
            match self.state {
                State::Start => self.begin(op),
                State::Idle => return line.plain(op),
                State::Following { at: MAX_OPS, .. } => self.wait(line)?,
                State::Following { template, at, is_new } => {
                    if self.trie.get(template).segment.matches(at, op) {
                        return self.follow(template, at, is_new, op, line);
                    }
                    let hash = self.trie.get(template).segment.hash(at);
                    match self.trie.branch(hash, at, op, self.predicted) {
                        Some(template) => {
                            self.state = State::Following { template, at, is_new: true };
                        }
                        None => self.diverge(template, at),
                    }
                }
                State::Recording if !Segment::takes(op) => {
                    self.periods.clear();
                    self.state = State::Idle;
                }
                State::Recording if !self.recording.has_room(op) => self.wait(line)?,
                State::Recording => {
                    self.recording.push(op);
                    return line.plain(op);
                }
            }
        }
    }

    /// Ends a segment: the program has waited for something that this thread has issued. A wait
    /// that follows a wait changes nothing.
    ///
    /// # Errors
    ///
    /// The line's.
    pub fn wait<L: Line>(&mut self, line: &mut L) -> Result<(), L::Error> {
        match std::mem::replace(&mut self.state, State::Start) {
            State::Start | State::Idle => return Ok(()),
            State::Following { template, at, .. } => self.end_following(template, at),
            State::Recording => self.end_recording(line)?,
        }
        self.predicted = self.periods.predicted();
        Ok(())
    }

    fn begin(&mut self, op: &Op<'_>) {
        (self.plain, self.taken, self.left) = (0, 0, None);
        if let Some(template) = self.trie.begin(op, self.predicted) {
            self.state = State::Following { template, at: 0, is_new: true };
            return;
        }
        self.recording.clear();
        self.state = if self.economics.records() { State::Recording } else { State::Idle };
    }

    /// Sends an operation as its difference from the template.
    fn follow<L: Line>(
        &mut self,
        template: usize,
        at: usize,
        is_new: bool,
        op: &Op<'_>,
        line: &mut L,
    ) -> Result<(), L::Error> {
        let followed = self.trie.get(template);
        let here = place(followed.number, at);
        self.token.clear();
        if is_new {
            self.token.push(SWITCH);
            self.token.extend(here);
        }
        let switch = self.token.len();
        let is_plain = op.payload.is_empty() && followed.segment.words(at) == op.words;
        if is_plain {
            self.token.push(1);
        } else {
            changes(&mut followed.segment, at, op.words, &mut self.token);
        }
        self.plain += followed.segment.frame_len(at);
        let fresh = [&here[..], &self.token[switch..], op.payload];
        let grown = [self.run + 1];
        let goes_on = is_plain && !is_new && (1..MAX_RUN).contains(&self.run);
        let (replace, more): (&[u8], &[&[u8]]) =
            if goes_on { (&grown, &[]) } else { (&[], &[&self.token, op.payload]) };
        let has_grown = line.advance(&Growth { replace, more, fresh: &fresh })?;
        self.run = match (is_plain, has_grown && goes_on) {
            (false, _) => 0,
            (true, true) => self.run + 1,
            (true, false) => 1,
        };
        self.taken += match (has_grown, goes_on) {
            (true, true) => 0,
            (true, false) => self.token.len(),
            (false, _) => crate::segment::FRAME_LEN + here.len() + self.token.len() - switch,
        };
        self.state = State::Following { template, at: at + 1, is_new: false };
        Ok(())
    }

    /// Leaves a template: what was issued of it becomes a recording.
    fn diverge(&mut self, template: usize, at: usize) {
        let left = self.trie.get(template);
        self.recording.copy_front(&left.segment, at);
        if left.account.missed(at) {
            self.left = Some(template);
        }
        self.state = State::Recording;
    }

    fn end_following(&mut self, template: usize, at: usize) {
        self.trie.touch(template);
        let followed = self.trie.get(template);
        let hash = followed.segment.hash(at);
        followed.account.reset_misses();
        if !followed.account.used(self.plain, self.taken) {
            self.economics.refuse(followed.segment.hash(followed.segment.len()));
            self.trie.remove(template);
        }
        self.periods.push(hash);
        self.economics.ended(true);
    }

    fn end_recording<L: Line>(&mut self, line: &mut L) -> Result<(), L::Error> {
        let (len, hash) = (self.recording.len(), self.recording.hash(self.recording.len()));
        let repeats = self.periods.push(hash);
        if self.economics.ended(repeats) {
            self.periods.clear();
        }
        let frames_len: usize = (0..len).map(|at| self.recording.frame_len(at)).sum();
        let is_worth = frames_len >= MIN_FRAMES_LEN && !self.economics.is_refused(hash);
        if repeats && is_worth && !self.trie.covers(hash, len) {
            let definition = self.recording.write();
            if let Some(number) = self.trie.insert(std::mem::take(&mut self.recording)) {
                line.define(number, &definition)?;
            }
        } else if let Some(template) = self.left {
            self.trie.remove(template);
        }
        Ok(())
    }
}

/// Appends the token of an operation with its changes, which stay in the template.
fn changes(segment: &mut Segment, at: usize, words: &[u8], to: &mut Vec<u8>) {
    to.push(CHANGED);
    put(to, segment.count_changes(at, words) as u64);
    let mut next = 0;
    segment.change(at, words, |index, was, is| {
        put(to, index - next);
        put_difference(to, was, is);
        next = index + 1;
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Templates;
    use crate::error::Malformed;

    /// Line whose record closes after a number of operations, and the server behind it.
    #[derive(Default)]
    struct Wire {
        closes_after: usize,
        in_record: usize,
        record: Vec<u8>,
        templates: Templates,
        made: Vec<(u16, Vec<u8>)>,
        plain: usize,
        defined: usize,
        replayed: usize,
        records: Vec<usize>,
    }

    impl Wire {
        fn close(&mut self) {
            let (record, made) = (std::mem::take(&mut self.record), &mut self.made);
            if record.is_empty() {
                return;
            }
            self.records.push(record.len());
            let each = |kind: u16, body: &[u8], payload: &[u8]| {
                made.push((kind, [body, payload].concat()));
                Ok::<(), Malformed>(())
            };
            self.templates.expand(&record, each).unwrap();
        }
    }

    impl Line for Wire {
        type Error = std::convert::Infallible;

        fn plain(&mut self, op: &Op<'_>) -> Result<(), Self::Error> {
            self.close();
            self.plain += 1;
            self.made.push((op.kind, [op.shape, op.words, op.payload].concat()));
            Ok(())
        }

        fn define(&mut self, number: u16, definition: &[u8]) -> Result<(), Self::Error> {
            self.close();
            self.defined += 1;
            self.templates.define(number, definition, |_| true).unwrap();
            Ok(())
        }

        fn advance(&mut self, growth: &Growth<'_>) -> Result<bool, Self::Error> {
            self.replayed += 1;
            if self.in_record >= self.closes_after {
                self.close();
            }
            let is_open = !self.record.is_empty();
            if is_open {
                let keeps = self.record.len() - growth.replace.len();
                self.record.truncate(keeps);
                self.record.extend_from_slice(growth.replace);
                growth.more.iter().for_each(|part| self.record.extend_from_slice(part));
            } else {
                self.in_record = 0;
                growth.fresh.iter().for_each(|part| self.record.extend_from_slice(part));
            }
            self.in_record += 1;
            Ok(is_open)
        }
    }

    struct Program {
        player: Player,
        wire: Wire,
        issued: Vec<(u16, Vec<u8>)>,
    }

    impl Program {
        fn new(closes_after: usize) -> Self {
            let wire = Wire { closes_after, ..Wire::default() };
            Self { player: Player::new(Numbers::default()), wire, issued: Vec::new() }
        }

        fn issue(&mut self, shape: u8, words: &[u64], payload: &[u8]) {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let shape = [shape; 40];
            let op = Op { kind: 18, shape: &shape, words: &words, payload };
            self.issued.push((18, [&shape[..], &words, payload].concat()));
            self.player.issue(&op, &mut self.wire).unwrap();
        }

        fn wait(&mut self) {
            self.wire.close(); // what a wait sends takes the record along
            assert_eq!(self.wire.made, self.issued);
            self.player.wait(&mut self.wire).unwrap();
        }

        /// Issues these shapes with words that stay, and waits. Returns how many were replayed.
        fn segment(&mut self, shapes: &str) -> usize {
            let before = self.wire.replayed;
            shapes.bytes().for_each(|shape| self.issue(shape, &[7, 7], &[]));
            self.wait();
            self.wire.replayed - before
        }
    }

    #[test]
    fn fourth_repetition_is_one_small_record() {
        let mut program = Program::new(usize::MAX);
        let network: String = ('a'..='z').cycle().take(300).collect();
        let replayed = [0; 5].map(|_| program.segment(&network));
        assert_eq!(replayed, [0, 0, 0, 300, 300]);
        assert_eq!((program.wire.defined, &program.wire.records[..]), (1, &[6, 6][..]));
    }

    #[test]
    fn changed_words_travel_and_stay() {
        let mut program = Program::new(usize::MAX);
        for pass in 0..6_u64 {
            program.issue(1, &[1, 1000 + pass, u64::MAX], &[]);
            program.issue(2, &[pass / 5, 3], b"content");
            program.issue(3, &[9], &[]);
            program.wait();
        }
        assert_eq!(program.wire.plain, 9);
        // Place, a changed word, an operation with its payload, one without change.
        let bytes = 4 + (2 + 2) + (2 + 7) + 1;
        assert_eq!(program.wire.records, [bytes, bytes, bytes + 2]);
    }

    #[test]
    fn sequence_that_diverges_is_made_as_issued() {
        let mut program = Program::new(3);
        let said =
            ["abcdef", "abcdef", "abcdef", "abcdef", "abcx", "abc", "abcdefg", "xabcdef", "abcdef"]
                .map(|shapes| program.segment(shapes));
        assert_eq!(said, [0, 0, 0, 6, 3, 3, 6, 0, 6]);
    }

    #[test]
    fn alternating_networks_branch_from_one_another() {
        let mut program = Program::new(usize::MAX);
        for _ in 0..3 {
            program.segment("abcdefgh");
            program.segment("abcdxy");
        }
        // The repetition is known when its last segment ends; the first one is defined at its next.
        assert_eq!((program.wire.defined, program.segment("abcdefgh")), (1, 4));
        assert_eq!(program.wire.defined, 2);
        let replayed = ["abcdefgh", "abcdxy", "abcdxy", "abcdefgh"].map(|s| program.segment(s));
        assert_eq!(replayed, [8, 6, 6, 8]);
    }

    #[test]
    fn sequence_longer_than_a_template_is_a_chain() {
        let mut program = Program::new(usize::MAX);
        let long: String = (0..1300).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        for _ in 0..4 {
            program.segment(&long);
        }
        program.wire.records.clear();
        assert_eq!(program.segment(&long), 1300);
        assert_eq!((program.wire.defined, program.wire.records.len()), (3, 1));
    }

    #[test]
    fn template_that_diverges_again_and_again_is_dropped() {
        let mut program = Program::new(usize::MAX);
        for _ in 0..3 {
            program.segment("abcdef");
        }
        let other = |at: usize| format!("abc{}", ["uv", "vw", "wx", "xy"][at]);
        let replayed = [0, 1, 2, 3].map(|at| program.segment(&other(at)));
        assert_eq!(replayed, [3, 3, 3, 0]);
    }

    #[test]
    fn template_whose_words_all_change_is_dropped_for_good() {
        let mut program = Program::new(usize::MAX);
        let mut word = 1_u64;
        for _ in 0..30 {
            for shape in 0..4 {
                let words = [0; 24].map(|_| {
                    word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
                    word
                });
                program.issue(shape, &words, &[]);
            }
            program.wait();
        }
        assert_eq!((program.wire.defined, program.wire.replayed), (1, 8 * 4));
    }

    #[test]
    fn lengths_of_words_and_payload_tell_operations_apart() {
        let mut program = Program::new(usize::MAX);
        for pass in 0..12 {
            let (words, payload) = ([1, 2, 3], [7; 24]);
            let (words, payload) = match pass {
                8 => (&words[..], &payload[..16]),
                10 => (&words[..2], &payload[..]),
                _ => (&words[..], &payload[..]),
            };
            (0..3).for_each(|shape| program.issue(shape, &[5], &[]));
            program.issue(9, words, payload);
            program.wait();
        }
        assert_eq!(program.wire.plain, 3 * 4 + 2);
    }

    #[test]
    fn one_small_operation_is_not_worth_a_template() {
        let mut program = Program::new(usize::MAX);
        assert_eq!([0; 5].map(|_| program.segment("a")), [0; 5]);
        assert_eq!(program.wire.defined, 0);
    }
}
