use super::*;
use crate::class::Class;
use crate::residency::facts::{Facts, ProcessName, budget_of};
use crate::suspend::suspensions::Suspender;

const GPU: Uuid = [7; 16];
const MIB: u64 = 1 << 20;
/// Memory of the device, in MiB.
const ALL: u64 = 1024;
const IDLE: Duration = Duration::from_secs(30);

/// A device with processes, whose steps take no time.
struct Machine {
    table: Table,
    now: Instant,
    /// Process number and MiB of each, by its number in the table.
    sizes: BTreeMap<Id, u64>,
    resident: BTreeSet<Id>,
}

impl Machine {
    fn new() -> Self {
        let (table, sizes, resident) = Default::default();
        Self { table, now: Instant::now(), sizes, resident }
    }

    fn facts(class: Class, limit: u64) -> Facts {
        let name = ProcessName {
            model: "m".into(),
            version: 1,
            class,
            instance: 0,
            device: "cuda:0".into(),
        };
        Facts { name, title: "m/1".into(), idle: IDLE, limit, device: None }
    }

    /// Adds a process that is resident with this number of MiB.
    fn add_resident(&mut self, class: Class, mib: u64) -> Id {
        let id = self.table.add(Self::facts(class, 0), self.now);
        self.table.note_start(id, id as u32, self.now);
        self.table.note_bytes(target(id), vec![(GPU, mib * MIB)]);
        self.sizes.insert(id, mib);
        self.resident.insert(id);
        id
    }

    /// Adds a process that is away.
    fn add_away(&mut self, class: Class, mib: u64) -> Id {
        let id = self.add_resident(class, mib);
        self.table.begin_leave(id).unwrap();
        self.note_left(id);
        id
    }

    fn note_left(&mut self, id: Id) {
        self.resident.remove(&id);
        assert!(self.table.note_leave(
            target(id),
            Some(vec![(GPU, self.sizes[&id] * MIB)]),
            self.now
        ));
    }

    fn note_back(&mut self, id: Id) {
        self.resident.insert(id);
        self.table.note_return(target(id), Some(IDLE), self.now);
    }

    fn free(&self) -> u64 {
        ALL - self.resident.iter().map(|id| self.sizes[id]).sum::<u64>()
    }

    fn next(&mut self) -> Step {
        let free = FreeBytes::from([(GPU, Some(self.free() * MIB))]);
        self.table.next(self.now, &free)
    }

    /// Makes all steps until there is nothing to do.
    fn run(&mut self) {
        for _ in 0..100 {
            match self.next() {
                Step::Leave(Target { id, .. }) => self.note_left(id),
                Step::Return(Target { id, .. }) => self.note_back(id),
                Step::Turnover { leaver, returner } => {
                    self.note_back(returner.id);
                    self.note_left(leaver.id);
                }
                Step::Admit | Step::Measure => {}
                Step::Sleep(_) => return,
            }
        }
        panic!("it never rests: {:?}", self.table);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Has a request use a process that is there, and ends it.
    fn answer(&mut self, id: Id) {
        assert!(self.table.try_use(id), "it is there");
        self.table.end_use(id, self.now);
    }
}

fn target(id: Id) -> Target {
    Target { id, pid: id as u32 }
}

#[test]
fn idle_process_leaves_and_a_used_one_stays() {
    let mut machine = Machine::new();
    let [one, other] = [300, 300].map(|mib| machine.add_resident(Class::BestEffort, mib));
    assert_eq!(machine.next(), Step::Sleep(Some(IDLE)));
    assert!(machine.table.try_use(other));
    machine.pass(29);
    assert_eq!(machine.next(), Step::Sleep(Some(Duration::from_secs(1))));
    machine.pass(1);
    assert_eq!(machine.next(), Step::Leave(target(one)));
    machine.note_left(one);
    machine.pass(3600);
    assert_eq!(machine.next(), Step::Sleep(None), "a request runs");
    machine.table.end_use(other, machine.now);
    assert_eq!(machine.next(), Step::Sleep(Some(IDLE)), "its time begins anew");
}

#[test]
fn process_returns_for_a_request_if_there_is_room() {
    let mut machine = Machine::new();
    let id = machine.add_away(Class::BestEffort, 300);
    assert!(!machine.table.try_use(id));
    assert_eq!(machine.table.next(machine.now, &FreeBytes::new()), Step::Measure);
    assert_eq!(machine.next(), Step::Return(target(id)));
    assert!(!machine.table.try_use(id), "it is on its way");
    machine.table.note_return(target(id), Some(IDLE), machine.now);
    assert!(machine.table.try_use(id));
    let all = machine.table.all();
    assert_eq!(
        (all[0].state, all[0].returns, all[0].bytes),
        (ResidencyState::Resident, 1, Some(300 * MIB))
    );
}

#[test]
fn least_valuable_process_leaves_for_a_return() {
    let mut machine = Machine::new();
    let wanted = machine.add_away(Class::BestEffort, 300);
    let best_effort = machine.add_resident(Class::BestEffort, 200);
    let real_time = machine.add_resident(Class::RealTime, 500);
    machine.pass(5);
    assert!(!machine.table.try_use(wanted));
    machine.run();
    // 300 MiB, and 512 to spare: both leave, the real-time one because it has rested.
    assert_eq!(machine.resident, BTreeSet::from([wanted]));
    let places = [best_effort, real_time].map(|id| machine.table.state_of(id));
    assert_eq!(places, [ResidencyState::Away; 2]);
}

#[test]
fn process_returns_while_the_last_one_leaves() {
    let mut machine = Machine::new();
    let wanted = machine.add_away(Class::BestEffort, 400);
    let [first, last] = [100, 400].map(|mib| {
        machine.pass(1);
        machine.add_resident(Class::BestEffort, mib)
    });
    assert!(!machine.table.try_use(wanted));
    // 524 MiB are free, and 912 needed: 100 more are too few, and then 400 are enough.
    assert_eq!(machine.next(), Step::Leave(target(first)));
    machine.note_left(first);
    let both = Step::Turnover { leaver: target(last), returner: target(wanted) };
    assert_eq!(machine.next(), both);
    let states = [wanted, last].map(|id| machine.table.state_of(id));
    assert_eq!(states, [ResidencyState::Returning, ResidencyState::Leaving]);
    assert!(!machine.table.try_use(last), "a request for it waits for its own turn");
    machine.note_back(wanted);
    machine.answer(wanted); // before the other one has left
    machine.note_left(last);
    let both = Step::Turnover { leaver: target(wanted), returner: target(last) };
    assert_eq!(machine.next(), both);
}

#[test]
fn start_begins_after_the_departures() {
    let mut machine = Machine::new();
    let other = machine.add_resident(Class::BestEffort, 600);
    let limited = machine.table.add(Machine::facts(Class::BestEffort, 300 * MIB), machine.now);
    machine.table.begin_start(limited);
    assert_eq!(machine.next(), Step::Leave(target(other)));
}

#[test]
fn return_waits_for_another_process_if_one_stays() {
    let mut machine = Machine::new();
    let wanted = machine.add_away(Class::BestEffort, 300);
    let [first, second] = [0, 1].map(|_| {
        machine.pass(1);
        machine.add_resident(Class::BestEffort, 200)
    });
    assert!(!machine.table.try_use(wanted));
    for round in 0..10 {
        machine.pass(round);
        for id in [first, second] {
            if machine.next() != (Step::Turnover { leaver: target(id), returner: target(wanted) }) {
                continue; // it has refused less than 30 s ago
            }
            machine.table.note_leave(target(id), None, machine.now);
            machine.table.note_no_room(target(wanted));
            assert_eq!(machine.table.state_of(wanted), ResidencyState::Away);
        }
    }
    assert!(!machine.table.is_lost(wanted), "it is not its failure");
    assert!(matches!(machine.next(), Step::Sleep(Some(_))), "both refused just now");
    machine.pass(60);
    machine.run();
    assert_eq!(machine.table.state_of(wanted), ResidencyState::Resident);
}

#[test]
fn busy_process_leaves_after_its_request_alone() {
    let mut machine = Machine::new();
    let busy = machine.add_resident(Class::BestEffort, 400);
    let wanted = machine.add_away(Class::BestEffort, 400);
    assert!(machine.table.try_use(busy));
    assert!(!machine.table.try_use(wanted));
    machine.run();
    assert_eq!(machine.table.state_of(busy), ResidencyState::Resident);
    machine.table.end_use(busy, machine.now);
    assert!(!machine.table.try_use(busy), "the other one has waited for longer");
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([wanted]), "and stays until it has answered");
    machine.answer(wanted);
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([busy]));
    machine.answer(busy);
}

/// Requests for three processes, one of which has room at a time.
#[test]
fn turns_are_taken_in_their_order() {
    let mut machine = Machine::new();
    let ids = [0, 1, 2].map(|_| machine.add_away(Class::BestEffort, 400));
    let [first, second, third] = ids;
    for round in 0..5 {
        for id in [second, third, first] {
            assert!(!machine.table.try_use(id), "round {round}");
        }
        for id in [second, third, first] {
            machine.run();
            assert_eq!(machine.resident, BTreeSet::from([id]), "round {round}");
            machine.run();
            assert_eq!(machine.resident, BTreeSet::from([id]), "its request has not run");
            machine.answer(id);
        }
        machine.pass(60);
        machine.run();
    }
}

/// Else a real-time request would wait for the answer of a best-effort model that came before.
#[test]
fn real_time_process_has_room_before_best_effort_ones() {
    let mut machine = Machine::new();
    let busy = machine.add_resident(Class::BestEffort, 400);
    let [best_effort, real_time] =
        [Class::BestEffort, Class::RealTime].map(|class| machine.add_away(class, 400));
    assert!(machine.table.try_use(busy));
    for id in [best_effort, real_time] {
        assert!(!machine.table.try_use(id));
    }
    machine.run();
    machine.table.end_use(busy, machine.now);
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([real_time]));
    machine.answer(real_time);
    machine.pass(1);
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([best_effort]), "after a second's rest");
}

#[test]
fn return_without_a_request_gives_its_room_to_others() {
    let mut machine = Machine::new();
    let [one, other] = [0, 1].map(|_| machine.add_away(Class::BestEffort, 400));
    assert!(!machine.table.try_use(one));
    assert_eq!(machine.next(), Step::Return(target(one)));
    machine.table.end_wait(one); // its time was over
    machine.table.note_return(target(one), Some(IDLE), machine.now);
    machine.resident.insert(one);
    assert!(!machine.table.try_use(other));
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([other]));
}

#[test]
fn best_effort_process_waits_for_a_busy_real_time_one() {
    let mut machine = Machine::new();
    let real_time = machine.add_resident(Class::RealTime, 400);
    let [best_effort, urgent] =
        [Class::BestEffort, Class::RealTime].map(|class| machine.add_away(class, 400));
    assert!(!machine.table.try_use(best_effort));
    machine.run();
    machine.answer(real_time); // it does not yield between two requests
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([real_time]));
    machine.table.end_wait(best_effort);
    assert!(!machine.table.try_use(urgent));
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([urgent]), "it yields to its own class");
    machine.answer(urgent);
    machine.pass(1);
    assert!(!machine.table.try_use(best_effort));
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([best_effort]), "after a second's rest");
}

#[test]
fn process_that_waits_for_a_real_time_one_delays_no_other() {
    let mut machine = Machine::new();
    let real_time = machine.add_resident(Class::RealTime, 400);
    let [large, small] = [400, 100].map(|mib| machine.add_away(Class::BestEffort, mib));
    assert!(machine.table.try_use(real_time));
    assert!(!machine.table.try_use(large) && !machine.table.try_use(small));
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([real_time, small]), "it fits");
    machine.answer(small);
    machine.table.end_use(real_time, machine.now);
    machine.run();
    assert!(machine.resident.contains(&real_time), "it has not rested");
    machine.pass(1);
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([large]));
}

#[test]
fn process_that_can_never_fit_delays_no_other() {
    let mut machine = Machine::new();
    let [huge, small] = [900, 100].map(|mib| machine.add_away(Class::BestEffort, mib));
    assert!(!machine.table.try_use(huge));
    assert!(!machine.table.try_use(small));
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([small]));
}

#[test]
fn refused_departure_is_tried_again_and_logged_once() {
    let mut machine = Machine::new();
    let id = machine.add_resident(Class::BestEffort, 300);
    let logged: Vec<bool> = (0..3)
        .map(|_| {
            machine.pass(30);
            assert_eq!(machine.next(), Step::Leave(target(id)));
            let is_logged = machine.table.note_leave(target(id), None, machine.now);
            assert_eq!(machine.next(), Step::Sleep(Some(IDLE)));
            is_logged
        })
        .collect();
    assert_eq!(logged, [true, false, false]);
    machine.answer(id);
}

/// As a program that has more and longer requests than at its start.
#[test]
fn process_that_has_grown_leaves_for_another_one() {
    let mut machine = Machine::new();
    let grown = machine.add_resident(Class::BestEffort, 100);
    let wanted = machine.add_away(Class::BestEffort, 400);
    machine.sizes.insert(grown, 800);
    assert!(!machine.table.try_use(wanted));
    assert!(machine.table.questions().1.is_empty(), "all sizes are known");
    assert!(matches!(machine.next(), Step::Sleep(_)), "100 MiB are too few");
    assert_eq!(machine.table.questions().1, [(target(grown), None)]);
    assert!(matches!(machine.next(), Step::Sleep(_)));
    assert!(machine.table.questions().1.is_empty(), "not again at once");
    machine.pass(1);
    assert!(matches!(machine.next(), Step::Sleep(_)));
    assert_eq!(machine.table.questions().1, [(target(grown), None)]);
    machine.table.note_suspender(grown, Some(Suspender::Operator), machine.now);
    assert!(machine.table.questions().1.is_empty(), "its return needs what it had");
    machine.table.note_suspender(grown, None, machine.now);
    machine.table.note_bytes(target(grown), vec![(GPU, 800 * MIB)]);
    let both = Step::Turnover { leaver: target(grown), returner: target(wanted) };
    assert_eq!(machine.next(), both);
}

#[test]
fn next_try_of_a_departure_is_at_most_half_a_minute_away() {
    let [short, long] = [1, 3_600_000].map(Duration::from_millis);
    for (idle, pause) in [(short, 500), (IDLE, 30_000), (long, 30_000)] {
        let mut machine = Machine::new();
        let facts = Facts { idle, ..Machine::facts(Class::BestEffort, 0) };
        let id = machine.table.add(facts, machine.now);
        machine.table.note_start(id, id as u32, machine.now);
        machine.now += idle;
        assert_eq!(machine.next(), Step::Leave(target(id)), "{idle:?}");
        assert!(machine.table.note_leave(target(id), None, machine.now));
        let pause = Duration::from_millis(pause);
        assert_eq!(machine.next(), Step::Sleep(Some(pause)), "{idle:?}");
    }
}

#[test]
fn failed_return_is_tried_again_until_the_process_is_lost() {
    let mut machine = Machine::new();
    let id = machine.add_away(Class::BestEffort, 300);
    assert!(!machine.table.try_use(id));
    for _ in 0..5 {
        assert!(!machine.table.is_lost(id));
        assert_eq!(machine.next(), Step::Return(target(id)));
        machine.table.note_return(target(id), None, machine.now);
        assert!(matches!(machine.next(), Step::Sleep(Some(_))), "after a pause");
        machine.pass(1);
    }
    assert!(machine.table.is_lost(id));
}

#[test]
fn process_that_ends_while_it_is_away_starts_again() {
    let mut machine = Machine::new();
    let id = machine.add_away(Class::BestEffort, 400);
    let other = machine.add_resident(Class::BestEffort, 400);
    assert!(!machine.table.try_use(id));
    machine.table.note_end(id);
    assert!(machine.table.try_use(id), "its request waits for the next process");
    machine.table.begin_start(id);
    assert!(!machine.table.may_start(id));
    machine.run();
    assert!(machine.table.may_start(id), "it has the room of the one before");
    assert_eq!(machine.table.state_of(other), ResidencyState::Away);
    machine.table.note_start(id, 99, machine.now);
    // The end of a step for the process before.
    machine.table.note_return(target(id), None, machine.now);
    assert_eq!(
        (machine.table.state_of(id), machine.table.is_lost(id)),
        (ResidencyState::Resident, false)
    );
}

#[test]
fn first_start_has_the_room_of_its_limit() {
    let mut machine = Machine::new();
    let other = machine.add_resident(Class::BestEffort, 600);
    let free = machine.table.add(Machine::facts(Class::BestEffort, 0), machine.now);
    machine.table.begin_start(free);
    machine.run();
    assert!(machine.table.may_start(free), "without a limit nothing is known");
    machine.table.note_end(free);
    let limited = machine.table.add(Machine::facts(Class::BestEffort, 300 * MIB), machine.now);
    machine.table.begin_start(limited);
    machine.run();
    assert!(machine.table.may_start(limited));
    assert_eq!(machine.table.state_of(other), ResidencyState::Away);
    // Its memory is reserved while it starts.
    assert!(!machine.table.try_use(other));
    machine.run();
    assert_eq!(machine.table.state_of(other), ResidencyState::Away);
}

#[test]
fn process_that_an_operator_suspended_is_left_alone() {
    let mut machine = Machine::new();
    let id = machine.add_resident(Class::BestEffort, 300);
    machine.table.note_suspender(id, Some(Suspender::Operator), machine.now);
    machine.pass(3600);
    assert_eq!(machine.next(), Step::Sleep(None));
    machine.table.note_suspender(id, None, machine.now);
    assert_eq!(machine.next(), Step::Leave(target(id)));
    machine.note_left(id);
    machine.table.note_suspender(id, Some(Suspender::Idle), machine.now);
    assert_eq!(machine.table.state_of(id), ResidencyState::Away);
    machine.table.note_suspender(id, None, machine.now);
    assert_eq!(
        machine.table.state_of(id),
        ResidencyState::Resident,
        "an operator has brought it back"
    );
}

#[test]
fn network_leaves_after_the_last_of_its_requests() {
    let mut machine = Machine::new();
    let id = machine.add_resident(Class::BestEffort, 300);
    assert!(machine.table.try_use(id) && machine.table.try_use(id), "two at a time");
    machine.table.end_use(id, machine.now);
    machine.pass(3600);
    assert_eq!(machine.next(), Step::Sleep(None), "the other one runs");
    machine.table.end_use(id, machine.now);
    machine.pass(30);
    assert_eq!(machine.next(), Step::Leave(target(id)));
}

#[test]
fn network_that_a_client_keeps_is_used_by_others() {
    let mut machine = Machine::new();
    let kept = machine.add_resident(Class::BestEffort, 400);
    let [large, small] = [400, 100].map(|mib| machine.add_away(Class::BestEffort, mib));
    assert!(machine.table.try_use(kept));
    machine.table.begin_keep(kept);
    assert!(!machine.table.try_use(large) && !machine.table.try_use(small));
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([kept, small]), "what fits does not wait");
    machine.answer(kept);
    machine.answer(small);
    machine.table.end_keep(kept);
    machine.table.end_use(kept, machine.now);
    machine.run();
    assert!(machine.resident.contains(&large), "the client has gone");
}

#[test]
fn network_is_real_time_while_it_serves_such_requests() {
    let mut machine = Machine::new();
    let network = machine.add_resident(Class::BestEffort, 400);
    let wanted = machine.add_away(Class::BestEffort, 400);
    machine.table.begin_real_time(network);
    machine.answer(network);
    machine.table.end_real_time(network, machine.now);
    assert!(!machine.table.try_use(wanted));
    machine.run();
    assert_eq!(machine.table.state_of(network), ResidencyState::Resident, "it has not rested");
    machine.pass(1);
    machine.run();
    assert_eq!(machine.resident, BTreeSet::from([wanted]));
}

#[test]
fn one_of_several_waiting_requests_keeps_the_turn() {
    let mut machine = Machine::new();
    let id = machine.add_away(Class::BestEffort, 300);
    for _ in 0..2 {
        assert!(!machine.table.try_use(id));
        machine.table.begin_wait(id);
    }
    machine.table.note_waited(id);
    machine.table.end_wait(id); // the time of one is over
    assert_eq!(machine.next(), Step::Return(target(id)), "the other one waits");
    machine.table.note_return(target(id), Some(IDLE), machine.now);
    assert!(machine.table.try_use(id));
    machine.table.note_waited(id);
    machine.answer(id);
    assert_eq!(machine.next(), Step::Sleep(None), "it is in use");
}

#[test]
fn network_returns_after_a_process_has_left() {
    let mut machine = Machine::new();
    let network = machine.add_away(Class::BestEffort, 400);
    let bytes = 400 * MIB;
    machine.table.note_needs(network, vec![(GPU, bytes), (budget_of(0), bytes)]);
    let process = machine.add_resident(Class::BestEffort, 400);
    let next = |machine: &mut Machine| {
        let gpu = Some(machine.free() * MIB);
        machine.table.next(machine.now, &FreeBytes::from([(GPU, gpu), (budget_of(0), None)]))
    };
    assert!(!machine.table.try_use(network));
    assert_eq!(next(&mut machine), Step::Leave(target(process)));
    machine.note_left(process);
    assert_eq!(next(&mut machine), Step::Return(target(network)), "its room is measured");
}

#[test]
fn process_of_unknown_size_does_not_leave_for_a_budget() {
    let mut machine = Machine::new();
    let network = machine.add_away(Class::BestEffort, 100);
    machine.table.note_needs(network, vec![(budget_of(0), 100 * MIB)]);
    let process = machine.add_resident(Class::BestEffort, 100);
    machine.table.note_needs(process, Held::new());
    assert!(!machine.table.try_use(network));
    let free = FreeBytes::from([(budget_of(0), Some(MARGIN))]);
    assert!(matches!(machine.table.next(machine.now, &free), Step::Sleep(_)));
    assert_eq!(machine.table.state_of(process), ResidencyState::Resident);
}

/// As on the CPU device, where a network has nothing but its budget.
#[test]
fn start_of_a_process_needs_no_memory_of_a_budget() {
    let mut machine = Machine::new();
    let network = machine.add_resident(Class::BestEffort, 100);
    machine.table.note_needs(network, vec![(budget_of(0), 100 * MIB)]);
    let limited = machine.table.add(Machine::facts(Class::BestEffort, 300 * MIB), machine.now);
    machine.table.begin_start(limited);
    assert_eq!(machine.table.questions().0, BTreeSet::new());
    assert_eq!(machine.next(), Step::Admit);
}

#[test]
fn bytes_of_a_budget_are_not_counted_twice() {
    let mut machine = Machine::new();
    let id = machine.add_resident(Class::BestEffort, 1);
    machine.table.note_needs(id, vec![(GPU, 5), (budget_of(0), 5)]);
    assert_eq!(machine.table.all()[0].bytes, Some(5));
}
