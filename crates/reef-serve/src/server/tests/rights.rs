//! Real time is a right, with a budget; what is over goes as the configuration says.

use super::*;
use crate::config::rights::{OverBudget, Right, Rights};
use crate::config::sources::from_sources;
use crate::engine::call::{CallHead, CallSequence};
use crate::kserve::infer::request::InferRequest;
use crate::net::identity::peer::ConnectionGuard;
use crate::net::identity::principal::Principal;

/// A millisecond of the device in each hour.
fn hourly() -> Right {
    let (period_us, budget_us) = (Some(3_600_000_000), Some(1));
    Right { rt: true, period_us, budget_us, ..Right::default() }
}

fn fixture(test: &str, over: OverBudget) -> Fixture {
    Fixture::new(test, |config| {
        config.rt.over = over;
        config.rights = Rights::from([("token camera".into(), hourly())]);
    })
}

impl Fixture {
    fn of(&self, principal: &Principal) -> Arc<Tenant> {
        self.server.tenants.of(principal)
    }

    /// Runs a real-time request of `principal`.
    fn real_time(&self, principal: &Principal) -> Result<Vec<Vec<u8>>> {
        let inference = Inference { tenant: self.of(principal), ..self.inference(1) };
        block_on(self.server.infer(inference))
    }
}

#[test]
fn tenants_without_the_right_get_no_real_time() {
    let fixture = fixture("denied", OverBudget::Late);
    let outsider = fixture.of(&Peer::UNKNOWN.principal);
    let said = outsider.priority(1, None, Class::BestEffort).unwrap_err().to_string();
    assert_eq!(said, "address 0.0.0.0 may not use real time: rights.\"address 0.0.0.0\".rt");
    assert!(outsider.priority(0, Some(Class::RealTime), Class::BestEffort).is_err());
    assert!(
        outsider.priority(2, Some(Class::RealTime), Class::BestEffort).is_ok(),
        "it asks for 2"
    );
    let by_default = outsider.priority(0, None, Class::RealTime).unwrap();
    assert_eq!(by_default.class(), Class::BestEffort, "it has not asked");
    let camera = fixture.of(&Principal::Token("camera".into()));
    assert_eq!(camera.priority(1, None, Class::BestEffort).unwrap().class(), Class::RealTime);
}

/// A refusal ends with a key of the configuration, which grants the right.
#[test]
fn refusal_names_a_key_that_grants_the_right() {
    let fixture = fixture("key", OverBudget::Late);
    let principals = [
        Peer::UNKNOWN.principal,
        Principal::User(7),
        Principal::Loopback(7),
        Principal::Token("ci".into()),
        Principal::Certificate("alice".into()),
    ];
    for principal in principals {
        let refused = fixture.of(&principal).priority(1, None, Class::BestEffort);
        let said = refused.unwrap_err().to_string();
        let key = said.rsplit(": ").next().unwrap().to_owned();
        let config = from_sources(None, [], &[(key, "true".into())]);
        let rights = config.unwrap_or_else(|error| panic!("{said}: {error}")).rights;
        assert!(rights[&principal.keys()[0]].rt, "{said}");
    }
}

#[test]
fn requests_over_a_budget_are_late_best_effort_or_refused() {
    let camera = Principal::Token("camera".into());
    for (over, name) in [
        (OverBudget::Late, "late"),
        (OverBudget::BestEffort, "best-effort"),
        (OverBudget::Refused, "refused"),
    ] {
        let fixture = fixture(&format!("over-{name}"), over);
        fixture.real_time(&camera).expect("its budget is whole");
        let second = fixture.real_time(&camera);
        assert_eq!(second.is_ok(), over != OverBudget::Refused, "{second:?}");
        let tenant = fixture.of(&camera);
        assert_eq!(tenant.served()[1].is_zero(), over != OverBudget::BestEffort);
        let counted = tenant.over().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        assert_eq!(counted, [(name, 1)]);
        let text = fixture.server.metrics_now();
        for line in [
            format!("reef_client_over_total{{client=\"token camera\",outcome=\"{name}\"}} 1"),
            "reef_client_period_seconds{client=\"token camera\"} 3600.0".into(),
            "reef_client_weight{client=\"token camera\"} 1".into(),
            "reef_rt_reserve 0.05".into(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}

/// As best-effort, another process than that with its state would run it.
#[test]
fn sequence_of_a_process_over_budget_is_refused() {
    let camera = Principal::Token("camera".into());
    let fixture = fixture("over-sequence", OverBudget::BestEffort);
    fixture.real_time(&camera).expect("its budget is whole");
    let sequence =
        CallSequence { number: 1, starts: true, ends: false, process: None, cell: Arc::default() };
    let call = CallHead {
        id: String::new(),
        inputs: Vec::new(),
        sizes: Arc::default(),
        parts: None,
        sequence: Some(sequence),
    };
    let tenant = fixture.of(&camera);
    let inference = Inference { tenant, call: Some(call), ..fixture.inference(1) };
    let said = block_on(fixture.server.infer(inference)).unwrap_err().to_string();
    assert!(said.starts_with("token camera has used up its budget of "), "{said}");
}

/// The part of the device that has been granted to no principal.
fn stated(config: &mut Config) {
    config.rights.insert("others".into(), Right { rt: true, ..Right::default() });
    config.rt.claimable = 0.5;
    config.limits.principal_percent = 100;
}

#[test]
fn unfit_stated_budgets_are_late_best_effort_or_refused() {
    for (unfit, name) in
        [(OverBudget::Late, "late"), (OverBudget::BestEffort, "be"), (OverBudget::Refused, "no")]
    {
        let fixture = Fixture::new(&format!("unfit-{name}"), |config| {
            stated(config);
            config.rt.unfit = unfit;
        });
        let (life, _open) = ConnectionGuard::new();
        let peer = Peer { life, ..Peer::UNKNOWN };
        let tenant = fixture.of(&peer.principal);
        let served = || {
            // Charges the claims.
            fixture.server.tenants.all([fixture.server.nodes[0].clock()].into_iter());
            tenant.served()
        };
        let ask = |period, budget, priority| {
            let ask = InferRequest { rate_us: (period, budget), priority, ..fixture.ask() };
            block_on(fixture.server.answer(&peer, ask)).map(drop)
        };
        ask(1_000_000, 400_000, 1).unwrap();
        let before = served();
        assert!(!before[0].is_zero() && tenant.claims() == (0.4, 0));
        let other = Peer { life: ConnectionGuard::new().0, ..peer.clone() };
        let too_much = InferRequest { rate_us: (10, 2), priority: 1, ..fixture.ask() };
        let said = block_on(fixture.server.answer(&other, too_much)).map(drop);
        assert_eq!(said.is_ok(), unfit != OverBudget::Refused, "{said:?}");
        assert_eq!(served()[0] > before[0], unfit == OverBudget::Late, "{name}");
        assert_eq!(served()[1] > before[1], unfit == OverBudget::BestEffort, "{name}");
        assert_eq!(tenant.claims(), (0.4, 1));
        let text = fixture.server.metrics_now();
        for line in [
            "reef_client_claimed{client=\"address 0.0.0.0\"} 0.4",
            "reef_client_unfit_total{client=\"address 0.0.0.0\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(matches!(ask(10, 0, 1), Err(Error::Invalid(_))), "half of one");
        let said = ask(10, 1, 2).unwrap_err().to_string();
        assert_eq!(said, "a budget of 1µs in 10µs must be for real-time requests, got best-effort");
    }
}

/// A stated budget is used up as a granted one is.
#[test]
fn requests_over_a_stated_budget_follow_the_configuration() {
    let fixture = Fixture::new("stated-over", |config| {
        stated(config);
        config.rt.over = OverBudget::Refused;
    });
    let (life, _open) = ConnectionGuard::new();
    let peer = Peer { life, ..Peer::UNKNOWN };
    let ask = || {
        let ask = InferRequest { rate_us: (3_600_000_000, 1), priority: 1, ..fixture.ask() };
        block_on(fixture.server.answer(&peer, ask)).map(drop)
    };
    ask().expect("its budget is whole");
    let said = ask().unwrap_err().to_string();
    assert_eq!(said, "address 0.0.0.0 has used up its budget of 1µs in 3600s");
}

#[test]
fn device_time_is_booked_to_who_asked() {
    let fixture = fixture("booked", OverBudget::Late);
    let (owner, camera) = (Principal::User(0), Principal::Token("camera".into()));
    fixture.real_time(&camera).unwrap();
    let served = |principal| fixture.of(principal).served();
    assert!(!served(&camera)[0].is_zero() && served(&camera)[1].is_zero());
    assert_eq!(served(&owner), [Duration::ZERO; 2]);
}

/// A second one that waits for the first, which is long, is abandoned when its time is over.
#[test]
fn a_late_real_time_request_is_cancelled_where_it_waits() {
    let fixture = fixture("late", OverBudget::Late);
    let model = fixture.server.registry.get("tiny", "").unwrap();
    let mut instance = model.base.instance(Class::RealTime, reef::ClientConfig::default()).unwrap();
    let account = &reef::Account::new(None);
    let time = Duration::from_nanos(1);
    let run = crate::engine::api::Run {
        slot: None,
        shared: Default::default(),
        time,
        gone: &|| false,
        account,
        notice: None,
    };
    let said = instance.run(run);
    assert!(matches!(said, Err(Error::Deadline(_))), "{said:?}");
    let run = crate::engine::api::Run { time: Duration::from_secs(60), ..run };
    assert!(instance.run(run).is_ok(), "the instance is as it was");
}
