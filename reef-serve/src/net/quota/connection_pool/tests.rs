use super::*;

/// Longer than a test: connections are young until they are made old.
const YOUTH: Duration = Duration::from_secs(3600);

fn user(uid: u32) -> Principal {
    Principal::User(uid)
}

/// Those that have just come, or ended a request, stay young, however long the machine takes for
/// the test.
fn keep_young(places: &Places) {
    let (mut table, now) = (places.table.lock(), Instant::now());
    let is_fresh = |entry: &&mut Entry| entry.since <= now && now - entry.since < IDLE;
    table.taken.values_mut().filter(is_fresh).for_each(|entry| entry.since += YOUTH);
}

/// Lets time pass for all that are there.
fn age(places: &Places) {
    keep_young(places);
    for entry in places.table.lock().taken.values_mut() {
        entry.since -= if entry.since > Instant::now() { YOUTH + IDLE } else { IDLE };
    }
}

fn is_lost(lost: &mut Lost) -> bool {
    lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
}

fn proven(places: &Arc<Places>, who: u32) -> (Arc<Place>, Lost) {
    let (place, lost) = places.enter(user(who), true).unwrap();
    keep_young(places);
    (Arc::new(place), lost)
}

#[test]
fn who_shows_nothing_makes_room_for_others() {
    let places = Places::new(8, 8);
    let mut silent: Vec<_> = (0..2).map(|_| places.enter(user(1), false).unwrap()).collect();
    keep_young(&places);
    let young = places.enter(user(1), false).unwrap();
    assert!(silent.iter_mut().all(|(_, lost)| !is_lost(lost)), "they have only just come");
    age(&places);
    let _third = places.enter(user(2), false).unwrap();
    assert!(is_lost(&mut silent[0].1) && !is_lost(&mut silent[1].1), "the oldest");
    drop((silent, young));
    assert_eq!(places.table.lock().taken.len(), 1);
}

#[test]
fn a_principal_takes_places_of_its_own_alone() {
    let places = Places::new(4, 2);
    let (first, mut first_lost) = proven(&places, 1);
    let (_second, mut second_lost) = proven(&places, 1);
    let said = places.enter(user(1), true).unwrap_err().to_string();
    assert_eq!(said, "user 1 has 2 connections, all in use: no more");
    age(&places);
    let using = first.begin(&user(1)).unwrap();
    let _third = proven(&places, 1);
    assert!(!is_lost(&mut first_lost) && is_lost(&mut second_lost), "the idle one");
    let (_a, _b) = (proven(&places, 2), proven(&places, 3));
    age(&places);
    drop(using);
    keep_young(&places);
    let _c = proven(&places, 4);
    assert!(!is_lost(&mut first_lost), "it had a request just now");
}

#[test]
fn a_connection_is_of_whom_its_last_request_spoke_for() {
    let places = Places::new(4, 1);
    let (place, mut lost) = places.enter(user(1), false).unwrap();
    let place = Arc::new(place);
    drop(place.begin(&user(2)).unwrap());
    keep_young(&places);
    let other = Arc::new(places.enter(user(1), false).unwrap().0);
    let said = other.begin(&user(2)).unwrap_err();
    assert!(matches!(said, Error::Exhausted(_)), "{said}");
    age(&places);
    let _using = other.begin(&user(2)).unwrap();
    assert!(is_lost(&mut lost) && place.begin(&user(2)).is_err());
}

/// As the body of a request that doesn't end, by whoever has not been served or has.
#[test]
fn requests_that_do_not_arrive_make_room_for_others() {
    let places = Places::new(3, 3);
    let come = |who| {
        let (place, lost) = places.enter(user(who), true).unwrap();
        let place = Arc::new(place);
        let using = place.begin(&user(who)).unwrap();
        (using.arriving(), using, place, lost)
    };
    let pass = |time| {
        let mut table = places.table.lock();
        table.taken.values_mut().for_each(|entry| entry.since -= time);
    };
    let (served, whole) = (come(1), come(2));
    let (arrived, using, place, mut served_lost) = served;
    drop((arrived, using));
    let using = place.begin(&user(1)).unwrap();
    let _arriving = using.arriving(); // its second
    let (arrived, _running, _place, mut whole_lost) = whole;
    drop(arrived);
    let mut half = come(3);
    assert!(places.enter(user(4), true).is_err(), "they have only just begun");
    pass(ARRIVAL[0]);
    let fourth = come(4);
    let lost = [&mut half.3, &mut served_lost, &mut whole_lost].map(is_lost);
    assert_eq!(lost, [true, false, false], "who was not served goes first");
    pass(ARRIVAL[1]);
    drop(fourth);
    let _fifth = come(5);
    assert!(!is_lost(&mut served_lost), "there was room");
    let _sixth = come(6);
    assert!(is_lost(&mut served_lost) && !is_lost(&mut whole_lost));
}
