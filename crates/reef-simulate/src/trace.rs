//! Arrivals from a file: CSV with the header `time_ns,class,network`, in any order of time.

use crate::class::Class;
use crate::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;

const HEADER: &str = "time_ns,class,network";

/// The times of a class and network, ascending, in nanoseconds.
pub(crate) fn read(path: &Path, class: Class, network: &str) -> Result<Vec<u64>, Error> {
    let file = |source| Error::File { path: path.into(), source };
    let mut lines = BufReader::new(reef_files::regular(path).map_err(file)?).lines();
    let format = |what: String| Error::Format { path: path.into(), what };
    let header = lines.next().transpose().map_err(file)?.unwrap_or_default();
    if header.trim_end() != HEADER {
        return Err(format(format!("line 1 is {header:?}, not {HEADER:?}")));
    }
    let mut times = Vec::new();
    for (at, line) in lines.enumerate() {
        let line = line.map_err(file)?;
        let row = row(line.trim_end()).ok_or_else(|| {
            format(format!("line {} is {line:?}: must be like \"1000,rt,resnet50\"", at + 2))
        })?;
        if (row.1, row.2) == (class, network) {
            times.push(row.0);
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn row(line: &str) -> Option<(u64, Class, &str)> {
    let mut cells = line.split(',');
    let time = cells.next()?.parse().ok()?;
    let class = match cells.next()? {
        "rt" => Class::Rt,
        "be" => Class::Be,
        _ => return None,
    };
    let network = cells.next().filter(|name| !name.is_empty())?;
    cells.next().is_none().then_some((time, class, network))
}
