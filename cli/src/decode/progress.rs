//! A progress bar for large files.

use std::io::IsTerminal;

use indicatif::ProgressBar;

/// The size from which a file is large, in bytes: decoding takes a second or so.
const LARGE: u64 = 128 << 20;

/// A progress bar on stderr, if stderr is a terminal, the file is large, and no packet lines go to
/// the same terminal. Otherwise a hidden one.
pub(super) fn bar(file_len: u64, prints_packets: bool) -> ProgressBar {
    let mixes = prints_packets && std::io::stdout().is_terminal();
    if file_len < LARGE || mixes || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{bytes}/{total_bytes} [{wide_bar}] {bytes_per_sec}, {eta} left";
    crate::progress::bar(file_len, template)
}
