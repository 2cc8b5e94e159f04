//! Scripts of the repository, which documents name: each is text of its language.
//!
//! No test runs most of them, as they need a GPU, another package or hours.

use std::io::ErrorKind;
use std::process::Command;

/// Program for Python that reads files and runs none of them.
const PARSE: &str = "
import ast, sys
for path in sys.argv[1:]:
    try:
        with open(path, encoding='utf-8') as file:
            ast.parse(file.read())
    except (SyntaxError, ValueError) as error:
        print(f'{path}: {error}')
";

/// Faults of scripts: those in Python by their ends, all others are a shell's.
///
/// # Errors
///
/// A shell or Python fails.
pub(super) fn faults(files: &[String]) -> Result<Vec<String>, String> {
    let mut faults = python(files)?;
    for file in files.iter().filter(|file| !file.ends_with(".py")) {
        faults.extend(shell(file)?);
    }
    Ok(faults)
}

/// Faults of Python's files. Without Python they are not read.
fn python(files: &[String]) -> Result<Vec<String>, String> {
    let scripts = files.iter().filter(|file| file.ends_with(".py"));
    let output = match Command::new("python3").args(["-c", PARSE]).args(scripts).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: python3: not found; scripts in Python are not read");
            return Ok(Vec::new());
        }
        output => output.map_err(|error| format!("python3: {error}"))?,
    };
    if !output.status.success() {
        return Err(format!("python3: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Fault of a shell's file.
fn shell(file: &str) -> Result<Option<String>, String> {
    let output = Command::new("bash").args(["-n", file]).output();
    let output = output.map_err(|error| format!("bash: {error}"))?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(Some(said.lines().next().unwrap_or(file).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn script_that_its_language_refuses_is_a_fault() {
        let folder = std::env::temp_dir().join(format!("reef-scripts-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        let good = [file("a.py", "a = 1\n"), file("a.sh", "echo a\n")];
        let bad = [file("b.py", "for a, per-thread b in c: d\n"), file("b.sh", "if true; then\n")];
        let has_python = Command::new("python3").arg("--version").output().is_ok();
        let found = (faults(&good).unwrap(), faults(&bad).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.0, [""; 0]);
        let bad = if has_python { &bad[..] } else { &bad[1..] };
        assert_eq!(found.1.len(), bad.len(), "{:?}", found.1);
        for (fault, file) in found.1.iter().zip(bad) {
            assert!(fault.starts_with(file.as_str()), "{fault}");
        }
    }
}
