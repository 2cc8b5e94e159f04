//! Ways in for fuzz targets.

use crate::control::{self, FromWorker};
use crate::driver::Driver;
use crate::executor::Executor;
use crate::state::lock::lock;
use crate::state::log::Logged;
use crate::state::quota::Quota;
use crate::state::shared::Shared;
use crate::state::window::Window;
use reef_remote_calls::{
    Arg, CALLS, Call, CallHost, CopyNode, FindFunction, FreeLeased, KernelNode, Kind, Launch,
    Layout, Lease, Link, Load, TableCall, ToDevice, ToHost, WINDOW_LEN, WINDOW_SLOTS,
};
use reef_wire::little_endian::{U16, U32};
use reef_wire::{Hot, hot_bytes};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Number of the first context, as the worker names it.
const CONTEXT: u64 = 1 << 46 | 1 << 4;
/// Operations of messages other than the table's.
const OPS: [u16; 13] = [
    Launch::OP,
    ToDevice::OP,
    ToHost::OP,
    Load::OP,
    FindFunction::OP,
    Layout::OP,
    CallHost::OP,
    Lease::OP,
    FreeLeased::OP,
    Link::OP,
    KernelNode::OP,
    CopyNode::OP,
    99,
];
/// Images that are whole, and the begins of others.
const IMAGES: [&[u8]; 4] = [
    b".version 8.0\n.target sm_70\n.global .align 8 .b8 v[64];\n.visible .entry add(.param .u64 a, .param .u64 b) { ret; }\n\0",
    b"\x50\xed\x55\xba\x01\x00\x10\x00",
    b"\x7fELF\x02\x01\x01",
    b"!<arch>\n",
];

/// Input, from which messages are made.
struct Input<'a> {
    bytes: &'a [u8],
    /// Address of the last allocation.
    at: u64,
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// A word: a small one, a number of an object, an address, or eight bytes of the input.
    fn word(&mut self) -> u64 {
        let Some(byte) = self.byte() else { return 0 };
        let low = u64::from(byte & 0x3f);
        match byte >> 6 {
            0 => low,
            1 => 16 * (low % 16),
            2 => self.at.wrapping_add(8 * low).wrapping_sub(16),
            _ if low == 0 => CONTEXT,
            _ if low < 32 => (1 << 46) | (low << 4),
            _ if low < 48 => u64::MAX << low,
            _ => {
                let (taken, rest) = self.bytes.split_at(self.bytes.len().min(8));
                self.bytes = rest;
                let mut word = [0; 8];
                word[..taken.len()].copy_from_slice(taken);
                u64::from_le_bytes(word)
            }
        }
    }

    fn words(&mut self, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.word().to_le_bytes()).collect()
    }

    /// A message of the table, of the shape that its line has.
    fn table_call(&mut self) -> Option<(u16, Vec<u8>)> {
        let call = usize::from(self.byte()?) % CALLS.len();
        let (reserved, reserved2) = (U16::new(0), U32::new(0));
        let head = TableCall { call: U16::new(call as u16), reserved, reserved2 };
        let mut body = hot_bytes(&head).to_vec();
        let mut put = |word: u64| body.extend_from_slice(&word.to_le_bytes());
        let mut count = None;
        for (at, arg) in CALLS[call].args.iter().enumerate() {
            match *arg {
                Arg::Null => {}
                Arg::In(len) => {
                    put(len as u64);
                    (0..len.div_ceil(8)).for_each(|_| put(self.word()));
                }
                Arg::Text => {
                    put(1);
                    put(u64::from(b'v'));
                }
                Arg::Handles(_, of) => {
                    let len = u64::from(self.byte()? % 3);
                    put(8 * len);
                    (0..len).for_each(|_| put(self.word()));
                    count = Some((of, len));
                }
                _ => match count.filter(|(of, _)| *of == at && !self.bytes.len().is_multiple_of(4))
                {
                    Some((_, len)) => put(len),
                    None => put(self.word()),
                },
            }
        }
        Some((TableCall::OP, body))
    }

    /// Another message: a head of words, and perhaps an image.
    fn other(&mut self) -> Option<(u16, Vec<u8>)> {
        let op = OPS[usize::from(self.byte()?) % OPS.len()];
        let count = usize::from(self.byte()?) % 32;
        let mut body = self.words(count);
        if matches!(op, Load::OP | Link::OP) {
            body.extend_from_slice(IMAGES[usize::from(self.byte()?) % IMAGES.len()]);
        }
        let len = usize::from(self.byte()?).min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(len);
        body.extend_from_slice(taken);
        self.bytes = rest;
        Some((op, body))
    }

    fn message(&mut self) -> Option<(u16, Vec<u8>)> {
        if self.byte()? % 4 == 0 { self.other() } else { self.table_call() }
    }
}

/// Handles messages that are made of an input, as a session's thread does, with a driver that
/// checks what it is given. Each is answered, or ends the session.
///
/// # Panics
///
/// If the driver cannot be opened.
pub fn session(driver: &Path, bytes: &[u8]) {
    let driver = Driver::open(Some(driver)).expect("the driver is there");
    let (control, server) = control::pair().expect("a pair of sockets");
    let quota = Quota::new(control, false);
    let asks = Arc::downgrade(&quota);
    std::thread::spawn(move || grant(&server, &asks));
    let window = Window::reserve(&driver, &WINDOW_SLOTS, Some(&quota));
    let shared = Arc::new(Shared::new(driver, window, Some(quota)));
    let mut executor = Executor::new(shared.clone(), Arc::default());
    let mut input = Input { bytes, at: 0 };
    let mut repeat = |op, body: Vec<u8>| {
        executor.repeat(&Logged { lane: 1, context: CONTEXT, op, body }).map(drop)
    };
    let retain = [Call::cuDevicePrimaryCtxRetain as u64, 32, 0].map(u64::to_le_bytes).concat();
    let _ = repeat(TableCall::OP, retain); // the driver has a device
    while let Some((op, body)) = input.message() {
        if repeat(op, body).is_err() {
            break; // the session ends
        }
        input.at = lock(&shared.places).last().or_else(|| last_slab(&shared)).unwrap_or(input.at);
    }
    end(&shared);
}

/// Grants what the worker asks for, as a server without bounds does, until the quota is gone.
fn grant(server: &OwnedFd, quota: &Weak<Quota>) {
    while let Ok((message, _)) = control::receive(server) {
        if let (FromWorker::Reserve(..), Some(quota)) = (message, quota.upgrade()) {
            quota.answer(true);
        }
    }
}

fn last_slab(shared: &Shared) -> Option<u64> {
    lock(&shared.window).as_ref()?.slabs().keys().next_back().copied()
}

/// Gives back what the process would end with.
fn end(shared: &Shared) {
    for (context, handle) in lock(&shared.handles).all(Kind::Context) {
        if context == CONTEXT {
            // SAFETY: a number.
            unsafe { shared.driver.of(Call::cuDevicePrimaryCtxReset_v2).call([0]) };
        } else {
            // SAFETY: a context of the driver's.
            unsafe { shared.driver.of(Call::cuCtxDestroy_v2).call([handle]) };
        }
    }
    let handles = lock(&shared.handles);
    for (kind, call) in [(Kind::Graph, Call::cuGraphDestroy), (Kind::Module, Call::cuModuleUnload)]
    {
        for (_, handle) in handles.all(kind) {
            // SAFETY: a graph or a module of the driver's.
            unsafe { shared.driver.of(call).call([handle]) };
        }
    }
    drop(handles);
    if let Some(window) = &mut *lock(&shared.window) {
        window.keep(&shared.driver, |_, _| None);
        let range = [window.base() as usize, WINDOW_LEN as usize];
        // SAFETY: what the session has reserved.
        unsafe { shared.driver.functions.address_free.call(range) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Numbers by a linear congruential generator.
    fn random(state: &mut u64) -> u8 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 56) as u8
    }

    fn driver() -> std::path::PathBuf {
        let program = std::env::current_exe().unwrap();
        let folders = program.ancestors().skip(1).take(2);
        let mut files = folders.map(|folder| folder.join("libfake_libcuda.so"));
        files.find(|file| file.is_file()).expect("the driver for tests is built")
    }

    #[test]
    #[ignore = "is the process that the other test starts"]
    fn random_sessions() {
        let number = |name, default| {
            let value = std::env::var(name).ok();
            value.map_or(default, |value| value.parse().unwrap())
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/requests");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            println!("{}", path.display());
            session(&driver(), &std::fs::read(path).unwrap());
        }
        let (first, count) = (number("REEF_TEST_SEED", 1), number("REEF_TEST_CASES", 300));
        for seed in first..first + count {
            let mut state = seed;
            let len = usize::from(random(&mut state)) * 4;
            let bytes: Vec<u8> = (0..len).map(|_| random(&mut state)).collect();
            println!("seed {seed}");
            session(&driver(), &bytes);
        }
        println!("done");
    }

    /// A list without handles has no first word. The input was found by the fuzz target.
    #[test]
    fn list_without_handles_is_no_fault() {
        session(&driver(), b"gQQ\0g_Q\0\0");
    }

    /// The target of `fuzz/` in short, with inputs that have found faults: a driver that checks
    /// what it is given ends the process.
    /// `REEF_TEST_CASES=100000` runs more of them.
    #[test]
    fn random_messages_give_the_driver_nothing_wrong() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "fuzzing::tests::random_sessions", "--ignored", "--nocapture"]);
        command.env("REEF_FAKE_CHECK", "1").env("REEF_FAKE_INSTANT", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("done"), "{last:?}: {why}");
    }
}
