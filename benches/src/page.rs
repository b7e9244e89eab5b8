//! Pages with parts that a benchmark generates, between two marker lines.

use std::path::Path;

/// Replaces the text between the lines `<!-- KIND: begin -->` and `<!-- KIND: end -->` of the page
/// at `path`.
///
/// # Errors
/// If the file can't be read or written, or lacks the marker lines.
pub fn write_between(path: &Path, kind: &str, text: &str) -> Result<(), String> {
    let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {kind}: {side} -->\n"));
    let name = path.display();
    let old = std::fs::read_to_string(path).map_err(|e| format!("reading {name}: {e}"))?;
    let parts = old
        .split_once(&begin)
        .and_then(|(head, rest)| Some((head, rest.split_once(&end)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{name} has no lines {begin:?} and {end:?}"))?;
    std::fs::write(path, format!("{head}{begin}{text}{end}{tail}"))
        .map_err(|e| format!("writing {name}: {e}"))
}

/// Processor and kernel, for the readers of the page.
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| {
        line.strip_prefix("model name")?
            .split_once(": ")
            .map(|(_, name)| name)
    });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = release
        .split('-')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    format!(
        "{cores} cores of {}, Linux {kernel}",
        model.unwrap_or("an unnamed processor")
    )
}
