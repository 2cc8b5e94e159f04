//! A writer and a reader with two callers each; a receiver that sleeps.

use crate::cursor::Cursor;
use crate::reader::Turns;
use crate::writer::{Source, Writer};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::time::Duration;

/// Numbers that were pushed.
struct Numbers(Vec<u32>);

impl Source for Numbers {
    type Batch = Vec<u32>;

    fn take(&mut self) -> Option<Vec<u32>> {
        self.is_ready().then(|| std::mem::take(&mut self.0))
    }

    fn is_ready(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Bytes as the other end gets them.
#[derive(Default)]
struct Line {
    sent: Mutex<Vec<u32>>,
    came: Condvar,
    senders: AtomicUsize,
}

impl Line {
    fn send(&self, batch: Vec<u32>) {
        let others = self.senders.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "one thread sends at a time");
        self.sent.lock().unwrap().extend(batch);
        self.senders.fetch_sub(1, Ordering::SeqCst);
        self.came.notify_all();
    }

    fn await_numbers(&self, count: usize) -> Vec<u32> {
        let mut sent = self.sent.lock().unwrap();
        while sent.len() < count {
            sent = self.came.wait(sent).unwrap();
        }
        sent.clone()
    }
}

fn check(bound: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(model);
}

/// A quiet push is sent by the writer's thread, and a flush next to it loses and reorders nothing.
#[test]
fn pushed_frames_are_sent_once_in_order() {
    check(3, || {
        let shared = Arc::new((Writer::new(Numbers(Vec::new())), Line::default()));
        let run = |shared: &Arc<(Writer<Numbers>, Line)>| {
            let shared = shared.clone();
            thread::spawn(move || shared.0.run(|batch| shared.1.send(batch)))
        };
        let writer = run(&shared);
        let caller = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.0.with(|numbers| numbers.0.push(1));
                shared.0.flush(|batch| shared.1.send(batch));
            }
        });
        shared.0.push(|numbers| numbers.0.push(10));
        shared.0.push(|numbers| numbers.0.push(11));
        let mut sent = shared.1.await_numbers(3);
        sent.retain(|&number| number >= 10);
        assert_eq!(sent, [10, 11]);
        caller.join().unwrap();
        shared.0.stop();
        writer.join().unwrap();
        assert_eq!(shared.1.sent.lock().unwrap().len(), 3, "nothing is sent twice");
    });
}

/// The last number is sent before the connection breaks, also while another thread sends.
#[test]
fn last_frame_is_sent_next_to_another_send() {
    check(3, || {
        let shared = Arc::new((Writer::new(Numbers(Vec::new())), Line::default()));
        let writer = thread::spawn({
            let shared = shared.clone();
            move || shared.0.run(|batch| shared.1.send(batch))
        });
        shared.0.push(|numbers| numbers.0.push(10));
        shared.0.with(|numbers| numbers.0.push(99));
        let is_sent = shared.0.flush_within(Duration::ZERO, |batch| shared.1.send(batch));
        assert!(is_sent && shared.1.sent.lock().unwrap().contains(&99));
        shared.0.stop();
        writer.join().unwrap();
        assert_eq!(*shared.1.sent.lock().unwrap(), [10, 99]);
    });
}

/// A reconnecting thread is alone, and what is pushed meanwhile is sent after it.
#[test]
fn reconnecting_thread_is_alone_with_the_connection() {
    check(3, || {
        let shared = Arc::new((Writer::new(Numbers(Vec::new())), Line::default()));
        let writer = thread::spawn({
            let shared = shared.clone();
            move || shared.0.run(|batch| shared.1.send(batch))
        });
        let other = thread::spawn({
            let shared = shared.clone();
            move || shared.0.run_alone(|| shared.1.send(vec![7]))
        });
        shared.0.push(|numbers| numbers.0.push(10));
        let mut sent = shared.1.await_numbers(2);
        sent.sort_unstable();
        assert_eq!(sent, [7, 10]);
        other.join().unwrap();
        shared.0.stop();
        writer.join().unwrap();
    });
}

/// Threads that push much and wait for room find it, and what they push is sent once.
#[test]
fn thread_that_makes_room_has_it_or_sends_itself() {
    check(3, || {
        let shared = Arc::new((Writer::new(Numbers(Vec::new())), Line::default()));
        let writer = thread::spawn({
            let shared = shared.clone();
            move || shared.0.run(|batch| shared.1.send(batch))
        });
        let push = |shared: &(Writer<Numbers>, Line), number| {
            let has_room = |numbers: &Numbers| numbers.0.is_empty();
            shared.0.make_room(has_room, |batch| shared.1.send(batch));
            shared.0.push(|numbers| numbers.0.push(number));
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || push(&shared, 7)
        });
        push(&shared, 10);
        push(&shared, 11);
        let mut sent = shared.1.await_numbers(3);
        sent.retain(|&number| number >= 10);
        assert_eq!(sent, [10, 11]);
        other.join().unwrap();
        shared.0.stop();
        writer.join().unwrap();
        assert_eq!(shared.1.sent.lock().unwrap().len(), 3, "nothing is sent twice");
    });
}

/// Answers as they come from the socket: each read gives the next one.
#[derive(Default)]
struct Socket {
    next: AtomicUsize,
    answers: [AtomicUsize; 3],
    readers: AtomicUsize,
    wake: Mutex<bool>,
    woken: Condvar,
}

impl Socket {
    fn read(&self, order: &[usize]) {
        let others = self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "one thread reads at a time");
        let at = self.next.fetch_add(1, Ordering::SeqCst);
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.answers[order[at]].store(1, Ordering::SeqCst);
    }

    fn answer(&self, caller: usize) -> Option<()> {
        (self.answers[caller].load(Ordering::SeqCst) == 1).then_some(())
    }

    fn interrupt(&self) {
        *self.wake.lock().unwrap() = true;
        self.woken.notify_all();
    }

    /// A read that only an interrupt ends: nothing comes.
    fn sleep(&self) {
        let mut wake = self.wake.lock().unwrap();
        while !*wake {
            wake = self.woken.wait(wake).unwrap();
        }
        *wake = false;
    }
}

/// Two callers get their answers in either order, and one of them always reads.
#[test]
fn callers_read_for_each_other() {
    for order in [[0, 1], [1, 0]] {
        check(3, move || {
            let shared = Arc::new((Turns::default(), Socket::default()));
            let call = move |shared: &(Turns, Socket), caller| {
                shared.0.enter(|| unreachable!("no background reader"));
                shared.0.wait(|| shared.1.answer(caller), || shared.1.read(&order));
            };
            let other = thread::spawn({
                let shared = shared.clone();
                move || call(&shared, 1)
            });
            call(&shared, 0);
            other.join().unwrap();
            assert_eq!(shared.1.next.load(Ordering::SeqCst), 2, "each answer was read once");
        });
    }
}

/// A caller interrupts the background reader, which reads again when the caller has left.
#[test]
fn background_reader_makes_room_for_a_caller() {
    check(3, || {
        let shared = Arc::new((Turns::default(), Socket::default()));
        let background = thread::spawn({
            let shared = shared.clone();
            move || shared.0.run(|| shared.1.sleep(), || ())
        });
        shared.0.enter(|| shared.1.interrupt());
        shared.0.wait(|| shared.1.answer(0), || shared.1.read(&[0]));
        shared.0.stop();
        shared.1.interrupt();
        background.join().unwrap();
    });
}

/// A receiver that may sleep is woken for each move of the sender's, and sees what was sent.
#[test]
fn receiver_does_not_sleep_through_a_move() {
    check(4, || {
        let shared = Arc::new((Cursor::default(), AtomicUsize::new(0), Bell::default()));
        let sender = thread::spawn({
            let shared = shared.clone();
            move || {
                for at in 1..=2 {
                    shared.1.store(at, Ordering::Relaxed);
                    if shared.0.set(at as u32) {
                        shared.2.ring();
                    }
                }
            }
        });
        let mut seen = 0;
        while seen < 2 {
            let at = shared.0.get();
            if at != seen {
                assert!(shared.1.load(Ordering::Relaxed) >= at as usize);
                seen = at;
            } else {
                shared.0.sleep_at(seen, || shared.2.sleep());
            }
        }
        sender.join().unwrap();
    });
}

/// The socket: bytes that mean nothing but that there is something.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    came: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.came.notify_all();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.came.wait(rung).unwrap();
        }
        *rung = false;
    }
}
