use super::*;

/// Longer than a test: connections stay young until a test ages them.
const MAX_TEST_TIME: Duration = Duration::from_secs(3600);

fn user(uid: u32) -> Principal {
    Principal::User(uid)
}

/// Keeps connections young that have just come or ended a request, however long the machine takes
/// for the test.
fn keep_young(pool: &ConnectionPool) {
    let (mut table, now) = (pool.table.lock(), Instant::now());
    let is_fresh = |entry: &&mut Entry| entry.since <= now && now - entry.since < IDLE_TIMEOUT;
    table.taken.values_mut().filter(is_fresh).for_each(|entry| entry.since += MAX_TEST_TIME);
}

/// Lets time pass for all connections.
fn age(pool: &ConnectionPool) {
    keep_young(pool);
    for entry in pool.table.lock().taken.values_mut() {
        entry.since -=
            if entry.since > Instant::now() { MAX_TEST_TIME + IDLE_TIMEOUT } else { IDLE_TIMEOUT };
    }
}

fn is_lost(lost: &mut SlotLoss) -> bool {
    lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
}

fn proven(pool: &Arc<ConnectionPool>, principal: u32) -> (Arc<ConnectionSlot>, SlotLoss) {
    let (slot, lost) = pool.enter(user(principal), true).unwrap();
    keep_young(pool);
    (Arc::new(slot), lost)
}

#[test]
fn unproven_connection_is_evicted_for_others() {
    let pool = ConnectionPool::new(8, 8);
    let mut silent: Vec<_> = (0..2).map(|_| pool.enter(user(1), false).unwrap()).collect();
    keep_young(&pool);
    let young = pool.enter(user(1), false).unwrap();
    assert!(silent.iter_mut().all(|(_, lost)| !is_lost(lost)), "they have only just come");
    age(&pool);
    let _third = pool.enter(user(2), false).unwrap();
    assert!(is_lost(&mut silent[0].1) && !is_lost(&mut silent[1].1), "the oldest");
    drop((silent, young));
    assert_eq!(pool.table.lock().taken.len(), 1);
}

#[test]
fn full_principal_evicts_its_own_idle_connections_only() {
    let pool = ConnectionPool::new(4, 2);
    let (first, mut first_lost) = proven(&pool, 1);
    let (_second, mut second_lost) = proven(&pool, 1);
    let said = pool.enter(user(1), true).unwrap_err().to_string();
    assert_eq!(said, "connections of user 1 must be at most 2: all are in use");
    age(&pool);
    let using = first.begin(&user(1)).unwrap();
    let _third = proven(&pool, 1);
    assert!(!is_lost(&mut first_lost) && is_lost(&mut second_lost), "the idle one");
    let (_a, _b) = (proven(&pool, 2), proven(&pool, 3));
    age(&pool);
    drop(using);
    keep_young(&pool);
    let _c = proven(&pool, 4);
    assert!(!is_lost(&mut first_lost), "it had a request just now");
}

#[test]
fn connection_belongs_to_principal_of_its_last_request() {
    let pool = ConnectionPool::new(4, 1);
    let (slot, mut lost) = pool.enter(user(1), false).unwrap();
    let slot = Arc::new(slot);
    drop(slot.begin(&user(2)).unwrap());
    keep_young(&pool);
    let other = Arc::new(pool.enter(user(1), false).unwrap().0);
    let said = other.begin(&user(2)).unwrap_err();
    assert!(matches!(said, Error::Exhausted(_)), "{said}");
    age(&pool);
    let _using = other.begin(&user(2)).unwrap();
    assert!(is_lost(&mut lost) && slot.begin(&user(2)).is_err());
}

/// Stands for a request body that never ends, of a connection with and without an earlier request.
#[test]
fn request_that_does_not_arrive_is_evicted_for_others() {
    let pool = ConnectionPool::new(3, 3);
    let come = |principal| {
        let (slot, lost) = pool.enter(user(principal), true).unwrap();
        let slot = Arc::new(slot);
        let using = slot.begin(&user(principal)).unwrap();
        (using.arriving(), using, slot, lost)
    };
    let pass = |time| {
        let mut table = pool.table.lock();
        table.taken.values_mut().for_each(|entry| entry.since -= time);
    };
    let (served, whole) = (come(1), come(2));
    let (arrived, using, slot, mut served_lost) = served;
    drop((arrived, using));
    let using = slot.begin(&user(1)).unwrap();
    let _arriving = using.arriving(); // its second
    let (arrived, _running, _place, mut whole_lost) = whole;
    drop(arrived);
    let mut half = come(3);
    assert!(pool.enter(user(4), true).is_err(), "they have only just begun");
    pass(ARRIVAL_TIMEOUTS[0]);
    let fourth = come(4);
    let lost = [&mut half.3, &mut served_lost, &mut whole_lost].map(is_lost);
    assert_eq!(lost, [true, false, false], "the one that was never served goes first");
    pass(ARRIVAL_TIMEOUTS[1]);
    drop(fourth);
    let _fifth = come(5);
    assert!(!is_lost(&mut served_lost), "there was room");
    let _sixth = come(6);
    assert!(is_lost(&mut served_lost) && !is_lost(&mut whole_lost));
}
