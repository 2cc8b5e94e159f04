//! Servers of software devices, in this process.

#![allow(dead_code)] // each test program uses a part

use reef_core::Device;
use reef_cpu::Cpu;
use reef_op::Operators;
use reef_remote::observe::Sessions;
use reef_remote::server::{DeviceHost, Devices, Host, Listener, Security, Tenants};
use reef_wire::{Address, Server, Token};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A server that listens on a UNIX socket until the process ends.
pub(crate) struct Served {
    pub(crate) address: String,
    pub(crate) server: Server,
    pub(crate) sessions: Sessions,
    /// The shared device, once a session has asked for it.
    pub(crate) host: Arc<OnceLock<Arc<Host<Cpu>>>>,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Text that opens the server's device.
    pub(crate) fn device(&self) -> String {
        format!("{}/cpu:0", self.address)
    }
}

fn listen(devices: Devices) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("reef.sock"));
    listen_at(devices, &address, folder)
}

fn listen_at(devices: Devices, address: &Address, folder: tempfile::TempDir) -> Served {
    listen_with(devices, address, folder, Vec::new())
}

fn listen_with(
    devices: Devices,
    address: &Address,
    folder: tempfile::TempDir,
    tokens: Vec<Token>,
) -> Served {
    let listener = Listener::bind(address, &Security::default()).unwrap();
    let sessions = Sessions::default();
    let server = devices.listed_in(&sessions).serve(tokens);
    let host = Arc::default();
    let address = listener.address();
    let served = Served { address, server: server.clone(), sessions, host, _folder: folder };
    std::thread::spawn(move || listener.run(&server, |_| ()));
    served
}

fn open(name: &str) -> reef_core::Result<Cpu> {
    let ordinal = name.strip_prefix("cpu:").and_then(|ordinal| ordinal.parse().ok());
    match ordinal {
        Some(ordinal) => Cpu::open(ordinal, "units=2"),
        None => Err(reef_core::Error::NotFound(format!("no device {name:?}"))),
    }
}

/// One device for all sessions.
pub(crate) fn shared() -> Served {
    shared_by(Host::start)
}

/// As [`shared`], for tenants.
pub(crate) fn shared_for(tenants: &Tenants) -> Served {
    let devices =
        Devices::shared(|name| Ok(Arc::new(Host::start(&open(name)?)?) as Arc<dyn DeviceHost>));
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("reef.sock"));
    listen_with(devices.for_tenants(tenants), &address, folder, tenants.tokens())
}

/// As [`shared`], with a dispatcher of its own.
pub(crate) fn shared_by(
    start: impl Fn(&Cpu) -> reef_core::Result<Host<Cpu>> + Send + Sync + 'static,
) -> Served {
    let known = Arc::<OnceLock<_>>::default();
    let opened = known.clone();
    let devices = Devices::shared(move |name| {
        let host = Arc::new(start(&open(name)?)?);
        let _ = opened.set(host.clone()); // the first one counts
        Ok(host as Arc<dyn DeviceHost>)
    });
    Served { host: known, ..listen(devices) }
}

/// As [`shared`], of another device.
pub(crate) fn shared_of<D: Operators>(device: D) -> Served {
    listen(Devices::shared(move |_| Ok(Arc::new(Host::start(&device)?) as Arc<dyn DeviceHost>)))
}

/// A device for each session, with raw launches.
pub(crate) fn each() -> Served {
    listen(Devices::each(|name| {
        // SAFETY: the clients are the tests of this program, whose launches are sound.
        let host: Arc<dyn DeviceHost> = Arc::new(unsafe { Host::start_raw(&open(name)?)? });
        Ok(host)
    }))
}

fn own_devices() -> Devices {
    Devices::each(|name| Ok(Arc::new(Host::own(&open(name)?)) as Arc<dyn DeviceHost>))
}

/// A device for each session, whose client preempts it at each level.
pub(crate) fn own() -> Served {
    listen(own_devices())
}

/// As [`own`], for clients whose connections break: on a busy machine they may come back late.
pub(crate) fn own_torn() -> Served {
    listen(own_devices().kept_when_closed(Duration::from_secs(60)))
}

/// As [`own`], over TCP.
pub(crate) fn own_tcp() -> Served {
    listen_at(own_devices(), &"127.0.0.1:0".parse().unwrap(), tempfile::tempdir().unwrap())
}
