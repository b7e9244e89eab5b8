//! Man pages and shell completions, generated from the definitions of the command lines.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// The definitions of the command lines, with all names built.
fn commands() -> [Command; 2] {
    let commands = [roce_cli::command_line(), roce_nvme::command::command_line()];
    commands.map(|command| {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        command
    })
}

/// The name and text of each man page: one for each command and each visible subcommand.
pub(crate) fn man_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    for command in commands() {
        add_pages(&command, None, &mut pages)?;
    }
    Ok(pages)
}

fn add_pages(
    command: &Command,
    parent: Option<&str>,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add_pages(sub, Some(name), pages)?;
    }
    let help = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string);
    let plain = command
        .clone()
        .after_help(None::<&str>)
        .after_long_help(None::<&str>);
    let mut page = Vec::new();
    // Subcommands have no version, which is the default in this place.
    let source = concat!("roce ", env!("CARGO_PKG_VERSION"));
    Man::new(plain).source(source).render(&mut page)?;
    let mut rest = Roff::new();
    add_help(&mut rest, help.as_deref().unwrap_or_default());
    rest.control("SH", ["SEE ALSO"]);
    if let Some(parent) = parent {
        rest.text([roman(format!("{parent}(1)"))]).control("PP", []);
    }
    rest.text([roman(
        "The pages whose names begin with docs/ are in share/doc/roce, below the folder of the installation.",
    )]);
    rest.to_writer(&mut page)?;
    pages.push((name.to_owned(), page));
    Ok(())
}

/// Adds the text that follows the options in `--help`: lists such as that of examples, and notes.
fn add_help(roff: &mut Roff, help: &str) {
    let mut section = String::new();
    for paragraph in help.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let list = first.strip_suffix(':').filter(|_| rest.starts_with("  "));
        let heading = match list {
            Some(title) => title.to_uppercase(),
            None if first.starts_with("Exit code:") => "EXIT STATUS".to_owned(),
            None => "NOTES".to_owned(),
        };
        match heading == section {
            true => roff.control("PP", []),
            false => roff.control("SH", [heading.as_str()]),
        };
        section = heading;
        match list {
            Some(_) => add_entries(roff, rest),
            None => {
                roff.text([roman(paragraph.replace('\n', " "))]);
            }
        }
    }
}

/// Adds the entries of a list. Each begins with two spaces; at least two more separate it from its
/// meaning, which may go on in lines that are indented deeper. An entry keeps its line.
fn add_entries(roff: &mut Roff, entries: &str) {
    let mut lines = entries.lines().peekable();
    while let Some(line) = lines.next() {
        let (entry, meaning) = line
            .trim_start()
            .split_once("  ")
            .unwrap_or((line.trim(), ""));
        let mut meaning = meaning.trim().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with("     ")) {
            meaning = format!("{meaning} {}", more.trim());
        }
        roff.control("PP", []).control("nf", []);
        roff.text([bold(entry)]).control("fi", []);
        if !meaning.is_empty() {
            roff.control("RS", ["4"]);
            roff.text([roman(meaning.trim())]);
            roff.control("RE", []);
        }
    }
}

/// The installation path and the script for each command and shell.
pub(crate) fn completions() -> Vec<(String, Vec<u8>)> {
    let mut scripts = Vec::new();
    for mut command in commands() {
        let name = command.get_name().to_owned();
        for (shell, path) in [
            (
                Shell::Bash,
                format!("share/bash-completion/completions/{name}"),
            ),
            (
                Shell::Fish,
                format!("share/fish/vendor_completions.d/{name}.fish"),
            ),
            (Shell::Zsh, format!("share/zsh/vendor-completions/_{name}")),
        ] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, &name, &mut script);
            scripts.push((path, script));
        }
    }
    scripts
}
