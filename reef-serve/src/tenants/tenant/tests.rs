use super::*;

#[test]
fn memory_counts_until_it_is_given_back_and_has_an_end() {
    let tenant = Tenant::owner();
    let first = tenant.take_memory(30, 40).unwrap();
    let said = tenant.take_memory(11, 40).unwrap_err().to_string();
    assert_eq!(said, "user 0 has 30 bytes on the device, 11 more are asked for and 40 allowed");
    assert!(tenant.take_memory(u64::MAX, u64::MAX).is_err());
    let _second = tenant.take_memory(10, 40).unwrap();
    drop(first);
    assert_eq!(tenant.memory(), 10);
}

#[test]
fn a_budget_that_stays_the_same_keeps_what_is_used() {
    let (tenant, over) = (Tenant::owner(), Over::Late);
    let account = tenant.account(0);
    let other = Grant { weight: 7, ..tenant.grant() };
    tenant.regrant(other, over);
    tenant.charge(Class::BestEffort, Duration::from_secs(1), Duration::from_secs(3));
    assert_eq!((tenant.grant(), tenant.served()[1]), (other, Duration::from_secs(1)));
    assert_eq!(tenant.held(), [Duration::ZERO, Duration::from_secs(2)]);
    let same = |a: &Account, b: &Account| format!("{a:?}") == format!("{b:?}");
    assert!(same(&account, &tenant.account(0)));
    let rate = reef::Rate::new(Duration::from_millis(10), Duration::from_millis(2)).unwrap();
    tenant.regrant(Grant { rate: Some(rate), ..other }, over);
    assert!(!same(&account, &tenant.account(0)), "another budget begins whole");
    tenant.regrant(Grant { rt: false, ..other }, over);
    let asks = Priority::new(1, Class::RealTime);
    assert!(tenant.admit(asks, &tenant.account(0), Duration::ZERO).is_err());
}
