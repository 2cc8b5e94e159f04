use super::*;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::ConnectionGuard;
use crate::net::identity::principal::Principal;
use crate::requests::shared_memory::Slice;
use rustix::fs::Mode;
use rustix::shm;
use std::fs::File;
use std::os::unix::fs::FileExt;

struct Memory(String, File);

impl Memory {
    fn new(test: &str, bytes: u64) -> Self {
        let key = format!("/reef-regions-{test}-{}", std::process::id());
        let flags = shm::OFlags::RDWR | shm::OFlags::CREATE;
        let file = File::from(shm::open(&key, flags, Mode::RUSR | Mode::WUSR).unwrap());
        file.set_len(bytes).unwrap();
        Self(key, file)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = shm::unlink(&self.0);
    }
}

/// Returns a peer whose connection is open while the guard is kept.
fn connected(principal: Principal, number: u32) -> (Peer, ConnectionGuard) {
    let (life, open) = ConnectionGuard::new();
    let id = ClientId { number, ..Peer::UNKNOWN.id };
    (Peer { id, principal, life, may_share: true }, open)
}

fn own() -> Principal {
    Principal::User(rustix::process::getuid().as_raw())
}

fn me() -> (Peer, ConnectionGuard) {
    connected(own(), 1)
}

/// Returns a slice of system memory.
fn slice(regions: &Regions, peer: &Peer, name: &str, offset: u64, bytes: u64) -> Result<Slice> {
    match regions.slice(peer, name, offset, bytes, bytes as usize)? {
        RegionSlice::System(slice) => Ok(slice),
        RegionSlice::Device(slice) => panic!("{slice:?}"),
    }
}

fn regions(max: usize) -> Regions {
    Regions::new(parts(max), 0)
}

fn parts(max: usize) -> SlotShares {
    SlotShares { max, each: max, anonymous: max, others: max }
}

#[test]
fn region_beyond_its_memory_is_refused() {
    let memory = Memory::new("size", 4096);
    let regions = regions(8);
    let (me, _open) = me();
    let register =
        |name, offset, bytes| regions.register(&me, name, &memory.0, offset, bytes, || Ok(()));
    register("all", 0, 4096).unwrap();
    register("end", 4000, 96).unwrap();
    for (offset, bytes) in [(0, 4097), (4000, 97), (u64::MAX, 2), (1, u64::MAX), (0, 0)] {
        let said = register("bad", offset, bytes).unwrap_err();
        assert!(matches!(said, Error::Invalid(_)), "{offset} {bytes}: {said}");
    }
    assert!(matches!(register("all", 0, 1), Err(Error::Exists(_))));
    let slice = |offset, bytes| regions.slice(&me, "end", offset, bytes, bytes as usize);
    assert!(slice(0, 96).is_ok() && slice(92, 4).is_ok());
    assert!(slice(1, 96).is_err() && slice(u64::MAX, 4).is_err());
    assert!(regions.slice(&me, "end", 0, 4, 8).is_err(), "another length than the tensor's");
}

#[test]
fn slice_adds_offsets_of_region_and_request() {
    let memory = Memory::new("place", 64);
    let regions = regions(8);
    let (me, _open) = me();
    regions.register(&me, "r", &memory.0, 16, 32, || Ok(())).unwrap();
    let slice = slice(&regions, &me, "r", 8, 4).unwrap();
    slice.write(1, &[7, 8]).unwrap();
    let mut all = [0; 64];
    memory.1.read_exact_at(&mut all, 0).unwrap();
    assert_eq!(
        (&all[16 + 8..][..4], all.iter().filter(|&&byte| byte != 0).count()),
        (&[0, 7, 8, 0][..], 2)
    );
    let mut bytes = [0; 2];
    slice.read(2, &mut bytes).unwrap();
    assert_eq!(bytes, [8, 0]);
}

#[test]
fn shrunk_memory_is_an_error() {
    let memory = Memory::new("shrinks", 4096);
    let regions = regions(8);
    let (me, _open) = me();
    regions.register(&me, "r", &memory.0, 0, 4096, || Ok(())).unwrap();
    let slice = slice(&regions, &me, "r", 0, 4096).unwrap();
    slice.write(4092, &[1, 2, 3, 4]).unwrap();
    memory.1.set_len(100).unwrap();
    let mut bytes = [0; 4096];
    assert!(matches!(slice.read(0, &mut bytes), Err(Error::Invalid(_))));
    assert!(regions.slice(&me, "r", 0, 4096, 4096).is_err());
}

#[test]
fn region_of_another_principal_is_not_found() {
    let [memory, more] = ["others", "more"].map(|test| Memory::new(test, 64));
    let regions = regions(2);
    let (me, _open) = me();
    regions.register(&me, "r", &memory.0, 0, 64, || Ok(())).unwrap();
    let (other, _other) = connected(Peer::UNKNOWN.principal, 2);
    assert!(matches!(regions.slice(&other, "r", 0, 4, 4), Err(Error::NotFound(_))));
    assert!(regions.status(&other, Kind::System, "").unwrap().is_empty());
    regions.unregister(&other, Kind::System, "");
    assert_eq!(regions.status(&me, Kind::System, "r").unwrap().len(), 1);
    let uid = rustix::process::getuid().as_raw() + 1;
    let (outsider, _outsider) = connected(Principal::User(uid), 3);
    let said = regions.register(&outsider, "x", &memory.0, 0, 64, || Ok(()));
    assert!(matches!(said, Err(Error::Denied(_))), "{said:?}");
    let said = regions.register(&other, "r", &memory.0, 0, 64, || Ok(()));
    assert!(matches!(said, Err(Error::Denied(_))), "{said:?}");
    regions.register(&other, "r", &more.0, 0, 64, || Ok(())).unwrap();
    let said = regions.register(&me, "s", &memory.0, 0, 64, || Ok(()));
    assert!(matches!(said, Err(Error::Exhausted(_))), "{said:?}");
    regions.unregister(&me, Kind::System, "r");
    assert!(regions.status(&me, Kind::System, "r").is_err());
}

/// Stands for two programs of one user on loopback that use different names and unregister
/// everything when they start, and for the pool of connections of one of them.
#[test]
fn connections_of_a_loopback_user_share_its_regions() {
    let memory = Memory::new("loopback", 64);
    let regions = regions(8);
    let uid = rustix::process::getuid().as_raw();
    let [(first, _first), (second, _second), (other, _other)] = [1, 2, 3].map(|number| {
        let uid = if number == 3 { uid + 1 } else { uid };
        connected(Principal::Loopback(uid), number)
    });
    regions.register(&first, "input", &memory.0, 0, 64, || Ok(())).unwrap();
    regions.unregister(&second, Kind::System, "");
    assert!(regions.slice(&first, "input", 0, 4, 4).is_ok(), "it registered none of them");
    assert!(regions.slice(&second, "input", 0, 4, 4).is_ok());
    assert!(matches!(regions.slice(&other, "input", 0, 4, 4), Err(Error::NotFound(_))));
    let said = regions.register(&other, "input", &memory.0, 0, 64, || Ok(()));
    assert!(matches!(said, Err(Error::Denied(_))), "another user's memory: {said:?}");
    let (unix, _unix) = connected(Principal::User(uid), 4);
    assert_eq!(regions.status(&unix, Kind::System, "input").unwrap().len(), 1);
    regions.unregister(&unix, Kind::System, "input");
    assert!(regions.status(&first, Kind::System, "").unwrap().is_empty());
}

#[test]
fn owner_registers_when_other_tenants_have_their_parts() {
    let memory = Memory::new("parts", 64);
    let regions = Regions::new(SlotShares::with_owner(8, 4), 0);
    let register = |peer: &Peer, name: &str| {
        regions.register(peer, name, &memory.0, 0, 64, || Ok(())).map_err(|e| e.to_string())
    };
    let (a, _a) = token("a", 1);
    (0..4).for_each(|n| register(&a, &format!("r{n}")).unwrap());
    let said = register(&a, "one more").unwrap_err();
    assert_eq!(said, "shared memory regions of token a must be at most 4: all are in use");
    let (me, _me) = me();
    (0..4).for_each(|n| register(&me, &format!("r{n}")).unwrap());
    let all = "open shared memory regions must be at most 8: all are in use";
    assert_eq!(register(&me, "one more").unwrap_err(), all);
}

#[test]
fn region_counts_until_no_request_uses_its_file() {
    let memory = Memory::new("in-use", 64);
    let regions = regions(2);
    let (me, _me) = me();
    let register = |name: &str| regions.register(&me, name, &memory.0, 0, 64, || Ok(()));
    register("a").unwrap();
    register("b").unwrap();
    let used = slice(&regions, &me, "a", 0, 64).unwrap();
    regions.unregister(&me, Kind::System, "");
    register("a").unwrap();
    assert!(matches!(register("b"), Err(Error::Exhausted(_))), "a request has a file");
    drop(used);
    register("b").unwrap();
}

fn token(name: &str, number: u32) -> (Peer, ConnectionGuard) {
    connected(Principal::Token(name.into()), number)
}

#[test]
fn claim_on_memory_ends_with_its_registration() {
    let memory = Memory::new("claim", 64);
    let regions = regions(8);
    let register = |peer: &Peer| regions.register(peer, "r", &memory.0, 0, 64, || Ok(()));
    let ((a, first), (b, _b)) = (token("a", 1), token("b", 2));
    register(&a).unwrap();
    assert!(matches!(register(&b), Err(Error::Denied(_))));
    regions.unregister(&a, Kind::System, "r");
    register(&b).unwrap();
    regions.unregister(&b, Kind::System, "r");
    register(&a).unwrap();
    drop(first);
    register(&b).unwrap(); // a's connection has closed
}

#[test]
fn memory_without_permissions_of_its_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let memory = Memory::new("mode", 64);
    memory.1.set_permissions(PermissionsExt::from_mode(0o400)).unwrap();
    let stat = rustix::fs::fstat(&memory.1).unwrap();
    let said = |uid| crate::requests::shared_memory::check_owner("k", &stat, &Principal::User(uid));
    let own = stat.st_uid;
    assert_eq!(said(own).is_ok(), own == 0, "root has access");
    assert!(matches!(said(own + 1), Err(Error::Denied(_))));
}

#[test]
fn region_is_removed_with_its_last_connection() {
    let memory = Memory::new("killed", 64);
    let regions = regions(8);
    let counted = Arc::new(());
    let [(first, one), (second, two)] = [1, 2].map(|number| connected(own(), number));
    regions.register(&first, "r", &memory.0, 0, 64, || Ok(counted.clone())).unwrap();
    assert!(regions.slice(&second, "r", 0, 4, 4).is_ok(), "connections of one principal share");
    drop((first, one));
    regions.prune();
    assert_eq!(regions.status(&second, Kind::System, "r").unwrap().len(), 1);
    drop((second, two));
    regions.prune();
    assert_eq!(Arc::strong_count(&counted), 1, "and its count is returned");
}

#[test]
fn owner_above_its_bytes_is_refused() {
    let memory = Memory::new("bytes", 4096);
    let regions = Regions::new(parts(8), 5000);
    let (me, _open) = me();
    regions.register(&me, "a", &memory.0, 0, 4096, || Ok(())).unwrap();
    let said = regions.register(&me, "b", &memory.0, 0, 905, || Ok(())).unwrap_err().to_string();
    assert_eq!(said, "shared memory: must be at most the 904 bytes left of 5000, got 905");
    regions.register(&me, "b", &memory.0, 0, 904, || Ok(())).unwrap();
}

#[test]
fn key_that_is_a_path_is_refused() {
    let regions = regions(2);
    for key in ["", "/", "..", "/../etc/passwd", "a/b", "//x", "a\0b"] {
        let said = regions.register(&me().0, "r", key, 0, 1, || Ok(()));
        assert!(matches!(said, Err(Error::Invalid(_))), "{key:?}: {said:?}");
    }
    let said = regions.register(&me().0, "r", "/reef-there-is-none", 0, 1, || Ok(()));
    assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
}
