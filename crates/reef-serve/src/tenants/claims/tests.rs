use super::*;
use crate::config::rights::{OverBudget, Right};
use crate::net::identity::principal::Principal;
use crate::tenants::grant::Grant;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn rate(budget: u64, period: u64) -> Rate {
    Rate::new(ms(period), ms(budget)).unwrap()
}

/// Returns a principal that may use real time, and may have a budget of its own.
fn tenant(name: &str, own: Option<Rate>) -> Arc<Tenant> {
    let grant = Grant {
        rt: true,
        phases: true,
        colocate: 0,
        floor: 0,
        rate: own,
        weight: 1,
        control: false,
    };
    Arc::new(Tenant::new(Principal::Token(name.into()), grant, OverBudget::Late, 1))
}

/// Reserves 1 in 10 for best-effort work and grants 2 in 10; a principal may claim half of the
/// rest.
fn config() -> Config {
    let mut config = Config::default();
    config.rt.reserve = 0.1;
    let (period_us, budget_us) = (Some(10_000), Some(2_000));
    let right = Right { rt: true, period_us, budget_us, ..Right::default() };
    config.rights.insert("token granted".into(), right);
    config
}

fn error_text(admitted: Result<Option<Account>>) -> String {
    admitted.unwrap_err().to_string()
}

#[test]
fn parts_of_the_device_sum_exactly() {
    assert_eq!(part(rate(1, 1)), WHOLE);
    assert_eq!(part(rate(1, 3)), WHOLE / 3 + 1, "rounded up");
    let least = Rate::new(Duration::from_secs(3600), Duration::from_nanos(1)).unwrap();
    assert!(part(least) > 0);
    assert_eq!(
        ClaimLimits::of(&config()),
        ClaimLimits { all: 7 * WHOLE / 10, each: 35 * WHOLE / 100 }
    );
    let few = |claimable| {
        let mut config = config();
        config.rt.claimable = claimable;
        ClaimLimits::of(&config).all
    };
    assert_eq!((few(0.5), few(0.9)), (WHOLE / 2, 7 * WHOLE / 10));
    assert_eq!(stated_rate(0, 0), Ok(None));
    assert_eq!(stated_rate(10_000, 2_000), Ok(Some(rate(2, 10))));
    for (period, budget) in [(0, 1), (1, 0), (1, 2), (u64::MAX, 1)] {
        assert!(
            matches!(stated_rate(period, budget), Err(Error::Invalid(_))),
            "{budget} in {period}"
        );
    }
}

#[test]
fn claim_is_refused_once_the_device_is_full() {
    let claims = Claims::new(&config());
    let [a, b, c] = ["a", "b", "c"].map(|name| tenant(name, None));
    let (lives, open): (Vec<_>, Vec<_>) = (0..4).map(|_| ConnectionGuard::new()).unzip();
    let admit = |tenant, life: usize, rate| claims.admit(tenant, &lives[life], rate, ms(0));
    let own = admit(&a, 0, rate(3, 10)).unwrap().expect("an account");
    assert_eq!(own.rate(), Some(rate(3, 10)));
    assert_eq!(
        error_text(admit(&a, 1, rate(1, 10))),
        "a budget of 1ms in 10ms is 10.0 % of the device and must be at most the 5.0 % left of the 35.0 % that token a may claim"
    );
    admit(&b, 2, rate(35, 100)).unwrap();
    assert_eq!(
        error_text(admit(&c, 3, rate(1, 10))),
        "a budget of 1ms in 10ms is 10.0 % of the device and must be at most the 5.0 % left of the 70.0 % that all clients may claim"
    );
    admit(&c, 3, rate(5, 100)).unwrap();
    assert_eq!((a.claims().0, c.claims().0), (0.3, 0.05));
    let again = admit(&a, 0, rate(3, 10)).unwrap().expect("an account");
    assert_eq!(format!("{own:?}"), format!("{again:?}"), "the same, and counted once");
    drop(open);
    claims.report(ms(1));
    claims.report(ms(200));
    assert_eq!((a.claims().0, b.claims().0), (0.0, 0.0), "all have gone");
}

#[test]
fn claims_within_a_granted_budget_are_bounded_by_it() {
    let claims = Claims::new(&config());
    let granted = tenant("granted", Some(rate(2, 10)));
    let (lives, open): (Vec<_>, Vec<_>) = (0..3).map(|_| ConnectionGuard::new()).unzip();
    let admit = |life: usize, rate| claims.admit(&granted, &lives[life], rate, ms(0));
    assert!(admit(0, rate(15, 100)).unwrap().is_none(), "charged to its own account");
    assert_eq!(
        error_text(admit(1, rate(1, 10))),
        "a budget of 1ms in 10ms is 10.0 % of the device and must be at most the 5.0 % left of the 20.0 % that the budget of token granted may claim"
    );
    admit(2, rate(5, 100)).unwrap();
    drop(open);
    admit(1, rate(1, 10)).unwrap_or_else(|e| panic!("{e}"));
}

/// Otherwise a client that reconnects would have a whole budget each time.
#[test]
fn usage_of_a_claim_outlives_its_connection() {
    let claims = Claims::new(&config());
    let tenant = tenant("a", None);
    let admit = |life: &Life, rate, now| claims.admit(&tenant, life, rate, ms(now));
    let (first, open) = ConnectionGuard::new();
    let account = admit(&first, rate(3, 10), 0).unwrap().expect("an account");
    drop(open);
    let (second, open) = ConnectionGuard::new();
    assert!(admit(&second, rate(2, 10), 5).is_err(), "it still holds its part");
    let again = admit(&second, rate(3, 10), 6).unwrap().expect("an account");
    assert_eq!(format!("{account:?}"), format!("{again:?}"), "with what is used of it");
    drop(open);
    let (third, _open) = ConnectionGuard::new();
    assert!(admit(&third, rate(2, 10), 8).is_err(), "gone since now");
    assert!(admit(&third, rate(2, 10), 17).is_err());
    admit(&third, rate(2, 10), 18).unwrap();
    assert_eq!(tenant.claims().0, 0.2);
}

#[test]
fn second_rate_of_a_connection_replaces_the_first() {
    let claims = Claims::new(&config());
    let tenant = tenant("a", None);
    let (life, _open) = ConnectionGuard::new();
    claims.admit(&tenant, &life, rate(1, 10), ms(0)).unwrap();
    let other = claims.admit(&tenant, &life, rate(2, 10), ms(1)).unwrap().expect("an account");
    assert_eq!(other.rate(), Some(rate(2, 10)));
    assert_eq!(tenant.claims().0, 0.3, "until what was used of the first has come back");
    claims.report(ms(2));
    claims.report(ms(12));
    assert_eq!(tenant.claims().0, 0.2);
}

#[test]
fn principal_with_many_rates_leaves_claims_to_others() {
    let claims = Claims::new(&config());
    let [one, other] = ["a", "b"].map(|name| tenant(name, None));
    let [(life, _open), (its, _its)] = [(); 2].map(|()| ConnectionGuard::new());
    let stated = |micros: u64| {
        let period = Duration::from_secs(3600) - Duration::from_micros(micros);
        Rate::new(period, Duration::from_nanos(1)).unwrap()
    };
    let admit = |micros| claims.admit(&one, &life, stated(micros), ms(0));
    let admitted = (0..600).filter(|&micros| admit(micros).is_ok()).count();
    assert_eq!(admitted, MAX_CLAIMS_OF_PRINCIPAL);
    let said = error_text(admit(600));
    assert!(
        said.starts_with("clients with a stated budget of token a must be at most 512"),
        "{said}"
    );
    claims.admit(&other, &its, stated(0), ms(0)).unwrap();
}

#[test]
fn claim_outlives_its_connection_by_a_period() {
    let claims = Claims::new(&config());
    let tenant = tenant("a", None);
    let (life, open) = ConnectionGuard::new();
    let one = Rate::new(Duration::from_secs(3600), ms(1)).unwrap();
    claims.admit(&tenant, &life, one, ms(0)).unwrap();
    drop(open);
    claims.report(ms(5));
    claims.report(ms(5) + MAX_DEBT);
    assert!(tenant.claims().0 > 0.0, "a period is longer here");
    claims.report(ms(5) + Duration::from_secs(3600));
    assert_eq!(tenant.claims().0, 0.0);
}
