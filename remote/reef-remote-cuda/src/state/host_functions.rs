//! Functions of the program that the device calls: a thread of this library runs them.

use super::lock::{lock, mint};
use super::thread::in_thread;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

/// Functions with their arguments, until they have been called for the last time: graphs may call
/// one at any time.
static FUNCTIONS: Mutex<Option<HashMap<u64, (usize, usize)>>> = Mutex::new(None);

/// Notes a function, and returns the number by which the worker calls it.
pub(crate) fn note_host_function(function: usize, data: usize) -> u64 {
    let token = mint();
    lock(&FUNCTIONS).get_or_insert_with(HashMap::new).insert(token, (function, data));
    token
}

/// Has the function of this number run, and `returned` called with the call's number. Never waits.
pub(crate) fn run_host_function(token: u64, is_once: bool, call: u64, returned: fn(u64)) {
    static QUEUE: OnceLock<Option<Sender<(u64, bool, u64)>>> = OnceLock::new();
    let start = || {
        let (sender, calls) = channel();
        let body = move || {
            calls.into_iter().for_each(|(token, is_once, call)| {
                run(token, is_once);
                returned(call);
            })
        };
        let thread = std::thread::Builder::new().name("reef-callbacks".into()).spawn(body);
        thread.ok().map(|_| sender)
    };
    if let Some(queue) = QUEUE.get_or_init(start) {
        let _ = queue.send((token, is_once, call)); // the thread never ends
    }
}

fn find(token: u64, is_once: bool) -> Option<(usize, usize)> {
    let mut all = lock(&FUNCTIONS);
    let all = all.as_mut()?;
    if is_once { all.remove(&token) } else { all.get(&token).copied() }
}

fn run(token: u64, is_once: bool) {
    if let Some((function, data)) = find(token, is_once) {
        let _ = in_thread(|thread| thread.is_callback.set(true));
        // SAFETY: the program gave this function for this argument.
        unsafe {
            let function: unsafe extern "C" fn(usize) = std::mem::transmute(function);
            function(data);
        }
    }
}
