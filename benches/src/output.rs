//! Running a command to its end.

use std::process::Command;

/// Runs a command to its end. Returns its output.
///
/// # Errors
/// If it fails; the error contains its output.
pub fn output(mut command: Command) -> Result<String, String> {
    let done = command
        .output()
        .map_err(|e| format!("running {command:?}: {e}"))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(text);
    }
    Err(format!(
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&done.stderr)
    ))
}
