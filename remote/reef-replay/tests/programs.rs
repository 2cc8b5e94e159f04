//! Random programs of several threads, over a line that closes records anywhere: the server makes
//! what the programs issued, byte for byte and in order, and never more than that.
//!
//! `REEF_TEST_CASES=500 cargo test -p reef-replay` runs more of them; `REEF_TEST_SEED` says with
//! which number they begin.

use reef_replay::{Growth, Line, Malformed, Numbers, Op, Player, Templates};

/// Random numbers: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Operation with its thread, as it is issued and as it is made.
type Effect = (usize, u16, Vec<u8>);

#[derive(Clone)]
struct OwnOp {
    kind: u16,
    shape: Vec<u8>,
    words: Vec<u8>,
    payload: Vec<u8>,
}

impl OwnOp {
    fn random(random: &mut Random) -> Self {
        let bytes = |random: &mut Random, len: u64| {
            (0..random.below(len + 1)).map(|_| random.next() as u8).collect::<Vec<u8>>()
        };
        let kind = 16 + random.below(4) as u16;
        let (shape, words) = (bytes(random, 60), bytes(random, 70));
        let payload = if random.once_in(5) { bytes(random, 200) } else { Vec::new() };
        Self { kind, shape, words, payload }
    }

    /// Changes content, but not the shape.
    fn vary(&mut self, random: &mut Random) {
        for byte in self.words.iter_mut().chain(&mut self.payload) {
            if random.once_in(6) {
                *byte = random.next() as u8;
            }
        }
    }
}

/// Messages on their way, and the server.
struct Wire {
    /// The last record, if it is open: its thread and its bytes.
    open: Option<(usize, Vec<u8>)>,
    templates: Templates,
    made: Vec<Effect>,
    records: usize,
    replayed: usize,
}

impl Wire {
    /// The line takes what is there.
    fn take(&mut self) {
        let Some((thread, record)) = self.open.take() else { return };
        self.records += 1;
        let (made, replayed) = (&mut self.made, &mut self.replayed);
        let each = |kind: u16, body: &[u8], payload: &[u8]| {
            *replayed += 1;
            made.push((thread, kind, [body, payload].concat()));
            Ok::<(), Malformed>(())
        };
        self.templates.expand(&record, each).unwrap();
    }
}

/// End of one thread.
struct End<'a> {
    wire: &'a mut Wire,
    thread: usize,
}

impl Line for End<'_> {
    type Error = std::convert::Infallible;

    fn plain(&mut self, op: &Op<'_>) -> Result<(), Self::Error> {
        self.wire.take();
        let body = [op.shape, op.words, op.payload].concat();
        self.wire.made.push((self.thread, op.kind, body));
        Ok(())
    }

    fn define(&mut self, number: u16, definition: &[u8]) -> Result<(), Self::Error> {
        self.wire.take();
        self.wire.templates.define(number, definition, |kind| (16..20).contains(&kind)).unwrap();
        Ok(())
    }

    fn advance(&mut self, growth: &Growth<'_>) -> Result<bool, Self::Error> {
        match &mut self.wire.open {
            Some((thread, record)) if *thread == self.thread => {
                let keeps = record.len() - growth.replace.len();
                record.truncate(keeps);
                record.extend_from_slice(growth.replace);
                record.extend_from_slice(&growth.more.concat());
                Ok(true)
            }
            _ => {
                self.wire.take();
                self.wire.open = Some((self.thread, growth.fresh.concat()));
                Ok(false)
            }
        }
    }
}

/// Thread of a program: networks, of which it runs one after another.
struct Thread {
    networks: Vec<Vec<OwnOp>>,
    /// Operations up to the next wait, the next one last.
    left: Vec<OwnOp>,
    /// Times for which the same network follows.
    again: u64,
    network: usize,
}

impl Thread {
    fn random(random: &mut Random) -> Self {
        let mut networks: Vec<Vec<OwnOp>> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let len = if random.once_in(8) { 600 } else { 1 + random.below(40) };
            let mut network: Vec<OwnOp> = (0..len).map(|_| OwnOp::random(random)).collect();
            if let (Some(first), true) = (networks.first(), random.once_in(2)) {
                let shared = random.below(first.len() as u64) as usize;
                network.splice(..0, first[..shared].iter().cloned());
            }
            networks.push(network);
        }
        Self { networks, left: Vec::new(), again: 0, network: 0 }
    }

    /// Begins another pass: of the same network, or of another one, with noise.
    fn begin(&mut self, random: &mut Random) {
        if self.again == 0 {
            self.again = random.below(12);
            self.network = random.below(self.networks.len() as u64) as usize;
        }
        self.again = self.again.saturating_sub(1);
        let mut pass = self.networks[self.network].clone();
        if random.once_in(3) {
            pass.iter_mut().for_each(|op| op.vary(random));
        }
        let place = random.below(pass.len() as u64) as usize;
        match random.below(12) {
            0 => drop(pass.remove(place)),
            1 => pass.insert(place, OwnOp::random(random)),
            2 => pass.truncate(place),
            3 => pass[place] = OwnOp::random(random),
            _ => {}
        }
        pass.reverse();
        self.left = pass;
    }
}

/// Runs a program. Returns how many operations there were, and how many of them were replayed.
fn run(seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let numbers = Numbers::default();
    let mut threads: Vec<(Thread, Player)> = (0..1 + random.below(4))
        .map(|_| (Thread::random(&mut random), Player::new(numbers.clone())))
        .collect();
    let (templates, made) = (Templates::default(), Vec::new());
    let mut wire = Wire { open: None, templates, made, records: 0, replayed: 0 };
    let mut issued: Vec<Effect> = Vec::new();
    // A thread runs for some operations, then another one does.
    let patience = 1 + random.below(60);
    let takes = 1 + random.below(30);
    let mut at = 0;
    for step in 0..6000 {
        if random.once_in(patience) {
            at = random.below(threads.len() as u64) as usize;
        }
        let (thread, player) = &mut threads[at];
        let mut end = End { wire: &mut wire, thread: at };
        match thread.left.pop() {
            None => {
                end.wire.take(); // what the thread waits for takes the record along
                player.wait(&mut end).unwrap();
                thread.begin(&mut random);
            }
            Some(op) => {
                let OwnOp { kind, shape, words, payload } = &op;
                issued.push((at, *kind, [&shape[..], words, payload].concat()));
                player.issue(&Op { kind: *kind, shape, words, payload }, &mut end).unwrap();
            }
        }
        if random.once_in(takes) {
            wire.take();
        }
        let made = wire.made.len();
        assert!(made <= issued.len(), "seed {seed}, step {step}: {made} of {}", issued.len());
        assert_eq!(wire.made.last(), issued[..made].last(), "seed {seed}, step {step}");
    }
    wire.take();
    assert!(wire.made == issued, "seed {seed}: made differs from issued");
    (issued.len(), wire.replayed)
}

#[test]
fn random_programs_are_made_as_they_were_issued() {
    let asked = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let first = asked("REEF_TEST_SEED").unwrap_or(now);
    let cases = asked("REEF_TEST_CASES").unwrap_or(60);
    println!("REEF_TEST_SEED={first}: {cases} programs");
    let (mut issued, mut replayed) = (0, 0);
    for seed in (0..cases).map(|case| first.wrapping_add(case)) {
        let of = run(seed);
        (issued, replayed) = (issued + of.0, replayed + of.1);
    }
    println!("{replayed} of {issued} operations were replayed");
    assert!(replayed * 4 > issued, "{replayed} of {issued} operations were replayed");
}
