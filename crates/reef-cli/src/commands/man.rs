//! `reef man`: the manual page, made of the same texts as `--help`.

use crate::report::output::print;
use anyhow::Result;
use clap::{Arg, Command};
use std::fmt::Write;

/// Prints the page of `reef` and of all its commands.
pub(crate) fn run(mut command: Command) -> Result<()> {
    command.build();
    let version = env!("CARGO_PKG_VERSION");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page =
        format!(".TH REEF 1 \"\" \"reef {version}\"\n.SH NAME\nreef \\- {}\n", text(&about));
    page.push_str(".SH COMMANDS\n");
    add(&mut page, &command);
    if let Some(after) = command.get_after_help() {
        let _ = write!(page, ".SH EXIT STATUS\n.nf\n{}\n.fi\n", text(&after.to_string()));
    }
    print(page.trim_end())
}

/// Adds the commands below `command`, with their options.
fn add(page: &mut String, command: &Command) {
    let is_shown = |below: &&Command| below.get_name() != "help" && !below.is_hide_set();
    for below in command.get_subcommands().filter(is_shown) {
        let usage = below.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim();
        let about = below.get_long_about().or(below.get_about()).map(ToString::to_string);
        let _ = write!(page, ".SS {}\n{}\n", text(usage), text(&about.unwrap_or_default()));
        for arg in below.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help")
        {
            add_argument(page, arg);
        }
        add(page, below);
    }
}

fn add_argument(page: &mut String, arg: &Arg) {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let default = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let default = default.collect::<Vec<_>>().join(",");
    let is_said = default.is_empty() || !arg.get_action().takes_values();
    let default = if is_said { String::new() } else { format!(" [default: {default}]") };
    let _ = write!(
        page,
        ".TP\n\\fB{}\\fR\n{}{}\n",
        text(&arg.to_string()),
        text(&help),
        text(&default)
    );
}

/// Text that roff takes for text.
fn text(plain: &str) -> String {
    let escaped = plain.replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| {
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
    };
    escaped.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_is_never_a_roff_request() {
        assert_eq!(text(".TH\n'x\\y --a"), "\\&.TH\n\\&'x\\ey \\-\\-a");
    }
}
