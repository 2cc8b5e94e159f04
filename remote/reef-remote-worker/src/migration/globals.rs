//! Variables of modules and libraries, which are memory too.

use super::memory::check;
use crate::driver::Driver;
use crate::reader::Reader;
use crate::state::log::Entry;
use reef_remote_calls::{Call, Kind, Load};
use reef_wire::Hot;
use serde::{Deserialize, Serialize};
use std::ffi::CString;

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Global {
    /// Module or library, and the context in which it is asked for.
    pub(crate) of: u64,
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    pub(crate) name: String,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// The program has asked for the address.
    pub(crate) is_known: bool,
    /// Its bytes; empty while they are not needed.
    pub(crate) value: Vec<u8>,
}

/// A module or a library, its context, and the names of its variables.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    pub(crate) names: Vec<String>,
}

/// Finds the names of the variables of images that were loaded.
///
/// # Errors
///
/// An image whose variables are not known.
pub(crate) fn images(entries: &[Entry]) -> Result<Vec<Image>, String> {
    let loads = entries.iter().flat_map(|entry| &entry.messages);
    let mut all = Vec::new();
    for message in loads.filter(|message| message.op == Load::OP) {
        let (load, rest) = Load::split(&message.body).map_err(|e| e.to_string())?;
        let mut rest = Reader(rest);
        rest.take(16 * load.options.get() as usize).map_err(|e| e.to_string())?;
        let names = names(rest.0)
            .map_err(|why| format!("a module whose variables are not known: {why}"))?;
        let kind = if load.is_library.get() != 0 { Kind::Library } else { Kind::Module };
        all.push(Image { id: load.id.get(), kind, context: message.context, names });
    }
    Ok(all)
}

/// Names of the variables of an image.
fn names(image: &[u8]) -> Result<Vec<String>, String> {
    let text = image.strip_suffix(&[0]).unwrap_or(image);
    if text.iter().all(|byte| *byte == 0) {
        return Ok(Vec::new());
    }
    let image = reef_ptx::Image::read(text).map_err(|e| e.to_string())?;
    match image.packed {
        0 => Ok(image.variables),
        packed => Err(format!("{packed} of its codes are packed")),
    }
}

/// Asks where a variable lies, in the current context. `None`: it isn't there.
pub(crate) fn find(driver: &Driver, kind: Kind, of: usize, name: &str) -> Option<(u64, u64)> {
    let (mut at, mut bytes) = (0_u64, 0_u64);
    let name = CString::new(name).ok()?;
    let ask = match kind {
        Kind::Library => Call::cuLibraryGetGlobal,
        _ => Call::cuModuleGetGlobal_v2,
    };
    let places = [&raw mut at as usize, &raw mut bytes as usize];
    // SAFETY: places for numbers, a handle of the driver's, and a text that ends with a zero.
    let code = unsafe { driver.of(ask).call([places[0], places[1], of, name.as_ptr() as usize]) };
    check(code).ok().filter(|()| bytes > 0).map(|()| (at, bytes))
}
