//! Progress bars.

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on stderr, if that is a terminal, with this template.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
