//! Functions of the program that the device calls: a thread of this library runs them.

use super::lock::{lock, mint};
use super::thread::in_thread;
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

/// Function, and its argument. Graphs may call one at any time, so none is forgotten.
static FUNCTIONS: Mutex<Option<HashMap<u64, (usize, usize)>>> = Mutex::new(None);

/// Notes a function, and returns the number by which the worker calls it.
pub(crate) fn note_host_function(function: usize, data: usize) -> u64 {
    let token = mint();
    lock(&FUNCTIONS).get_or_insert_with(HashMap::new).insert(token, (function, data));
    token
}

/// Has the function of this number run, and `returned` called with the call's number. Never waits.
pub(crate) fn run_host_function(token: u64, call: u64, returned: fn(u64)) {
    static QUEUE: OnceLock<Option<Sender<(u64, u64)>>> = OnceLock::new();
    let start = || {
        let (sender, calls) = channel();
        let body = move || {
            calls.into_iter().for_each(|(token, call)| {
                run(token);
                returned(call);
            })
        };
        let thread = std::thread::Builder::new().name("reef-callbacks".into()).spawn(body);
        thread.ok().map(|_| sender)
    };
    if let Some(queue) = QUEUE.get_or_init(start) {
        let _ = queue.send((token, call)); // the thread never ends
    }
}

fn run(token: u64) {
    let known = lock(&FUNCTIONS).as_ref().and_then(|all| all.get(&token).copied());
    if let Some((function, data)) = known {
        let _ = in_thread(|thread| thread.is_callback.set(true));
        // SAFETY: the program gave this function for this argument.
        unsafe {
            let function: unsafe extern "C" fn(usize) = std::mem::transmute(function);
            function(data);
        }
    }
}
