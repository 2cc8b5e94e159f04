use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longer than any wait of the pool.
const LONG: Duration = Duration::from_secs(60);

fn user(uid: u32) -> Principal {
    Principal::User(uid + 1_000_000) // not the owner
}

fn pool(max: usize, each: usize) -> Arc<ConnectionPool> {
    let parts = SlotShares { max, each, anonymous: max, others: max };
    ConnectionPool::new(parts, &Times { idle_ms: 60_000, write_ms: 60_000, ..Times::default() })
}

/// A connection with its slot.
struct Client(Arc<ConnectionSlot>, SlotLoss);

impl Client {
    fn enter(pool: &Arc<ConnectionPool>, principal: Principal) -> Result<Self> {
        pool.enter(principal, false).map(|(slot, lost)| Self(Arc::new(slot), lost))
    }

    fn begin(&self, principal: &Principal) -> OpenRequest {
        self.0.begin(principal).unwrap()
    }

    fn is_lost(&mut self) -> bool {
        self.1.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn timeouts(&self) -> Timeouts {
        self.0.uses.lock().timeouts(self.0.pool.write)
    }
}

#[test]
fn timeouts_follow_the_stage_of_a_request() {
    let pool = pool(4, 4);
    let client = Client::enter(&pool, user(1)).unwrap();
    assert_eq!(client.timeouts().activity, Activity::New);
    let request = client.begin(&user(1));
    let owing = |yields, ends| Timeouts { activity: Activity::Owing, yields: Some(yields), ends };
    let [first, later] = PROGRESS_TIMEOUTS;
    assert_eq!(client.timeouts(), owing(first, None));
    request.enter(Stage::Working);
    assert_eq!(client.timeouts(), Timeouts::WORKING);
    request.enter(Stage::Answering);
    assert_eq!(client.timeouts(), owing(first, Some(LONG)));
    request.leave(Stage::Working, Stage::Arriving);
    assert_eq!(request.stage(), Stage::Answering, "it waits for something else");
    request.enter(Stage::Streaming);
    assert_eq!(
        (client.timeouts().activity, client.timeouts().yields),
        (Activity::Resting, Some(later))
    );
    drop(request);
    assert_eq!(client.timeouts().yields, Some(IDLE_TIMEOUT));
    let (second, working) = (client.begin(&user(1)), client.begin(&user(1)));
    assert_eq!(client.timeouts(), owing(later, None));
    working.enter(Stage::Working);
    assert_eq!(client.timeouts(), Timeouts::WORKING, "it works for the other");
    client.0.set_blocked(true);
    assert_eq!(client.timeouts(), owing(later, Some(LONG)));
    drop((second, working));
}

/// A busy machine may give the daemon no processor for a while.
#[test]
fn slot_is_kept_until_the_daemon_waits_for_a_request() {
    for begin in [ConnectionSlot::expect, ConnectionSlot::expect_handshake] {
        let pool = pool(1, 1);
        let mut client = Client::enter(&pool, user(1)).unwrap();
        std::thread::sleep(IDLE_TIMEOUT); // sleep: its timeouts, measured by the clock
        assert!(Client::enter(&pool, user(2)).is_err(), "its request may have come");
        begin(&client.0);
        std::thread::sleep(IDLE_TIMEOUT); // sleep: its timeouts, measured by the clock
        let _other = Client::enter(&pool, user(2)).unwrap();
        assert!(client.is_lost());
    }
}

/// A busy machine may give the daemon no processor between a request's arrival and its read.
#[test]
fn slot_is_kept_while_bytes_wait_in_its_socket() {
    let pool = pool(1, 1);
    let mut client = Client::enter(&pool, user(1)).unwrap();
    let waiting = Arc::new(AtomicBool::new(true));
    let socket = waiting.clone();
    client.0.watch(move || socket.load(Ordering::SeqCst));
    drop(client.begin(&user(1)));
    std::thread::sleep(IDLE_TIMEOUT); // sleep: its timeouts, measured by the clock
    assert!(Client::enter(&pool, user(2)).is_err(), "its next request has come");
    waiting.store(false, Ordering::SeqCst);
    let _other = Client::enter(&pool, user(2)).unwrap();
    assert!(client.is_lost());
}

/// The daemon may leave the rest of its request unread.
#[test]
fn refused_client_keeps_no_slot_by_waiting_bytes() {
    let pool = pool(1, 1);
    let mut client = Client::enter(&pool, user(1)).unwrap();
    client.0.watch(|| true);
    client.0.refuse();
    std::thread::sleep(PROOF_TIMEOUT); // sleep: its timeout, measured by the clock
    let _other = Client::enter(&pool, user(2)).unwrap();
    assert!(client.is_lost());
}

#[test]
fn answer_in_parts_waits_for_the_daemon_between_them() {
    let pool = pool(4, 4);
    let client = Client::enter(&pool, user(1)).unwrap();
    let request = Arc::new(client.begin(&user(1)));
    request.enter(Stage::Working);
    request.set_has_more(true);
    for _ in 0..2 {
        let part = request.pass_on();
        request.note_passed();
        assert_eq!(client.timeouts().activity, Activity::Owing, "it is not in the socket");
        drop(part);
        assert_eq!(client.timeouts(), Timeouts::WORKING);
    }
    request.set_has_more(false);
    assert_eq!(client.timeouts().activity, Activity::Resting, "a stream without a request");
    let parts = [(); 2].map(|()| request.pass_on());
    request.note_passed();
    for part in parts {
        assert_eq!(client.timeouts().activity, Activity::Owing);
        drop(part);
    }
    assert_eq!(client.timeouts().activity, Activity::Resting);
}

/// Its last part may wait in the connection, although the request has ended otherwise.
#[test]
fn request_is_open_until_its_last_part_is_in_the_socket() {
    let pool = pool(4, 4);
    let client = Client::enter(&pool, user(1)).unwrap();
    let request = Arc::new(client.begin(&user(1)));
    let part = request.pass_on();
    drop(request);
    assert_eq!(client.timeouts().activity, Activity::Owing);
    drop(part);
    assert_eq!(client.timeouts().activity, Activity::Resting);
}

#[test]
fn refused_first_request_ends_the_connection_soon() {
    let pool = pool(4, 4);
    let client = Client::enter(&pool, user(1)).unwrap();
    client.0.refuse();
    assert_eq!(client.timeouts().ends, Some(REFUSAL_TIMEOUT));
    drop(client.begin(&user(1)));
    client.0.refuse();
    assert_eq!(client.timeouts().ends, None, "an earlier one was admitted");
}

#[test]
fn connection_belongs_to_principal_of_its_last_request() {
    let pool = pool(4, 1);
    let mut client = Client::enter(&pool, user(1)).unwrap();
    let request = client.begin(&user(2));
    request.enter(Stage::Working);
    let other = Client::enter(&pool, user(1)).unwrap();
    let said = other.0.begin(&user(2)).unwrap_err();
    assert!(matches!(said, Error::Exhausted(_)), "{said}: the daemon works for the other");
    drop(request);
    std::thread::sleep(IDLE_TIMEOUT); // sleep: its timeouts, measured by the clock
    let _using = other.begin(&user(2));
    assert!(client.is_lost() && client.0.begin(&user(2)).is_err());
}

#[test]
fn late_connection_must_show_a_token() {
    let pool = pool(4, 4);
    let address = Principal::at([10, 0, 0, 1].into());
    let (slot, _lost) = pool.enter(address.clone(), true).unwrap();
    let slot = Arc::new(slot);
    let said = slot.begin(&address).unwrap_err().to_string();
    assert!(said.ends_with("too many per second (limits.connects_per_second)"), "{said}");
    slot.begin(&Principal::Token("ci".into())).unwrap();
}

#[test]
fn dropped_slot_is_free() {
    let pool = pool(1, 1);
    let client = Client::enter(&pool, user(1)).unwrap();
    assert!(Client::enter(&pool, user(2)).is_err());
    drop(client);
    Client::enter(&pool, user(2)).unwrap();
}

#[test]
fn sweep_takes_the_slot_of_a_client_that_reads_nothing() {
    let parts = SlotShares { max: 4, each: 4, anonymous: 4, others: 4 };
    let pool = ConnectionPool::new(parts, &Times { write_ms: 0, ..Times::default() });
    let mut client = Client::enter(&pool, user(1)).unwrap();
    let request = client.begin(&user(1));
    request.enter(Stage::Working);
    pool.sweep();
    assert!(!client.is_lost(), "the daemon works for it");
    request.enter(Stage::Answering);
    pool.sweep();
    assert!(client.is_lost());
}
