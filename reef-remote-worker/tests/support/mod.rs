//! A server with workers on the fake driver, and the client's library.

use crate::common::{Driver, FAKE, library};
use reef_remote_worker::{WorkerOptions, Workers};
use std::path::PathBuf;

/// The client's library.
pub(crate) const CLIENT: &str = "libreef_remote_cuda.so";

/// Starts a server on an address, and returns where it listens. It lasts as long as this process.
pub(crate) fn serve(address: &str) -> String {
    let mut options = WorkerOptions::new(env!("CARGO_BIN_EXE_reef-remote-worker").into());
    options.driver = Some(library(FAKE));
    let workers = Workers::bind(&address.parse().unwrap(), options).unwrap();
    let address = workers.address();
    std::thread::spawn(move || workers.run());
    address
}

/// A path for a UNIX socket of this test's.
pub(crate) fn socket(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("reef-b0-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    format!("unix:{}", path.display())
}

/// A copy of the client's library, which has a session of its own.
pub(crate) fn client(name: &str) -> Driver {
    let copy = std::env::temp_dir().join(format!("reef-b0-{name}-{}.so", std::process::id()));
    std::fs::copy(library(CLIENT), &copy).unwrap();
    let driver = Driver::open(&copy);
    std::fs::remove_file(copy).unwrap(); // the open library keeps it
    driver
}

/// The client's library under the driver's name, in a folder for `LD_LIBRARY_PATH`.
#[allow(dead_code)] // not all tests need it
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reef-b0-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("libcuda.so.1");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library(CLIENT), link).unwrap();
    folder
}
