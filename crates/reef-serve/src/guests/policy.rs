//! Policy for the class of a guest.

use crate::config::settings::Config;
use crate::net::identity::auth::Tokens;
use crate::net::identity::principal::Principal;
use crate::tenants::grant::Grant;
use reef_guest::colocation::{Caps, Percent};
use reef_guest::join::JoinRequest;
use reef_guest::page::Class;
use reef_guest::registry::Caller;

/// Returns the requested class, or the reason for a refusal. Real time requires a user or token
/// with that right, or a named program; phases of real time require that or the right to phases.
/// `own` is the daemon's user.
pub(super) fn grant(
    config: &Config,
    tokens: &Tokens,
    own: u32,
    caller: &Caller,
    wish: &JoinRequest,
) -> Result<Class, String> {
    let is_for_phases = caller.info.is_for_phases();
    let has_rt = |principal: &Principal| {
        let grant = Grant::of(&config.rights, principal, own);
        if is_for_phases { grant.phases } else { grant.rt }
    };
    let programs = &config.guests.rt_programs;
    let is_granted = wish.class == Class::BestEffort
        || has_rt(&Principal::User(caller.uid))
        || tokens
            .holder(caller.info.token().as_bytes())
            .is_some_and(|principal| has_rt(&principal))
        || caller.exe.as_ref().is_some_and(|exe| programs.contains(exe));
    if is_granted {
        return Ok(wish.class);
    }
    let exe = caller.exe.as_ref().map_or("?".into(), |exe| exe.display().to_string());
    let uid = caller.uid;
    let (what, right) =
        if is_for_phases { ("a real-time phase", "phases") } else { ("class rt", "rt") };
    Err(format!(
        "{what} requires rights.\"user {uid}\".{right}, a token with that right, or guests.rt_programs with {exe}"
    ))
}

/// Returns what a program may have while real-time programs are busy: the largest right of its
/// user and its token. The daemon's own work, of the process `daemon`, has nothing.
pub(super) fn caps(
    config: &Config,
    tokens: &Tokens,
    own: u32,
    daemon: u32,
    caller: &Caller,
) -> Caps {
    if caller.pid == daemon {
        let (colocate, floor) = (Percent::NONE, Percent::NONE);
        let (max_colocate, max_floor, room) = (colocate, floor, colocate);
        return Caps { colocate, floor, max_colocate, max_floor, room, slo: None };
    }
    let user = Grant::of(&config.rights, &Principal::User(caller.uid), own);
    let token = tokens.holder(caller.info.token().as_bytes());
    let token = token.map(|principal| Grant::of(&config.rights, &principal, own));
    let most = |of: fn(&Grant) -> u8| token.as_ref().map_or(0, of).max(of(&user));
    config.guests.caps(most(|grant| grant.colocate), most(|grant| grant.floor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_guest::join::GuestInfo;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn real_time_requires_right_of_user_token_or_program() {
        let file = std::env::temp_dir().join(format!("reef-guest-token-{}", std::process::id()));
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[rights.\"user 7\"]\nrt = true\n[guests]\nrt_programs = [\"/usr/bin/trusted\"]\n\
             [rights.\"token ci\"]\nrt = true\ntoken_file = {file:?}\n"
        );
        let config: Config = toml::from_str(&text).unwrap();
        let tokens = Tokens::read(&config).unwrap();
        let asks = |uid, exe: &str, token: &str, class| {
            let shown = GuestInfo::new("", token).unwrap();
            let caller = Caller { uid, pid: 1, exe: Some(exe.into()), info: shown };
            grant(&config, &tokens, 1000, &caller, &JoinRequest { class, device: [0; 16] })
        };
        let token = "0123456789abcdef";
        for (uid, exe, token) in [
            (1000, "/bin/sh", ""),
            (7, "/bin/sh", ""),
            (8, "/usr/bin/trusted", ""),
            (8, "/bin/sh", token),
        ] {
            assert_eq!(asks(uid, exe, token, Class::RealTime), Ok(Class::RealTime));
        }
        assert_eq!(asks(8, "/bin/sh", "", Class::BestEffort), Ok(Class::BestEffort));
        let said = asks(8, "/bin/sh", "0123456789abcdeF", Class::RealTime).unwrap_err();
        let want = "class rt requires rights.\"user 8\".rt, a token with that right, or guests.rt_programs with /bin/sh";
        assert_eq!(said, want);
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn right_to_phases_grants_phases_alone() {
        let text = "[rights.\"user 7\"]\nphases = true\n[rights.\"user 8\"]\nrt = true\n";
        let config: Config = toml::from_str(text).unwrap();
        let asks = |uid, info| {
            let caller = Caller { uid, pid: 1, exe: None, info };
            let wish = JoinRequest { class: Class::RealTime, device: [0; 16] };
            grant(&config, &Tokens::default(), 1000, &caller, &wish)
        };
        let phases = || GuestInfo::default().for_phases();
        for uid in [7, 8, 1000] {
            assert_eq!(asks(uid, phases()), Ok(Class::RealTime), "user {uid}");
        }
        let said = asks(9, phases()).unwrap_err();
        let want = "a real-time phase requires rights.\"user 9\".phases, a token with that right, or guests.rt_programs with ?";
        assert_eq!(said, want);
        assert!(asks(7, GuestInfo::default()).unwrap_err().starts_with("class rt requires"));
    }

    #[test]
    fn caps_are_the_largest_right_and_the_daemon_has_none() {
        let text = "[rights.\"user 7\"]\ncolocate = 20\n[guests]\ncolocate = 10\nslo = 1.25\n";
        let config: Config = toml::from_str(text).unwrap();
        let of = |uid, pid| {
            let caller = Caller { uid, pid, exe: None, info: GuestInfo::default() };
            let caps = caps(&config, &Tokens::default(), 1000, 5, &caller);
            [caps.colocate, caps.max_colocate, caps.max_floor, caps.room].map(Percent::get)
        };
        assert_eq!(of(7, 1), [10, 20, 0, 100]);
        assert_eq!(of(8, 1), [10, 0, 0, 100]);
        assert_eq!(of(1000, 1), [10, 100, 100, 100]);
        assert_eq!(of(1000, 5), [0, 0, 0, 0], "the daemon itself");
    }

    #[test]
    fn owner_without_rt_is_refused() {
        let config: Config = toml::from_str("[rights.owner]\nrt = false\n").unwrap();
        let caller = Caller { uid: 1000, pid: 1, exe: None, info: GuestInfo::default() };
        let wish = JoinRequest { class: Class::RealTime, device: [0; 16] };
        assert!(grant(&config, &Tokens::default(), 1000, &caller, &wish).is_err());
    }
}
