//! Entry points for fuzzers, past the sockets. Not part of the public interface.

use crate::class::Class;
use crate::config::settings::{Config, Models};
use crate::local::client::connection::Client;
use crate::local::client::options::Options;
use crate::local::session::listen::Local;
use crate::net::access::Access;
use crate::net::listener::bind;
use crate::server::Server;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A daemon with one small model, whose local path listens in `folder`.
struct Daemon {
    folder: PathBuf,
    server: Arc<Server>,
    runtime: tokio::runtime::Runtime,
    /// Client that must not be disturbed.
    witness: Mutex<Client>,
    _local: Local,
}

static DAEMON: LazyLock<Daemon> = LazyLock::new(Daemon::start);

impl Daemon {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("reef-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("models/tiny/1")).expect("a temporary folder");
        let text = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
        std::fs::write(folder.join("models/tiny/model.toml"), text).expect("a temporary file");
        let models = Models {
            repository: Some(folder.join("models")),
            load: vec!["tiny".into()],
            builtin: false,
            kernels: false,
            ..Models::default()
        };
        let device = "cpu:0?units=1".into();
        let server = Server::open(Config { device, models, ..Config::default() });
        let server = server.expect("a valid configuration");
        let local = Local::start(
            &server,
            bind(&folder.join("local.sock"), Access::Owner).expect("a free name"),
            Access::Owner,
        )
        .expect("a thread");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let options = Options {
            folder: Some(folder.clone()),
            class: Some(Class::RealTime),
            ..Options::default()
        };
        let witness = Mutex::new(Client::connect("tiny", &options).expect("it listens"));
        let runtime = runtime.expect("a runtime");
        Self { folder, server, runtime, witness, _local: local }
    }

    /// # Panics
    ///
    /// If the witness was disturbed.
    fn is_well(&self) {
        let mut witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
        witness.ping().expect("the daemon answers others");
    }
}

/// Plays a client of the local path: a hello made of `bytes`, then as many writes into shared
/// memory.
///
/// # Panics
///
/// If the daemon or another client is harmed.
pub fn local(bytes: &[u8]) {
    let daemon = &*DAEMON;
    crate::local::fuzzing::messages(bytes);
    crate::local::fuzzing::client(&daemon.folder.join("local.sock"), bytes);
    daemon.is_well();
}

/// Sends an inference request. `bytes` hold a flag for a length of the JSON, two bytes of that
/// length, then the body.
///
/// # Panics
///
/// If the daemon is harmed.
pub fn http(bytes: &[u8]) {
    let daemon = &*DAEMON;
    let &[with_length, low, high, ref body @ ..] = bytes else { return };
    let length = (with_length & 1 == 1).then_some(u16::from_le_bytes([low, high]));
    daemon.runtime.block_on(crate::kserve::http::infer::fuzz(&daemon.server, length, body));
}
