//! Bounds of what the sessions of a tenant have together.

use crate::alone::wait_for_turn;
use crate::common;
use crate::support;
use crate::tenants::{self, ALICE, BOB, tenants};
use reef_remote::server::{Account, Resource};
use reef_remote_calls::{Arg, CALLS, Call, CallHost, Lease, SetCurrent, TableCall};
use reef_wire::little_endian::{U16, U32, U64};
use reef_wire::{Client, Error, Hot, hot_bytes};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// A server on which alice may have two sessions and 64 MiB, and bob has no bounds.
fn serve(name: &str) -> String {
    let tenants = tenants(&format!("quotas-{name}"), "sessions = 2\nmemory = \"64MiB\"", "");
    support::serve_with("127.0.0.1:0", |options| options.security.tenants = tenants)
}

fn open(server: &str, token: &str) -> reef_wire::Result<Client> {
    tenants::open(server, token, "", Vec::new())
}

/// As [`open`], with a context.
fn begin(server: &str, token: &str) -> Client {
    in_context(open(server, token).unwrap())
}

fn in_context(client: Client) -> Client {
    let (code, id) = table(&client, Call::cuDevicePrimaryCtxRetain, &[32, 0]);
    assert_eq!(code, 0);
    let context = SetCurrent { context: U64::new(id) };
    client.call(SetCurrent::OP, 1, &[hot_bytes(&context)]).unwrap();
    client
}

/// Makes a call, and returns its code and the first word of its result.
fn table(client: &Client, call: Call, words: &[u64]) -> (u32, u64) {
    table_in(client, 1, call, words)
}

/// As [`table`], in a thread of the client's.
fn table_in(client: &Client, thread: u32, call: Call, words: &[u64]) -> (u32, u64) {
    let head =
        TableCall { call: U16::new(call as u16), reserved: U16::new(0), reserved2: U32::new(0) };
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    reply(&client.call(TableCall::OP, thread, &[hot_bytes(&head), &words]).unwrap())
}

fn reply(reply: &[u8]) -> (u32, u64) {
    let word = reply.get(8..16).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()));
    (u32::from_le_bytes(reply[..4].try_into().unwrap()), word)
}

fn alloc(client: &Client, bytes: u64) -> (u32, u64) {
    table(client, Call::cuMemAlloc_v2, &[1, bytes])
}

/// Each call that allocates stops at the bound, and a free makes room again.
#[test]
fn each_allocating_call_stops_at_the_bound() {
    let _one = wait_for_turn();
    let client = begin(&serve("calls"), ALICE);
    let (code, pool) = table(&client, Call::cuDeviceGetDefaultMemPool, &[48, 0]);
    assert_eq!(code, 0);
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]).0, 0);
    let part = 16 * MIB;
    let calls: [(Call, &[u64]); 4] = [
        (Call::cuMemAlloc_v2, &[1, part]),
        (Call::cuMemAllocPitch_v2, &[1, 1, MIB, 16, 4]),
        (Call::cuMemAllocAsync, &[1, part, 64]),
        (Call::cuMemAllocFromPoolAsync, &[1, part, pool, 64]),
    ];
    for (call, words) in calls {
        for _ in 0..3 {
            let got: Vec<_> = (0..5).map(|_| table(&client, call, words)).collect();
            let codes: Vec<u32> = got.iter().map(|(code, _)| *code).collect();
            assert_eq!(codes, [0, 0, 0, 0, 2], "{call:?}: four parts of 64 MiB");
            for (other, words) in calls {
                assert_eq!(table(&client, other, words).0, 2, "{other:?} after {call:?}");
            }
            let lease = Lease { least: U64::new(part), wished: U64::new(part) };
            let leased = client.call(Lease::OP, 1, &[hot_bytes(&lease)]).unwrap();
            assert_ne!(reply(&leased).0, 0, "a lease after {call:?}");
            for (_, at) in &got[..4] {
                assert_eq!(table(&client, Call::cuMemFree_v2, &[*at]).0, 0);
            }
        }
    }
    // Each call of the table that returns an address of new memory is one of these.
    let names = CALLS.iter().filter(|spec| {
        let name = spec.name.to_str().unwrap();
        name.contains("Alloc") && matches!(spec.args.first(), Some(Arg::Out(8)))
    });
    let mut known = calls.map(|(call, _)| call.spec().name);
    known.sort_unstable();
    let mut names: Vec<_> = names.map(|spec| spec.name).collect();
    names.sort_unstable();
    assert_eq!(names, known);
    // A failed free keeps the charge.
    let (code, at) = alloc(&client, 64 * MIB);
    assert_eq!(code, 0);
    assert_ne!(table(&client, Call::cuMemFree_v2, &[at + 1]).0, 0);
    assert_eq!(alloc(&client, 1).0, 2);
}

/// Allocations of more than a mebibyte have blocks of two, and others share such blocks.
#[test]
fn allocation_counts_what_the_driver_takes() {
    let _one = wait_for_turn();
    let client = begin(&serve("steps"), ALICE);
    for at in until_refused(&client, MIB + 1, 32) {
        assert_eq!(table(&client, Call::cuMemFree_v2, &[at]).0, 0);
    }
    assert_eq!(alloc(&client, 60 * MIB).0, 0);
    assert_eq!([MIB, MIB - 512, 1, 1].map(|bytes| alloc(&client, bytes).0), [0; 4]);
    assert_eq!(alloc(&client, 1).0, 2, "it could take a block");
}

/// Allocates until there is no room, which is after this number of allocations. Returns where.
fn until_refused(client: &Client, bytes: u64, count: usize) -> Vec<u64> {
    let got = (0..200).map(|_| alloc(client, bytes)).take_while(|(code, _)| *code == 0);
    let got: Vec<u64> = got.map(|(_, at)| at).collect();
    assert_eq!(got.len(), count, "of {bytes} bytes each");
    got
}

/// The driver keeps a block until the last allocation in it has ended.
#[test]
fn block_of_small_allocations_is_charged_until_it_is_empty() {
    let _one = wait_for_turn();
    let client = begin(&serve("blocks"), ALICE);
    let free = |at: u64| assert_eq!(table(&client, Call::cuMemFree_v2, &[at]).0, 0);
    let mut kept = BTreeMap::new();
    // 31 blocks of four, and the first one of the last block.
    for at in until_refused(&client, MIB / 2, 125) {
        if let Some(other) = kept.insert(at / (2 * MIB), at) {
            free(other);
        }
    }
    assert_eq!(kept.len(), 32, "blocks of 64 MiB");
    assert_eq!(alloc(&client, 2 * MIB).0, 2, "each block has an allocation");
    let (_, first) = kept.pop_first().unwrap();
    free(first);
    let (code, at) = alloc(&client, 2 * MIB);
    assert_eq!(code, 0, "a block has none");
    free(at);
    kept.into_values().for_each(free);
    assert_eq!(alloc(&client, 64 * MIB).0, 0);
    // Blocks end with their context.
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxReset_v2, &[0]).0, 0);
    let client = in_context(client);
    assert_eq!((alloc(&client, 1).0, alloc(&client, 62 * MIB).0), (0, 0));
    assert_eq!(table(&client, Call::cuDevicePrimaryCtxReset_v2, &[0]).0, 0);
    assert_eq!(alloc(&in_context(client), 64 * MIB).0, 0);
}

/// Other ways to memory of the device are closed where it has a bound, and open without one.
#[test]
fn ways_around_the_bound_are_refused() {
    let _one = wait_for_turn();
    let server = serve("ways");
    for (token, expected) in [(ALICE, 801), (BOB, 0)] {
        let client = begin(&server, token);
        let (code, pool) = table(&client, Call::cuDeviceGetDefaultMemPool, &[48, 0]);
        assert_eq!(code, 0);
        let heap = table(&client, Call::cuCtxSetLimit, &[2, 8 << 30]).0;
        assert_eq!(heap == 801, expected == 801, "the heap of kernels: {heap}");
        let keep = table(&client, Call::cuMemPoolSetAttribute, &[pool, 4, 8, u64::MAX]).0;
        assert_eq!(keep == 801, expected == 801, "bytes that a pool keeps: {keep}");
        assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]).0, 0);
        assert_eq!(table(&client, Call::cuStreamBeginCapture_v2, &[64, 2]).0, 0);
        let captured = table(&client, Call::cuMemAllocAsync, &[1, MIB, 64]).0;
        assert_eq!(captured == 801, expected == 801, "memory of a graph: {captured}");
    }
}

/// Makes a stream that waits for a word, 64, and one that does not, 80. Returns the word's address.
fn block_a_stream(client: &Client) -> u64 {
    let (code, word) = alloc(client, 4);
    assert_eq!((code, table(client, Call::cuMemsetD8Async, &[word, 0, 4, 1]).0), (0, 0));
    assert_eq!(table(client, Call::cuStreamCreate, &[64, 1]).0, 0);
    assert_eq!(table(client, Call::cuStreamCreate, &[80, 1]).0, 0);
    assert_eq!(table(client, Call::cuCtxSynchronize, &[]).0, 0);
    assert_eq!(table(client, Call::cuStreamWaitValue32_v2, &[64, word, 1, 1]).0, 0);
    word
}

/// Memory that a stream has not come to the end of is the tenant's, as it is on the device.
#[test]
fn memory_freed_in_a_blocked_stream_stays_charged() {
    let _one = wait_for_turn();
    let server = serve("streams");
    let (client, other) = (begin(&server, ALICE), begin(&server, ALICE));
    let word = block_a_stream(&client);
    let part = 40 * MIB;
    let (code, at) = table(&client, Call::cuMemAllocAsync, &[1, part, 64]);
    assert_eq!(code, 0);
    assert_eq!(table(&client, Call::cuMemFreeAsync, &[at, 64]).0, 0);
    assert_eq!(table(&client, Call::cuMemAllocAsync, &[1, part, 80]).0, 2, "another stream");
    assert_eq!(alloc(&other, part).0, 2, "another session of the tenant");
    // The driver gives the stream the memory that ends in it.
    let (code, again) = table(&client, Call::cuMemAllocAsync, &[1, part - MIB, 64]);
    assert_eq!(code, 0);
    assert_eq!(table(&client, Call::cuMemAllocAsync, &[1, part - MIB, 64]).0, 2, "it is taken");
    assert_eq!(table(&client, Call::cuMemFreeAsync, &[again, 64]).0, 0);
    // A stream of the same name is another one.
    assert_eq!(table(&client, Call::cuStreamDestroy_v2, &[64]).0, 0);
    assert_eq!(table(&client, Call::cuStreamCreate, &[64, 1]).0, 0);
    assert_eq!(table(&client, Call::cuMemAllocAsync, &[1, part - MIB, 64]).0, 2);
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[80, word, 1, 0]).0, 0);
    common::until("the stream has come to the ends", || alloc(&other, part).0 == 0);
}

/// The memory that ends in its stream was for it, and is there still.
#[test]
fn failed_allocation_leaves_what_ends_in_its_stream_charged() {
    let _one = wait_for_turn();
    let client = begin(&serve("failed"), ALICE);
    let (word, part) = (block_a_stream(&client), 40 * MIB);
    let (code, at) = table(&client, Call::cuMemAllocAsync, &[1, part, 64]);
    assert_eq!((code, table(&client, Call::cuMemFreeAsync, &[at, 64]).0), (0, 0));
    let nowhere = table(&client, Call::cuMemAllocAsync, &[0, part, 64]).0;
    assert_ne!(nowhere, 0, "without a place for the address");
    assert_eq!(table(&client, Call::cuMemAllocAsync, &[1, part, 80]).0, 2, "another stream");
    let (code, again) = table(&client, Call::cuMemAllocAsync, &[1, part, 64]);
    assert_eq!((code, table(&client, Call::cuMemFreeAsync, &[again, 64]).0), (0, 0));
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[80, word, 1, 0]).0, 0);
    common::until("the stream has come to the end", || alloc(&client, part).0 == 0);
}

/// Makes a context with the number 160 for the client's second thread.
fn begin_second(client: &Client) {
    assert_eq!(table(client, Call::cuCtxCreate_v2, &[160, 0, 0]).0, 0);
    let context = SetCurrent { context: U64::new(160) };
    client.call(SetCurrent::OP, 2, &[hot_bytes(&context)]).unwrap();
}

/// Memory that ends in a stream is charged until the stream is there, in whichever context the
/// thread is.
#[test]
fn memory_freed_in_a_stream_outlives_the_threads_context() {
    let _one = wait_for_turn();
    let client = begin(&serve("contexts"), ALICE);
    let (word, part) = (block_a_stream(&client), 40 * MIB);
    begin_second(&client);
    let (code, at) = table_in(&client, 2, Call::cuMemAllocAsync, &[1, part, 64]);
    assert_eq!(code, 0);
    assert_eq!(table_in(&client, 2, Call::cuMemFreeAsync, &[at, 64]).0, 0);
    assert_eq!(table(&client, Call::cuCtxDestroy_v2, &[160]).0, 0);
    assert_eq!(alloc(&client, part).0, 2, "the stream of the other context waits");
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[80, word, 1, 0]).0, 0);
    common::until("the stream has come to the end", || alloc(&client, part).0 == 0);
}

/// Memory of a pool is its device's: it can be freed when the context of its stream has ended.
#[test]
fn memory_of_a_pool_outlives_the_context_of_its_stream() {
    let _one = wait_for_turn();
    let client = begin(&serve("pool-contexts"), ALICE);
    assert_eq!(table(&client, Call::cuStreamCreate, &[80, 1]).0, 0);
    begin_second(&client);
    assert_eq!(table_in(&client, 2, Call::cuStreamCreate, &[176, 1]).0, 0);
    let (code, at) = table_in(&client, 2, Call::cuMemAllocAsync, &[1, 40 * MIB, 176]);
    assert_eq!((code, table(&client, Call::cuCtxDestroy_v2, &[160]).0), (0, 0));
    assert_eq!(alloc(&client, 40 * MIB).0, 2, "it is charged");
    assert_eq!(table(&client, Call::cuMemFreeAsync, &[at, 80]).0, 0);
    common::until("it is free", || alloc(&client, 40 * MIB).0 == 0);
}

/// The driver gives an allocation memory of its own pool alone.
#[test]
fn memory_of_another_pool_is_not_taken_over() {
    let _one = wait_for_turn();
    let client = begin(&serve("pools"), ALICE);
    let word = block_a_stream(&client);
    let (code, at) = alloc(&client, 40 * MIB);
    assert_eq!((code, table(&client, Call::cuMemFreeAsync, &[at, 64]).0), (0, 0));
    let again = || table(&client, Call::cuMemAllocAsync, &[1, 40 * MIB, 64]).0;
    assert_eq!(again(), 2, "that memory is of no pool");
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[80, word, 1, 0]).0, 0);
    common::until("the stream has come to the end", || again() == 0);
}

/// The bounds are of all sessions together; what a killed worker had comes back.
#[test]
fn sessions_of_a_tenant_share_its_bounds() {
    let _one = wait_for_turn();
    let server = serve("sessions");
    let before = support::children(std::process::id());
    let first = begin(&server, ALICE);
    let mine = support::children(std::process::id());
    let worker = *mine.iter().find(|pid| !before.contains(pid)).unwrap();
    let second = begin(&server, ALICE);
    let Err(Error::Refused(said)) = open(&server, ALICE) else { panic!("a third session") };
    assert_eq!(said, "tenant alice: must have at most 2 sessions, got 2");
    assert_eq!(alloc(&first, 40 * MIB).0, 0);
    assert_eq!(alloc(&second, 40 * MIB).0, 2);
    assert_eq!(alloc(&second, 24 * MIB).0, 0);
    let other = begin(&server, BOB);
    assert_eq!(alloc(&other, 100 * MIB).0, 0, "bob has no bound");
    // SAFETY: a process that this test started.
    unsafe { libc::kill(worker as i32, libc::SIGKILL) };
    common::until("the memory of the killed worker is free", || {
        let (code, _) = alloc(&second, 40 * MIB);
        code == 0
    });
    let mut third = None;
    common::until("there is room for a session", || {
        third = open(&server, ALICE).ok();
        third.is_some()
    });
    // Also when a context ends with what is in it.
    assert_eq!(table(&second, Call::cuDevicePrimaryCtxReset_v2, &[0]).0, 0);
    let third = in_context(third.unwrap());
    common::until("the memory of the context is free", || alloc(&third, 64 * MIB).0 == 0);
}

/// A tenant with all sessions that it can have leaves the other one a place.
#[test]
fn tenant_leaves_the_last_place_to_another() {
    let _one = wait_for_turn();
    let server = support::serve_with("127.0.0.1:0", |options| {
        options.security.tenants = tenants("places", "", "");
        options.max_sessions = 3;
    });
    let mut all: Vec<_> = (0..2).map(|_| begin(&server, ALICE)).collect();
    let Err(Error::Refused(said)) = open(&server, ALICE) else { panic!("the place of bob") };
    assert_eq!(said, "the server has 2 sessions, at most 3, of which 1 for others");
    all.push(begin(&server, BOB));
    let Err(Error::Refused(said)) = open(&server, BOB) else { panic!("a fourth session") };
    assert_eq!(said, "the server has 3 sessions, at most 3");
}

/// A server, a session of alice there, the number of its worker, and an account of hers that has
/// all that her sessions may have of a resource, beyond what each has for itself.
fn next_to_one_that_has_all(name: &str, what: Resource) -> (Client, u32, Account) {
    let tenants = tenants(&format!("quotas-{name}"), "", "");
    let other = tenants.open(Some("alice")).unwrap();
    let mut amount = 1 << 40;
    while amount > 0 {
        while other.reserve(what, amount).is_ok() {}
        amount /= 2;
    }
    let server =
        support::serve_with("127.0.0.1:0", |options| options.security.tenants = tenants.clone());
    let before = support::children(std::process::id());
    let client = begin(&server, ALICE);
    let mine = support::children(std::process::id());
    (client, *mine.iter().find(|pid| !before.contains(pid)).unwrap(), other)
}

/// Number of a worker's threads that make calls which block.
fn waiters(worker: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).unwrap();
    let name = |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks.flatten().filter(|task| name(task).is_ok_and(|of| of.trim() == "reef-waiter")).count()
}

/// A session has a few threads for itself, and those beyond them are the tenant's.
#[test]
fn threads_of_blocked_calls_are_bounded_for_a_tenant() {
    let _one = wait_for_turn();
    let (client, worker, other) = next_to_one_that_has_all("threads", Resource::Threads);
    let word = block_a_stream(&client);
    let wait = || {
        let call = Call::cuStreamSynchronize as u16;
        let head =
            TableCall { call: U16::new(call), reserved: U16::new(0), reserved2: U32::new(0) };
        let parts: [&[u8]; 2] = [hot_bytes(&head), &64_u64.to_le_bytes()];
        client.begin_call(TableCall::OP, 1, &parts).unwrap()
    };
    let mut waiting: Vec<u64> = (0..40).map(|_| wait()).collect();
    // The executor takes this after them.
    assert_eq!(table(&client, Call::cuStreamCreate, &[96, 1]).0, 0);
    common::until("its own threads are there", || waiters(worker) >= 16);
    assert_eq!(waiters(worker), 16);
    drop(other);
    waiting.extend((0..40).map(|_| wait()));
    assert_eq!(table(&client, Call::cuStreamCreate, &[112, 1]).0, 0);
    common::until("each call since has a thread", || waiters(worker) == 16 + 40);
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[80, word, 1, 0]).0, 0);
    for number in waiting {
        assert_eq!(reply(&client.finish_call(number).unwrap()).0, 0);
    }
}

/// Memory whose end waits for a thread is the program's no more: another call could name it when
/// the driver has given its address to something else.
#[test]
fn memory_that_is_about_to_end_is_refused() {
    let _one = wait_for_turn();
    let (client, worker, _other) = next_to_one_that_has_all("ends", Resource::Threads);
    let word = block_a_stream(&client);
    let begin = |call: Call, id: u64| {
        let call = U16::new(call as u16);
        let head = TableCall { call, reserved: U16::new(0), reserved2: U32::new(0) };
        let parts: [&[u8]; 2] = [hot_bytes(&head), &id.to_le_bytes()];
        client.begin_call(TableCall::OP, 1, &parts).unwrap()
    };
    let fill = |at| table(&client, Call::cuMemsetD8Async, &[at, 7, 64, 80]).0;
    let (code, freed) = alloc(&client, 64);
    begin_second(&client);
    let (other_code, of_context) = table_in(&client, 2, Call::cuMemAlloc_v2, &[1, 64]);
    assert_eq!([code, other_code, fill(freed), fill(of_context)], [0; 4]);
    let mut waiting: Vec<u64> = (0..16).map(|_| begin(Call::cuStreamSynchronize, 64)).collect();
    // The executor takes this after them.
    assert_eq!(table(&client, Call::cuStreamCreate, &[96, 1]).0, 0);
    common::until("its own threads are there", || waiters(worker) == 16);
    waiting.push(begin(Call::cuMemFree_v2, freed));
    waiting.push(begin(Call::cuCtxDestroy_v2, 160));
    assert_eq!([fill(freed), fill(of_context)], [1; 2]);
    let free = |at| table(&client, Call::cuMemFree_v2, &[at]).0;
    assert_eq!([free(freed), free(of_context)], [1; 2]);
    assert_eq!(table(&client, Call::cuStreamWriteValue32_v2, &[80, word, 1, 0]).0, 0);
    for number in waiting {
        assert_eq!(reply(&client.finish_call(number).unwrap()).0, 0);
    }
    assert_eq!([fill(freed), fill(of_context)], [1; 2]);
}

/// As with threads.
#[test]
fn host_functions_are_bounded_for_a_tenant() {
    let _one = wait_for_turn();
    let (client, _, other) = next_to_one_that_has_all("functions", Resource::Functions);
    let word = block_a_stream(&client);
    assert_eq!(table(&client, Call::cuStreamWaitValue32_v2, &[80, word, 1, 1]).0, 0);
    // A stream takes about a thousand commands before it waits for the device.
    let put = |at: usize| {
        let stream = [64, 80][at % 2];
        let call = CallHost { stream: U64::new(stream), token: U64::new(7) };
        reply(&client.call(CallHost::OP, 1, &[hot_bytes(&call)]).unwrap()).0
    };
    let codes: Vec<u32> = (0..1025).map(put).collect();
    assert_eq!(codes.iter().position(|code| *code != 0), Some(1024), "its own");
    assert_eq!(codes[1024], 2);
    drop(other);
    assert_eq!(put(0), 0, "there is room for more");
}
