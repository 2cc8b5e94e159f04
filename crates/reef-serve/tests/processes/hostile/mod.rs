//! A daemon under attack: the effects on a paced real-time client, a health probe and another
//! client. Run on demand, by `tools/hostile.sh`, which prints the table.
//!
//! The hostile process connects over TCP, so that it is another principal than the others, which
//! use Unix sockets. A calm period of the same daemon is measured just before each attack.

mod attacks;
mod bystanders;
mod cores;
mod descriptors;
mod half_bodies;
mod keys;
mod places;

use crate::daemon::Daemon;
use crate::spawn_as;
use crate::users::another_user;
use attacks::{ATTACKS, Attack};
use bystanders::{Bystanders, Measurements};
use cores::Cores;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Unauthenticated peers may ask for real time, which is what attack 3 needs, and no more; the
/// paced client has a budget.
const SETTINGS: [&str; 5] = [
    "limits.clients=64",
    "limits.connects_per_second=200", // the default
    "device=cpu:0?units=2",
    "rights.others={ rt = true }",
    "rights.owner={ rt = true, control = true, period_us = 10000, budget_us = 4000 }",
];

/// A role begins with this; the attack's name follows.
pub(super) const ROLE: &str = "hostile ";

/// The limits for effects on others: RT latency as a factor of the calm one plus a constant, and
/// the time of an answer about health.
const RT_FACTOR: f64 = 1.05;
const RT_MORE: Duration = Duration::from_millis(1);
const HEALTH: Duration = Duration::from_millis(20);

/// The hostile process: does `role` to the daemon until it is killed.
pub(super) fn play(role: &str, folder: &Path) {
    let name = role.strip_prefix(ROLE).expect("as it was spawned");
    let attack = ATTACKS.iter().find(|attack| attack.name == name).expect("one of them");
    let addresses = std::env::var(crate::FLAGS).expect("set with the role");
    let (grpc, http) = addresses.split_once('\n').expect("two lines");
    let target = attacks::Target { grpc: grpc.into(), http: http.into(), folder: folder.into() };
    (attack.run)(&target);
}

/// A connection to the daemon from one of the many addresses of loopback, by its number from 1.
fn from_address(number: u32, to: &str) -> TcpStream {
    let from = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + number);
    let flags = SocketFlags::CLOEXEC; // no daemon inherits it
    let stream = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let stream = stream.expect("a socket");
    bind(&stream, &SocketAddrV4::new(from, 0)).expect("loopback has it");
    connect(&stream, &to.parse::<SocketAddrV4>().expect("an address")).expect("it listens");
    stream.into()
}

/// Killed when this is dropped.
struct Hostile(Child);

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The script asks for the rows of the table by these names.
#[test]
#[ignore = "tools/hostile.sh asks for it"]
fn names() {
    println!();
    ATTACKS.iter().for_each(|attack| println!("attack {} {}", attack.number, attack.name));
}

#[test]
#[ignore = "figures, not a check: tools/hostile.sh"]
fn hostile() {
    let seconds = std::env::var("REEF_HOSTILE_SECONDS").map_or(5.0, |text| text.parse().unwrap());
    let (time, only) = (Duration::from_secs_f64(seconds), std::env::var("REEF_HOSTILE_ONLY"));
    let wanted = |name: &str| only.as_ref().is_ok_and(|only| only != name);
    let cores = Cores::split();
    println!("\n{cores}; {seconds} s calm and {seconds} s under attack\n");
    println!(
        "| attack | RT p99 ms calm | under attack | allowed | health max ms | others lost | daemon MiB | within |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|:-:|");
    for attack in ATTACKS.iter().filter(|attack| !wanted(attack.name)) {
        let measured = process_of(attack).map(|command| measure(attack, command, time, &cores));
        println!(
            "| {} {} | {} |",
            attack.number,
            attack.name,
            measured.map_or_else(skipped, |(calm, seen)| row(&calm, &seen))
        );
    }
}

fn skipped() -> String {
    "skipped: no other user here | | | | | | –".into()
}

/// Returns the figures of an attack, and whether they are within the limits.
fn row(calm: &Measurements, seen: &Measurements) -> String {
    let allowed = calm.rt_p99().mul_f64(RT_FACTOR).saturating_add(RT_MORE);
    let is_within = seen.rt_p99() <= allowed && seen.health <= HEALTH && seen.lost == 0;
    let times = [calm.rt_p99(), seen.rt_p99(), allowed, seen.health].map(millis).join(" | ");
    let Measurements { lost, asked, memory, .. } = seen;
    let word = if is_within { "yes" } else { "no" };
    format!("{times} | {lost} of {asked} | {} | {word}", memory >> 20)
}

fn millis(time: Duration) -> String {
    match time {
        Duration::MAX => "lost".into(),
        time => format!("{:.2}", time.as_secs_f64() * 1e3),
    }
}

/// Returns the command of the hostile process, or `None` if this needs another user and there is
/// none here.
fn process_of(attack: &Attack) -> Option<Command> {
    if attack.is_foreign {
        return another_user();
    }
    Some(Command::new(std::env::current_exe().expect("a test has an executable")))
}

/// Measures a calm period and then one under attack.
fn measure(
    attack: &Attack,
    command: Command,
    time: Duration,
    cores: &Cores,
) -> (Measurements, Measurements) {
    let daemon = Daemon::start("hostile", &[&SETTINGS, attack.settings].concat());
    let mut bystanders = Bystanders::connect(&daemon, attack.is_foreign);
    bystanders.watch(time.mul_f64(0.2)); // until everything is warm
    let calm = bystanders.watch(time);
    let addresses = [daemon.grpc.clone(), daemon.http.clone()];
    let role = format!("{ROLE}{}", attack.name);
    let start = || Hostile(spawn_as(command, &role, daemon.folder(), &addresses));
    let mut hostile = cores.hostile(start);
    // sleep: until it is at work; this measures, and is not part of the gate
    std::thread::sleep(Duration::from_secs(1));
    let seen = bystanders.watch(time);
    assert_eq!(hostile.0.try_wait().unwrap(), None, "{}: it is still at work", attack.name);
    (calm, seen)
}

/// Clients of one user, with an address each.
const CLIENTS: u32 = 1200;

#[test]
fn metrics_do_not_grow_with_addresses() {
    let daemon = Daemon::start("addresses", &["rights.others={}"]);
    let request = b"POST /v2/repository/models/tiny/load HTTP/1.1\r\nhost: localhost\r\n\
        connection: close\r\ncontent-length: 0\r\n\r\n";
    for number in 1..=CLIENTS {
        let mut stream = from_address(number, &daemon.http);
        stream.write_all(request).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    }
    let text = daemon.get("/metrics");
    let user = format!("client=\"user {} on loopback\"", rustix::process::getuid().as_raw());
    assert!(text.contains(&user) && !text.contains("address 127."), "{text}");
    assert!(text.len() < 40 << 10, "{} bytes", text.len());
}
