//! Man pages and shell completions, generated from the command line's definition.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;

/// The definition of the command line, with all names built.
fn command() -> Command {
    let mut command = roce_cli::command_line().disable_help_subcommand(true);
    command.build();
    command
}

/// The name and text of each man page: one for the command and one for each visible subcommand.
///
/// # Errors
/// None are known: the pages are written to memory.
pub(crate) fn man_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let command = command();
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut pages = Vec::new();
    for page in shown.chain([&command]) {
        let name = page.get_display_name().unwrap_or(page.get_name());
        let mut text = Vec::new();
        Man::new(page.clone()).render(&mut text)?;
        pages.push((name.to_owned(), text));
    }
    Ok(pages)
}

/// The installation path and the script for each shell.
pub(crate) fn completions() -> Vec<(String, Vec<u8>)> {
    let places = [
        (Shell::Bash, "share/bash-completion/completions/roce"),
        (Shell::Fish, "share/fish/vendor_completions.d/roce.fish"),
        (Shell::Zsh, "share/zsh/vendor-completions/_roce"),
    ];
    let script = |shell| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command(), "roce", &mut text);
        text
    };
    places
        .map(|(shell, path)| (path.to_owned(), script(shell)))
        .into()
}
