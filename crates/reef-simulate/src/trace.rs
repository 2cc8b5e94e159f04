//! Arrivals from a file: CSV with the header `time_ns,class,network`, in any order of time.

use crate::class::Class;
use crate::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER: &str = "time_ns,class,network";
/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 4096;

/// The times of a class and network, ascending, in nanoseconds.
pub(crate) fn read(path: &Path, class: Class, network: &str) -> Result<Vec<u64>, Error> {
    let file = |source| Error::File { path: path.into(), source };
    let mut reader = BufReader::new(reef_files::regular(path).map_err(file)?);
    let mut lines = std::iter::from_fn(|| line(&mut reader).transpose());
    let format = |what: String| Error::Format { path: path.into(), what };
    let header = lines.next().transpose().map_err(file)?.unwrap_or_default();
    let header = header.trim_end();
    if header != HEADER {
        return Err(format(format!("line 1 is {header:?}, not {HEADER:?}")));
    }
    let mut times = Vec::new();
    for (at, line) in lines.enumerate() {
        let line = line.map_err(file)?;
        let line = line.trim_end();
        let row = row(line).ok_or_else(|| {
            format(format!("line {} is {line:?}: must be like \"1000,rt,resnet50\"", at + 2))
        })?;
        if (row.1, row.2) == (class, network) {
            times.push(row.0);
        }
    }
    times.sort_unstable();
    Ok(times)
}

/// The next line, with its end.
fn line(reader: &mut BufReader<File>) -> io::Result<Option<String>> {
    let mut line = String::new();
    let bytes = reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)? as u64;
    if bytes == MAX_LINE_BYTES && !line.ends_with('\n') {
        let why = format!("lines must have at most {MAX_LINE_BYTES} bytes, got more");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok((bytes > 0).then_some(line))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_without_an_end_is_refused_at_its_bound() {
        let name = format!("reef-trace-lines-{}.csv", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("{HEADER}\n7,rt,a\r\n5,rt,a\n1,be,a")).unwrap();
        assert_eq!(read(&path, Class::Rt, "a").unwrap(), [5, 7]);
        File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
        let error = read(&path, Class::Rt, "a").unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.ends_with("lines must have at most 4096 bytes, got more"), "{error}");
    }
}
