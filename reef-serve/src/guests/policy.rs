//! Which class a program gets.

use crate::config::guests::Guests;
use reef_guest::join::Wish;
use reef_guest::page::Class;
use reef_guest::registry::Caller;

/// The class that was asked for, or why not.
pub(super) fn grant(
    config: &Guests,
    own: u32,
    caller: &Caller,
    wish: &Wish,
) -> Result<Class, String> {
    let is_granted = wish.class == Class::BestEffort
        || caller.uid == own
        || config.rt_users.contains(&caller.uid)
        || caller.exe.as_ref().is_some_and(|exe| config.rt_programs.contains(exe));
    if is_granted {
        return Ok(wish.class);
    }
    let exe = caller.exe.as_ref().map_or("?".into(), |exe| exe.display().to_string());
    Err(format!(
        "class rt: neither guests.rt_users has {} nor guests.rt_programs {exe}",
        caller.uid
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_is_for_the_own_user_and_for_those_that_are_named() {
        let config = Guests {
            rt_users: vec![7],
            rt_programs: vec!["/usr/bin/trusted".into()],
            ..Guests::default()
        };
        let asks = |uid, exe: &str, class| {
            let caller = Caller { uid, pid: 1, exe: Some(exe.into()) };
            grant(&config, 1000, &caller, &Wish { class, device: [0; 16] })
        };
        for (uid, exe) in [(1000, "/bin/sh"), (7, "/bin/sh"), (8, "/usr/bin/trusted")] {
            assert_eq!(asks(uid, exe, Class::RealTime), Ok(Class::RealTime));
        }
        assert_eq!(asks(8, "/bin/sh", Class::BestEffort), Ok(Class::BestEffort));
        let said = asks(8, "/bin/sh", Class::RealTime).unwrap_err();
        assert_eq!(said, "class rt: neither guests.rt_users has 8 nor guests.rt_programs /bin/sh");
    }
}
