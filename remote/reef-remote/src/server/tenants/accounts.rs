//! Tenants of a server: names of tokens, and bounds of what their sessions have together.

use super::resource::Resource;
use parking_lot::Mutex;
use reef_core::{Error, Result, did_you_mean, did_you_mean_in};
use reef_wire::Token;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Minimum number of bytes of a token.
const MIN_TOKEN_LEN: usize = 16;

/// Maximum number of bytes of the file of rights.
const MAX_RIGHTS_BYTES: u64 = 1 << 20;

/// File of rights, as a daemon's configuration has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rights: BTreeMap<String, Right>,
}

/// Rights of one tenant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Right {
    token_file: PathBuf,
    sessions: Option<usize>,
    memory: Option<String>,
    #[serde(default)]
    rt: bool,
    compute: Option<String>,
}

/// Rights of a tenant's programs as guests of the server's daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// They may ask for the class real-time.
    pub may_be_real_time: bool,
    /// Part of each device's time that all of them have together, in per cent.
    pub compute_percent: Option<u8>,
}

/// Tenants of a server. Cloning is cheap, and each clone has the same accounts.
#[derive(Debug, Clone, Default)]
pub struct Tenants(Arc<All>);

#[derive(Debug, Default)]
struct All {
    named: BTreeMap<String, Arc<Tenant>>,
    /// Has the sessions without a tenant.
    nobody: Arc<Tenant>,
}

#[derive(Debug, Default)]
struct Tenant {
    /// `None`: these are the sessions without a tenant.
    name: Option<String>,
    token: Option<Token>,
    max_sessions: Option<usize>,
    max_memory: Option<u64>,
    grant: Grant,
    sessions: AtomicUsize,
    /// Amount of each resource that its sessions have together.
    has: [AtomicU64; Resource::ALL.len()],
}

impl Tenant {
    /// Records more of a resource.
    ///
    /// # Errors
    ///
    /// The reason, with both numbers.
    fn take(&self, what: Resource, amount: u64) -> std::result::Result<(), String> {
        let max = match what {
            Resource::Memory => self.max_memory.unwrap_or(u64::MAX),
            _ => what.max(),
        };
        let more = |has: u64| has.checked_add(amount).filter(|sum| *sum <= max);
        let has = &self.has[what as usize];
        let taken = has.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(drop).map_err(|has| {
            let whose = match &self.name {
                Some(name) => format!("tenant {name}"),
                None => "sessions without a tenant".to_owned(),
            };
            let (name, unit) = what.words();
            format!("{whose}: {name}: must be at most {max}{unit}, got {has} and {amount} more")
        })
    }

    fn give(&self, what: Resource, amount: u64) {
        self.has[what as usize].fetch_sub(amount, Ordering::Relaxed);
    }
}

impl Tenants {
    /// Reads a file of rights: for each tenant `[rights."token NAME"]` with `token_file`, relative
    /// to the file, the bounds
    /// `sessions`, `memory`, such as `"8GiB"`, and `compute`, such as `"30%"`, and the right `rt`.
    ///
    /// # Errors
    ///
    /// `Invalid` names the file and the key.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            Error::invalid(format!("rights {}", path.display()), why.to_string())
        };
        let text = reef_files::read_to_string(path, MAX_RIGHTS_BYTES).map_err(|e| wrong(&e))?;
        let file: File = toml::from_str(&text).map_err(|e| wrong(&why(&text, &e)))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut all = BTreeMap::new();
        for (principal, right) in file.rights {
            let wrong = |why: &dyn std::fmt::Display| wrong(&format!("{principal:?}: {why}"));
            let name = tenant_name(&principal).map_err(|e| wrong(&e))?.to_owned();
            let token = token(&folder.join(&right.token_file))?.of_tenant(&name);
            let max_memory = right.memory.as_deref().map(bytes).transpose();
            let compute_percent = right.compute.as_deref().map(percent).transpose();
            let compute_percent = compute_percent.map_err(|e| wrong(&e))?;
            let tenant = Tenant {
                name: Some(name.clone()),
                token: Some(token),
                max_sessions: right.sessions,
                max_memory: max_memory.map_err(|e| wrong(&e))?,
                grant: Grant { may_be_real_time: right.rt, compute_percent },
                ..Tenant::default()
            };
            all.insert(name, Arc::new(tenant));
        }
        if all.is_empty() {
            return Err(wrong(&"must have a tenant"));
        }
        Ok(Self(Arc::new(All { named: all, nobody: Arc::default() })))
    }

    /// Returns whether there is no tenant: sessions have no bounds of the rights then.
    pub fn is_empty(&self) -> bool {
        self.0.named.is_empty()
    }

    /// Returns the tenants' tokens.
    pub fn tokens(&self) -> Vec<Token> {
        self.0.named.values().filter_map(|tenant| tenant.token.clone()).collect()
    }

    /// Returns the rights of a tenant. `None`, or a name that is not there: nothing is granted or
    /// bounded here.
    pub fn grant(&self, tenant: Option<&str>) -> Option<&Grant> {
        self.named(tenant).map(|tenant| &tenant.grant)
    }

    fn named(&self, tenant: Option<&str>) -> Option<&Arc<Tenant>> {
        tenant.and_then(|name| self.0.named.get(name))
    }

    /// Returns whether the time of any tenant has a bound.
    pub fn have_compute(&self) -> bool {
        self.0.named.values().any(|tenant| tenant.grant.compute_percent.is_some())
    }

    /// Returns the number of a server's last places that a tenant must leave to others: one for
    /// each that has no session. A tenant without a session, or no tenant, leaves none.
    pub fn kept_from(&self, tenant: Option<&str>) -> usize {
        let has_one = |tenant: &Tenant| tenant.sessions.load(Ordering::Relaxed) > 0;
        match self.named(tenant) {
            Some(tenant) if has_one(tenant) => {
                self.0.named.values().filter(|other| !has_one(other)).count()
            }
            _ => 0,
        }
    }

    /// Returns the account of a new session. `None`, or a name that is not there: such sessions
    /// have the bounds of one tenant together, of which the rights name none.
    ///
    /// # Errors
    ///
    /// The reason, with both numbers: the tenant has as many sessions as it may have.
    pub fn open(&self, tenant: Option<&str>) -> std::result::Result<Account, String> {
        let name = tenant.unwrap_or_default();
        let tenant = self.named(tenant).unwrap_or(&self.0.nobody).clone();
        let max = tenant.max_sessions.unwrap_or(usize::MAX);
        let more = |sessions: usize| (sessions < max).then_some(sessions + 1);
        if let Err(has) = tenant.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            return Err(format!("tenant {name}: must have at most {max} sessions, got {has}"));
        }
        Ok(Account { tenant, has: Mutex::default() })
    }
}

/// Account of one session. Dropping it gives back what the session has.
#[derive(Debug, Default)]
pub struct Account {
    tenant: Arc<Tenant>,
    /// Amount of each resource that the session has.
    has: Mutex<[u64; Resource::ALL.len()]>,
}

impl Account {
    /// Records an amount of a resource before it is taken. What a session has for itself does not
    /// count as its tenant's.
    ///
    /// # Errors
    ///
    /// The reason, with both numbers: the tenant would have more than it may have.
    pub fn reserve(&self, what: Resource, amount: u64) -> std::result::Result<(), String> {
        let mut all = self.has.lock();
        let has = &mut all[what as usize];
        let sum = has.saturating_add(amount);
        self.tenant.take(what, what.beyond_own(sum) - what.beyond_own(*has))?;
        *has = sum;
        Ok(())
    }

    /// Gives back an amount that was reserved; at most as much as the session has.
    pub fn release(&self, what: Resource, amount: u64) {
        let mut all = self.has.lock();
        let has = &mut all[what as usize];
        let left = has.saturating_sub(amount);
        self.tenant.give(what, what.beyond_own(*has) - what.beyond_own(left));
        *has = left;
    }

    /// Records an amount as long as the charge lives.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve`](Self::reserve).
    pub(in crate::server) fn charge(
        self: &Arc<Self>,
        what: Resource,
        amount: u64,
    ) -> std::result::Result<Charge, String> {
        let mut charge = self.nothing(what);
        charge.add(amount).map(|()| charge)
    }

    /// Returns a charge that grows.
    pub(in crate::server) fn nothing(self: &Arc<Self>, what: Resource) -> Charge {
        Charge { account: self.clone(), what, amount: 0 }
    }

    /// Returns the bytes of the device's memory that the session has.
    pub fn memory(&self) -> u64 {
        self.has.lock()[Resource::Memory as usize]
    }

    /// Returns whether real-time work of the session may preempt that of others: the rights must
    /// say so, if they name its tenant.
    pub(in crate::server) fn may_be_real_time(&self) -> bool {
        self.tenant.name.is_none() || self.tenant.grant.may_be_real_time
    }

    /// Returns whether the session's memory has a bound.
    pub fn is_bounded(&self) -> bool {
        self.tenant.max_memory.is_some()
    }
}

/// Amount of a resource. Dropping it gives it back.
#[derive(Debug)]
pub(in crate::server) struct Charge {
    account: Arc<Account>,
    what: Resource,
    amount: u64,
}

impl Charge {
    /// Records more.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Account::reserve`]. What there was stays.
    pub(in crate::server) fn add(&mut self, amount: u64) -> std::result::Result<(), String> {
        self.account.reserve(self.what, amount)?;
        self.amount += amount;
        Ok(())
    }

    /// Gives all of it back.
    pub(in crate::server) fn clear(&mut self) {
        self.account.release(self.what, std::mem::take(&mut self.amount));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        Resource::ALL.into_iter().for_each(|what| self.release(what, u64::MAX));
        self.tenant.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads a file with a token.
///
/// # Errors
///
/// `Invalid` names the file.
pub(in crate::server) fn token(path: &Path) -> Result<Token> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::invalid(format!("token {}", path.display()), why.to_string())
    };
    let token = reef_files::token(path).map_err(|e| wrong(&e))?;
    if token.len() < MIN_TOKEN_LEN {
        let len = token.len();
        return Err(wrong(&format!("must have at least {MIN_TOKEN_LEN} bytes, got {len}")));
    }
    Ok(Token::new(token.as_bytes()))
}

/// Returns the line and the fault of TOML in `text`, with the name that an unknown one stands for.
fn why(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    let said = error.message();
    format!("line {line}: {said}{}", did_you_mean_in(said))
}

/// Returns NAME of `token NAME`.
fn tenant_name(principal: &str) -> std::result::Result<&str, String> {
    match principal.split_once(' ') {
        Some(("token", name)) if !name.is_empty() => Ok(name),
        other => {
            let near = other.map(|(_, name)| format!("token {name}"));
            let meant = did_you_mean(principal, near.as_deref());
            Err(format!("must be \"token NAME\"{meant}"))
        }
    }
}

/// Reads a part of the time, such as `30%`.
fn percent(text: &str) -> std::result::Result<u8, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
    let number = number.filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| format!("compute: must be from 1% to 100%, got {text:?}"))
}

/// Reads a number of bytes, such as `8GiB`.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => 64,
    };
    let number = number.parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(1_u64.checked_shl(shift)?));
    bytes.ok_or_else(|| {
        format!("memory: must be a number with KiB, MiB, GiB, TiB or no unit, got {text:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tenants> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "aaaaaaaaaaaaaaaa\n").unwrap();
        std::fs::write(folder.path().join("b"), "bbbbbbbbbbbbbbbb\n").unwrap();
        std::fs::write(folder.path().join("rights"), text).unwrap();
        Tenants::read(&folder.path().join("rights"))
    }

    #[test]
    fn last_places_are_kept_for_tenants_without_a_session() {
        let tenants = read(
            "[rights.\"token alice\"]\ntoken_file = \"a\"\n\
             [rights.\"token bob\"]\ntoken_file = \"b\"\n\
             [rights.\"token carol\"]\ntoken_file = \"b\"\n",
        )
        .unwrap();
        let kept = || [None, Some("alice"), Some("bob")].map(|name| tenants.kept_from(name));
        assert_eq!(kept(), [0, 0, 0]);
        let alice = tenants.open(Some("alice")).unwrap();
        assert_eq!(kept(), [0, 2, 0]);
        let bob = tenants.open(Some("bob")).unwrap();
        assert_eq!(kept(), [0, 1, 1]);
        drop((alice, bob));
        assert_eq!(kept(), [0, 0, 0]);
    }

    #[test]
    fn bounds_are_of_a_tenants_sessions_together() {
        let tenants = read(
            "[rights.\"token alice\"]\ntoken_file = \"a\"\nsessions = 2\nmemory = \"1KiB\"\n\
             [rights.\"token bob\"]\ntoken_file = \"b\"",
        )
        .unwrap();
        assert_eq!(tenants.tokens().len(), 2);
        let [first, second] = [(); 2].map(|()| tenants.open(Some("alice")).unwrap());
        let said = tenants.open(Some("alice")).unwrap_err();
        assert_eq!(said, "tenant alice: must have at most 2 sessions, got 2");
        let memory = Resource::Memory;
        first.reserve(memory, 1000).unwrap();
        let said = second.reserve(memory, 25).unwrap_err();
        assert_eq!(said, "tenant alice: memory: must be at most 1024 bytes, got 1000 and 25 more");
        second.reserve(memory, 24).unwrap();
        assert!(second.reserve(memory, u64::MAX).is_err());
        second.release(memory, 100);
        assert_eq!((first.memory(), second.memory()), (1000, 0), "no more than it has");
        assert!(second.reserve(memory, 25).is_err());
        drop(first);
        second.reserve(memory, 1024).unwrap();
        tenants.open(Some("alice")).unwrap();
        let bob = tenants.open(Some("bob")).unwrap();
        bob.reserve(memory, 1 << 60).unwrap();
        assert!(!bob.is_bounded() && second.is_bounded());
    }

    #[test]
    fn sessions_of_a_tenant_share_what_they_have_beyond_their_own() {
        let tenants = read("[rights.\"token alice\"]\ntoken_file = \"a\"\n").unwrap();
        for (what, own, max) in [
            (Resource::Threads, 16, 4096),
            (Resource::Functions, 1024, 1 << 18),
            (Resource::State, 0, 4 << 30),
            (Resource::Objects, 64 << 20, 4 << 30),
        ] {
            let [first, second] = [(); 2].map(|()| tenants.open(Some("alice")).unwrap());
            first.reserve(what, own + max).unwrap();
            assert!(first.reserve(what, 1).is_err(), "{what:?}");
            second.reserve(what, own).unwrap();
            let said = second.reserve(what, 1).unwrap_err();
            assert!(said.contains(&format!("must be at most {max}")), "{said}");
            let nobody = tenants.open(None).unwrap();
            nobody.reserve(what, own + max).unwrap();
            let said = tenants.open(Some("unknown")).unwrap().reserve(what, own + 1).unwrap_err();
            assert!(said.starts_with("sessions without a tenant: "), "{said}");
            first.release(what, 1);
            second.reserve(what, 1).unwrap();
            drop(first);
            second.reserve(what, max - 1).unwrap();
        }
    }

    #[test]
    fn file_that_cannot_be_is_refused_by_its_key() {
        for (text, what) in [
            ("", "rights"),
            ("[rights]", "must have a tenant"),
            ("[rights.\"user 5\"]\ntoken_file = \"a\"", "\"user 5\": must be \"token NAME\""),
            ("[rights.\"tokn x\"]\ntoken_file = \"a\"", ": did you mean token x?"),
            ("[right.\"token x\"]\ntoken_file = \"a\"", ": did you mean rights?"),
            ("[rights.\"token x\"]\ntoken_file = \"c\"", "c: No such file"),
            ("[rights.\"token x\"]\ntoken_file = \"a\"\nmemory = \"8GB\"", "got \"8GB\""),
            ("[rights.\"token x\"]\ntoken_file = \"a\"\nmemory = \"99999999TiB\"", "must be"),
            ("[rights.\"token x\"]\ntoken_file = \"a\"\ncompute = \"0%\"", "got \"0%\""),
            ("[rights.\"token x\"]\ntoken_file = \"a\"\ncompute = \"30\"", "from 1% to 100%"),
            ("[rights.\"token x\"]\ntoken_file = \"a\"\nweight = 2", "line 3: unknown field"),
            ("[rights.\"token x\"]\ntokenfile = \"a\"", ": did you mean token_file?"),
            ("[rights.\"token x\"]\ntoken_file = \"a\"\nsesions = 2", ": did you mean sessions?"),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(what), "{text}: {said}");
        }
    }
}
