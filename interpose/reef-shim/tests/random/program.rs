//! Random programs: what each of their threads does.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// One call of a program, or a few that belong together. Streams are the thread's own two.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Launch {
        stream: usize,
        value: u64,
        variant: bool,
    },
    /// Adds to a word that all threads have.
    Add {
        stream: usize,
        value: u64,
    },
    /// On the legacy default stream, which all blocking streams wait for and which waits for them.
    Legacy {
        stream: usize,
        value: u64,
        by_name: bool,
    },
    /// On the thread's own default stream.
    Own {
        value: u64,
    },
    /// An event recorded in one stream, and waited for in the other, whose word then takes up the
    /// first's.
    Join {
        from: usize,
    },
    /// Waits of two streams for each other, repeated without a wait of the host in between.
    PingPong {
        from: usize,
        rounds: usize,
    },
    Synchronize {
        stream: usize,
    },
    SynchronizeAll,
    Copy {
        stream: usize,
    },
    /// A copy to the host that waits, on the default stream of either kind.
    Read {
        stream: usize,
        variant: bool,
    },
    Fill {
        stream: usize,
        value: u8,
    },
    /// A function of the host's, in a stream's order.
    Host {
        stream: usize,
        value: u64,
    },
    /// Memory of a pool, from its allocation to its end in a stream's order.
    Pool {
        stream: usize,
        value: u64,
        variant: bool,
    },
    /// A capture of a number of launches, launched as a graph twice.
    Graph {
        stream: usize,
        launches: u64,
    },
    /// A graph that is built node by node, with another inside that may be captured, instantiated,
    /// launched, updated and launched.
    Built {
        stream: usize,
        kernels: u64,
        inner: u64,
        captured: bool,
        update: Update,
    },
    /// A launch while it is forbidden: what it breaks is the same.
    BrokenCapture {
        stream: usize,
    },
    NewStream {
        stream: usize,
    },
    /// A child process that uses the driver and ends.
    Fork {
        stream: usize,
    },
    Wrong,
}

/// Update of an executable graph.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Update {
    /// One of its kernels.
    Kernel,
    /// The graph inside of it.
    Child,
    /// All of it.
    Whole,
    /// An update by a graph of another shape.
    Odd,
    /// Not at all: another is made from a clone.
    Clone,
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || 0..2_usize;
    let both = || (stream(), any::<u64>());
    let all = || (stream(), any::<u64>(), any::<bool>());
    prop_oneof![
        8 => all().prop_map(|(stream, value, variant)| Step::Launch { stream, value, variant }),
        2 => both().prop_map(|(stream, value)| Step::Add { stream, value }),
        2 => all().prop_map(|(stream, value, by_name)| Step::Legacy { stream, value, by_name }),
        2 => any::<u64>().prop_map(|value| Step::Own { value }),
        2 => stream().prop_map(|from| Step::Join { from }),
        2 => (stream(), 1..5_usize).prop_map(|(from, rounds)| Step::PingPong { from, rounds }),
        1 => stream().prop_map(|stream| Step::Synchronize { stream }),
        1 => Just(Step::SynchronizeAll),
        1 => stream().prop_map(|stream| Step::Copy { stream }),
        1 => (stream(), any::<bool>()).prop_map(|(stream, variant)| Step::Read { stream, variant }),
        1 => (stream(), any::<u8>()).prop_map(|(stream, value)| Step::Fill { stream, value }),
        2 => both().prop_map(|(stream, value)| Step::Host { stream, value }),
        2 => all().prop_map(|(stream, value, variant)| Step::Pool { stream, value, variant }),
        1 => (stream(), 1..120_u64).prop_map(|(stream, launches)| Step::Graph { stream, launches }),
        2 => built(),
        1 => stream().prop_map(|stream| Step::BrokenCapture { stream }),
        1 => stream().prop_map(|stream| Step::NewStream { stream }),
        1 => stream().prop_map(|stream| Step::Fork { stream }),
        1 => Just(Step::Wrong),
    ]
}

fn built() -> impl Strategy<Value = Step> {
    let updates = [Update::Kernel, Update::Child, Update::Whole, Update::Odd, Update::Clone];
    let sizes = (0..2_usize, 1..120_u64, 0..120_u64);
    let how = (any::<bool>(), prop::sample::select(updates.to_vec()));
    (sizes, how).prop_map(|((stream, kernels, inner), (captured, update))| Step::Built {
        stream,
        kernels,
        inner,
        captured,
        update,
    })
}

/// Steps of three threads.
pub(crate) type Program = [Vec<Step>; 3];

/// The program of this number.
pub(crate) fn program(seed: u64) -> Program {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let steps = prop::array::uniform3(prop::collection::vec(step(), 0..30));
    steps.new_tree(&mut runner).expect("nothing is filtered out").current()
}
