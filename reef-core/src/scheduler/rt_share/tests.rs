//! Clients on a device that is simulated in steps of 0.1 ms.

use super::*;
use crate::dispatch::queues::account::Account;
use crate::limits::Rate;
use crate::scheduler::Reef;
use crate::scheduler::policy::tests::{decide, ms, queue};

const STEP: Duration = Duration::from_micros(100);

/// A real-time client: each of its tasks takes `length` of the device.
struct Client {
    length: Duration,
    /// It submits a task this often; `None`: whenever the one before has ended.
    every: Option<Duration>,
    account: Account,
    waits: Option<Duration>,
    next: Duration,
    delays: Vec<Duration>,
}

impl Client {
    fn new(id: u64, length: u64, every: Option<u64>, rate: Option<(u64, u64)>) -> Self {
        let rate = rate.map(|(budget, period)| Rate::new(ms(period), ms(budget)).unwrap());
        Self {
            length: ms(length),
            every: every.map(ms),
            account: Account::new(rate),
            waits: None,
            next: STEP * id as u32,
            delays: Vec::new(),
        }
    }

    fn greedy(id: u64, length: u64) -> Self {
        Self::new(id, length, None, None)
    }

    fn submit(&mut self, now: Duration) {
        if self.waits.is_none() && now >= self.next {
            self.waits = Some(now);
            self.next = self.every.map_or(Duration::MAX, |every| self.next + every);
        }
    }

    fn view(&self, now: Duration) -> Option<RtTaskView> {
        Some(RtTaskView {
            account: self.account.id(),
            in_budget: self.account.is_in_budget(now),
            served: self.account.usage().served,
            ..RtTaskView::new(self.waits?)
        })
    }

    fn start(&mut self, now: Duration) {
        self.delays.push(now - self.waits.take().expect("it waits"));
    }

    fn end(&mut self, now: Duration) {
        self.account.charge(now - self.length, now);
        if self.every.is_none() {
            self.next = now;
        }
    }

    fn share(&self, of: Duration) -> f64 {
        self.account.usage().served.as_secs_f64() / of.as_secs_f64()
    }
}

/// Runs the clients for a time, with best-effort work if `be(now)`; returns how long that ran.
fn simulate(
    scheduler: &mut dyn Scheduler,
    clients: &mut [Client],
    be: impl Fn(Duration) -> bool,
    time: Duration,
) -> Duration {
    simulate_with(false, scheduler, clients, be, time)
}

/// As [`simulate`]; with `caps`, best-effort work runs capped instead of not at all.
fn simulate_with(
    caps: bool,
    scheduler: &mut dyn Scheduler,
    clients: &mut [Client],
    be: impl Fn(Duration) -> bool,
    time: Duration,
) -> Duration {
    let (mut now, mut ran) = (Duration::ZERO, Duration::ZERO);
    let mut running: Option<(usize, Duration)> = None;
    let mut preempted = false;
    while now < time {
        if let Some((at, _)) = running.take_if(|(_, end)| *end <= now) {
            clients[at].end(now);
        }
        clients.iter_mut().for_each(|client| client.submit(now));
        let views = clients.iter().enumerate().filter_map(|(at, c)| Some((at, c.view(now)?)));
        let (at, tasks): (Vec<_>, Vec<_>) = views.unzip();
        let queues = [queue(0, 0, u64::from(be(now)))];
        let rt_running = usize::from(running.is_some());
        let capped = caps && preempted;
        let view = View { preempted, capped, ..View::new(&tasks, rt_running, &queues) };
        let plan = decide(scheduler, now, &view);
        assert!(rt_running + plan.start.len() <= 1, "one at a time");
        for &start in &plan.start {
            let client = &mut clients[at[start]];
            client.start(now);
            running = Some((at[start], now + client.length));
        }
        preempted = plan.preempt;
        if !preempted && running.is_none() && be(now) {
            ran += STEP;
        }
        now += STEP;
    }
    ran
}

fn share(reserve: f64) -> RtShare {
    RtShare::new(Box::new(Reef::default()), reserve)
}

#[test]
fn best_effort_work_keeps_its_reserve_next_to_a_greedy_client() {
    for (reserve, length) in [(0.05, 3), (0.1, 1), (0.1, 40), (0.25, 150), (0.5, 7)] {
        let time = ms(20_000);
        let ran = simulate(&mut share(reserve), &mut [Client::greedy(1, length)], |_| true, time);
        let kept = ran.as_secs_f64() / time.as_secs_f64();
        assert!(
            (reserve * 0.97..reserve * 1.1 + 0.01).contains(&kept),
            "{reserve}, {length} ms: {kept}"
        );
    }
}

#[test]
fn intermittent_best_effort_work_keeps_its_reserve() {
    let time = ms(20_000);
    // Away for 0.1 ms every 2 ms.
    let blinks = |now: Duration| !now.as_micros().is_multiple_of(2_000);
    let ran = simulate(&mut share(0.1), &mut [Client::greedy(1, 50)], blinks, time);
    assert!(ran.as_secs_f64() / time.as_secs_f64() >= 0.09, "{ran:?}");
}

#[test]
fn capped_best_effort_work_is_owed_nothing() {
    let (time, mut clients) = (ms(5_000), [Client::greedy(1, 3)]);
    simulate_with(true, &mut share(0.1), &mut clients, |_| true, time);
    assert!(clients[0].share(time) > 0.99, "{}", clients[0].share(time));
}

/// An hour in which a budget covers all tasks; then another client asks.
#[test]
fn debt_of_an_hour_is_paid_back_within_a_second() {
    for reserve in [0.05, 0.3, 0.5] {
        let (mut share, queues) = (share(reserve), [queue(0, 0, 1)]);
        let covered = [RtTaskView { in_budget: true, ..RtTaskView::new(ms(0)) }];
        let hour = (0..36_000).map(|step| ms(step * 100));
        hour.for_each(|now| drop(decide(&mut share, now, &View::new(&covered, 0, &queues))));
        let begin = ms(3_600_000);
        let other = [RtTaskView { account: 1, ..RtTaskView::new(begin) }];
        let starts = |now: &Duration| {
            !decide(&mut share, *now, &View::new(&other, 0, &queues)).start.is_empty()
        };
        let started = (0..300_000).map(|step| begin + ms(step)).find(starts);
        let waited = started.expect("it starts in the end") - begin;
        let most = MAX_KEPT_OFF.mul_f64(reserve / (1.0 - reserve)) + ms(2);
        assert!(waited > ms(10) && waited <= most, "reserve {reserve}: {waited:?}");
    }
}

#[test]
fn real_time_clients_are_not_held_without_best_effort_work() {
    let time = ms(5_000);
    let mut clients = [Client::greedy(1, 3)];
    simulate(&mut share(0.25), &mut clients, |now| now < ms(1_000), time);
    let late = clients[0].delays.iter().rev().take(1_000).max();
    assert_eq!(late, Some(&Duration::ZERO));
}

#[test]
fn client_within_its_budget_waits_for_at_most_one_task() {
    for greedy in [None, Some((20, 100))] {
        let mut clients = [
            Client::new(1, 30, None, greedy),
            Client::new(2, 30, None, greedy),
            Client::new(3, 2, Some(40), Some((4, 40))),
        ];
        simulate(&mut share(0.1), &mut clients, |_| true, ms(20_000));
        let worst = clients[2].delays[1..].iter().max().unwrap(); // all are new at first
        assert!(*worst <= ms(30), "{greedy:?}: waited {worst:?}");
        assert_eq!(clients[2].delays.len(), 500, "none was left out");
    }
}

#[test]
fn paced_client_without_budget_waits_for_one_task_and_reserve() {
    let mut clients =
        [Client::greedy(1, 30), Client::greedy(2, 30), Client::new(3, 2, Some(200), None)];
    simulate(&mut share(0.05), &mut clients, |_| true, ms(20_000));
    let worst = clients[2].delays[1..].iter().max().unwrap(); // all are new at first
    assert!(*worst <= ms(30 + 7), "waited {worst:?}");
}

#[test]
fn greedy_clients_share_the_device_by_time() {
    let time = ms(10_000);
    let mut clients = [Client::greedy(1, 1), Client::greedy(2, 20)];
    simulate(&mut share(0.0), &mut clients, |_| true, time);
    let shares = clients.each_ref().map(|client| client.share(time));
    // A closed loop is away when the next is chosen, so the short one runs every other turn.
    assert!(shares[0] > 0.04 && shares[1] > 0.4, "{shares:?}");
}

#[test]
fn client_over_its_budget_yields() {
    let time = ms(10_000);
    let mut clients =
        [Client::new(1, 5, None, Some((5, 50))), Client::new(2, 5, None, Some((25, 50)))];
    simulate(&mut share(0.0), &mut clients, |_| true, time);
    assert!(clients[1].share(time) >= 0.49, "{}", clients[1].share(time));
    assert!(clients[0].account.usage().late > 0, "it has what is left");
}
