//! Renders `docs/measured.md` from the JSON that `reef bench … --out` wrote.
//!
//! In: `docs/results/published.txt`, a line for each section: the newest file, perhaps older ones
//! of the same work behind commas, then a heading. Out: a section for each with device, date,
//! command, links to the files and a table of the newest. A bench has the columns that [`columns`]
//! names; a column that is empty in every row is left out.

use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const RESULTS: &str = "docs/results";
const PAGE: &str = "docs/measured.md";
const HEAD: &str = "# Measured

Made by `cargo xtask tables` from the [results](research/results.md); don't edit. What the columns mean stands in
[benchmarks.md](benchmarks.md), what was tried and dropped in the [lab book](lab/nvidia.md), where figures are that were only printed, and
which of them [are missed](lab/nvidia.md#what-is-missed-and-why). On NVIDIA GPUs a request's start is one launch since
2026-11-23, and launches of a graph start early; headings say what was measured before. Each section has the newest measurement of its
command, with links to older ones.

Columns and files have today's names. Commands have the names of their day, most of which are refused today; today's are:

| then | today |
|---|---|
| `bench preempt`, `bench pair`, `bench pad` | `bench start`, `bench colocate`, `bench saturate` |
| `--seconds 3`, `--lead 3` | `--time 3s`, `--lead 3s` |
| `--only`, `--scheduler` | `--schedulers` |
| `--rt`, `--be` | `--rt-model`, `--be-model` |
| `?beside=132` | `?colocated_blocks=132` |
| `-p reef-remote --test frames` | `-p reef-remote --test integration frames` |
";

/// Folders of files that commands name, and where they are today.
const MOVED: [(&str, &str); 1] = [(" reef-cli/disb/", " crates/reef-cli/disb/")];

/// Writes the page, or with `check` says whether it is what would be written.
///
/// # Errors
///
/// The fault of a file, or that the page is out of date.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let page = page(Path::new(RESULTS))?;
    if !check {
        return fs::write(PAGE, page).map_err(|error| format!("{PAGE}: {error}"));
    }
    match fs::read_to_string(PAGE) {
        Ok(found) if found == page => Ok(()),
        _ => Err(format!("{PAGE} is not what `cargo xtask tables` makes of {RESULTS}")),
    }
}

fn page(folder: &Path) -> Result<String, String> {
    let list = read(&folder.join("published.txt"))?;
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut page = HEAD.to_owned();
    for line in lines {
        let (files, heading) = line.split_once(' ').ok_or(format!("no heading: {line}"))?;
        let files = files
            .split(',')
            .map(|file| result(&folder.join(file)).map(|result| (file, result)))
            .collect::<Result<Vec<_>, String>>()?;
        let [(file, newest), others @ ..] = &files[..] else { continue };
        let older = older(newest, others)?;
        page += &section(file, heading.trim(), newest, &older)
            .ok_or(format!("{file}: not a result"))?;
    }
    Ok(page)
}

fn result(path: &Path) -> Result<Value, String> {
    serde_json::from_str(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// Links to older measurements, by their days.
///
/// # Errors
///
/// One of them is not older.
fn older(newest: &Value, others: &[(&str, Value)]) -> Result<String, String> {
    let mut links = Vec::new();
    for (file, result) in others {
        let date = day(result).ok_or(format!("{file}: not a result"))?;
        if Some(date) >= day(newest) {
            return Err(format!("{file}: must be older than the first file, got {date}"));
        }
        links.push(format!("[{date}](results/{file})"));
    }
    let links = links.join(", ");
    Ok(if links.is_empty() { links } else { format!(", older: {links}") })
}

/// Day of a measurement.
fn day(result: &Value) -> Option<&str> {
    result["date"].as_str()?.get(..10)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The command with the files where they are today.
fn today(command: &str) -> String {
    MOVED.iter().fold(command.to_owned(), |command, (then, now)| command.replace(then, now))
}

/// One result, with links to older ones; `None` if it is not of the form that `reef bench` writes.
fn section(file: &str, heading: &str, result: &Value, older: &str) -> Option<String> {
    let columns = columns(result["bench"].as_str()?)?;
    let rows = result["rows"].as_array()?;
    let shown: Vec<_> =
        columns.iter().filter(|c| rows.iter().any(|row| !row[c.0].is_null())).collect();
    let (name, date) = (result["device"]["name"].as_str()?, day(result)?);
    let command = today(result["command"].as_str()?);
    let mut text = format!(
        "\n## {heading}\n\n{name}, {date}, `{command}` ([file](results/{file}){older})\n\n"
    );
    let titles: Vec<_> = shown.iter().map(|column| column.1).collect();
    let _ = writeln!(text, "| {} |\n|{}", titles.join(" | "), "---|".repeat(titles.len()));
    for row in rows {
        let cells: Vec<_> = shown.iter().map(|column| cell(&row[column.0], column.2)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    Some(text)
}

fn cell(value: &Value, digits: usize) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Number(n) if n.is_f64() => format!("{:.digits$}", n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// Key in the JSON, title, digits behind the point.
type Column = (&'static str, &'static str, usize);

/// Columns of a bench.
fn columns(bench: &str) -> Option<&'static [Column]> {
    Some(match bench {
        "start" | "preempt" => &[
            ("load", "best-effort load", 0),
            ("queued", "queued", 0),
            ("scheduler", "scheduler", 0),
            ("ran_p50_us", "ran p50 µs", 1),
            ("ran_p99_us", "p99", 1),
            ("over_idle_p50_us", "− idle p50", 1),
            ("over_idle_p99_us", "p99", 1),
            ("quiesced_p50_us", "quiesced p50 µs", 1),
            ("resumed_p50_us", "resumed p50 µs", 1),
            ("requests", "requests", 0),
            ("be_right", "exactly once", 0),
        ],
        "colocate" | "pair" => &[
            ("arrivals", "RT requests", 0),
            ("scheduler", "scheduler", 0),
            ("rt_p50_ms", "RT p50 ms", 3),
            ("rt_p99_ms", "p99", 3),
            ("rt_p99_over_alone", "p99 ÷ alone", 2),
            ("be_kept_percent", "BE kept %", 1),
            ("requests", "requests", 0),
        ],
        "saturate" | "pad" => &[
            ("policy", "next to RT", 0),
            ("rt_p50_ms", "RT p50 ms", 3),
            ("rt_p99_ms", "p99", 3),
            ("rt_p99_over_alone", "p99 ÷ alone", 2),
            ("be_kept_percent", "BE kept %", 1),
            ("padded_launches", "padded", 0),
            ("requests", "requests", 0),
        ],
        "disb" => &[
            ("scheduler", "scheduler", 0),
            ("client", "client", 0),
            ("mean_ms", "mean ms", 3),
            ("mean_over_alone", "mean ÷ alone", 2),
            ("p99_ms", "p99 ms", 3),
            ("requests_per_second", "requests/s", 1),
            ("be_kept_percent", "BE kept %", 1),
        ],
        "cluster" => &[
            ("round", "round", 0),
            ("devices", "devices", 0),
            ("be_alone_per_second", "BE alone /s", 1),
            ("be_alone_over_one", "÷ one", 2),
            ("be_per_second", "BE /s", 1),
            ("be_over_one", "÷ one", 2),
            ("rt_p50_ms", "RT p50 ms", 3),
            ("rt_p99_ms", "p99", 3),
            ("rt_p99_over_one", "÷ one", 2),
        ],
        "hung" => &[
            ("round", "round", 0),
            ("beside", "next to", 0), // of records before the name changed
            ("neighbour", "next to", 0),
            ("be_tasks_per_s", "BE tasks/s", 0),
            ("be_over_alone", "÷ alone", 3),
            ("resume_p50_us", "resumed p50 µs", 0),
            ("resume_p99_us", "p99", 0),
            ("rt_p50_us", "RT p50 µs", 0),
            ("rt_p99_us", "p99", 0),
            ("error_after_ms", "error after ms", 0),
            ("requests", "requests", 0),
        ],
        "networks" => &[
            ("network", "network", 0),
            ("launches", "launches", 0),
            ("total_p50_ms", "p50 ms, copies included", 3),
            ("total_p99_ms", "p99", 3),
            ("device_p50_ms", "on the device p50 ms", 3),
            ("stoppable_ratio", "stoppable ÷ plain", 3),
        ],
        "remote-goals" => &[
            ("goal", "figure", 0),
            ("wanted", "wanted", 0),
            ("measured", "measured", 0),
            ("beside", "next to it", 0),
            ("command", "command", 0),
        ],
        "remote-networks" => &[
            ("model", "network", 0),
            ("line", "line", 0),
            ("rtt_ms", "RTT ms", 1),
            ("bandwidth", "bandwidth", 0),
            ("here_ms", "here p50 ms", 3),
            ("there_ms", "there p50 ms", 3),
            ("floor_ms", "floor ms", 3),
            ("best_effort", "best-effort throughput ÷ here", 3),
        ],
        "remote-programs" => &[
            ("program", "program", 0),
            ("rtt_ms", "RTT ms", 1),
            ("bandwidth", "bandwidth", 0),
            ("mode", "mode", 0),
            ("ms", "p50 ms", 2),
            ("floor_ms", "floor ms", 2),
            ("messages", "messages", 0),
            ("bytes_up", "bytes up", 0),
            ("equal", "equal output", 0),
        ],
        "remote-demo" => &[
            ("scheduler", "scheduler", 0),
            ("place", "device", 0),
            ("rt_p50_us", "RT p50 µs", 0),
            ("over_here_us", "− here", 0),
            ("be_kept", "BE kept", 3),
        ],
        "remote-move" => &[
            ("mib", "MiB", 0),
            ("pause_ms", "pause ms", 1),
            ("copied_mib", "copied in the pause MiB", 1),
            ("goal_ms", "goal ms", 1),
            ("total_s", "all s", 2),
        ],
        "launch" => &[
            ("way", "way", 0),
            ("call_p50_us", "call p50 µs", 2),
            ("each_p50_us", "each p50 µs", 2),
            ("each_p99_us", "p99", 2),
            ("alone_p50_us", "alone p50 µs", 2),
            ("guarded_over_plain", "guarded ÷ plain", 3),
        ],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_becomes_a_table_without_its_empty_columns() {
        let rows =
            json!([{ "policy": "none", "rt_p50_ms": 0.39, "requests": 7 }, { "policy": "x" }]);
        let result = json!({ "bench": "pad", "command": "reef bench pad", "date": "2026-11-21T20:00:00Z",
            "device": { "name": "H200" }, "rows": rows });
        let text = section("a/pad.json", "Padding", &result, "").unwrap();
        let table = text.lines().skip(5).collect::<Vec<_>>();
        let want = [
            "| next to RT | RT p50 ms | requests |",
            "|---|---|---|",
            "| none | 0.390 | 7 |",
            "| x | – | – |",
        ];
        assert_eq!(table, want);
        assert!(text.contains("H200, 2026-11-21, `reef bench pad`"));
    }

    #[test]
    fn files_that_commands_read_are_where_the_page_says() {
        let root = Path::new("..");
        let page = page(&root.join(RESULTS)).unwrap();
        let read =
            |word: &&str| word.contains('/') && (word.ends_with("json") || word.ends_with("py"));
        let commands = page.lines().filter_map(|line| line.split('`').nth(1)).collect::<Vec<_>>();
        let files = commands.iter().flat_map(|command| command.split(' ')).filter(read);
        let (there, gone): (Vec<_>, Vec<_>) = files.partition(|file| root.join(file).exists());
        assert!(there.len() > 5, "{there:?}");
        assert_eq!(gone, [""; 0]);
    }

    #[test]
    fn page_names_todays_commands_for_old_ones() {
        for name in ["bench start", "bench colocate", "bench saturate", "--schedulers"] {
            assert!(HEAD.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn file_without_results_is_refused() {
        assert!(section("a", "b", &json!({ "bench": "pad" }), "").is_none());
        assert!(section("a", "b", &json!({ "bench": "none", "rows": [] }), "").is_none());
    }

    #[test]
    fn older_measurements_are_linked_and_newer_ones_refused() {
        let of = |date: &str| json!({ "date": date });
        let newest = of("2026-11-23T20:00:00Z");
        assert_eq!(older(&newest, &[]).unwrap(), "");
        let before = [("a.json", of("2026-11-22T20:00:00Z")), ("b.json", of("2026-11-21"))];
        let want = ", older: [2026-11-22](results/a.json), [2026-11-21](results/b.json)";
        assert_eq!(older(&newest, &before).unwrap(), want);
        let fault = older(&newest, &[("c.json", of("2026-11-24"))]).unwrap_err();
        assert_eq!(fault, "c.json: must be older than the first file, got 2026-11-24");
    }
}
