//! Man pages and shell completions, made of the command line itself.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;

/// The command line, with all names made.
fn command() -> Command {
    let mut command = roce_cli::command_line().disable_help_subcommand(true);
    command.build();
    command
}

/// A page for the command and one for each subcommand that users are told of: name and text.
///
/// # Errors
/// None that is known: they are written to memory.
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

/// For each shell the path where it looks, and the script.
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
