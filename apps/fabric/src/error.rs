//! Errors.

use nix::errno::Errno;
use std::fmt;
use std::fs;
use std::io;

/// A failure to get what a fabric needs.
pub struct FabricError {
    what: String,
    source: io::Error,
    /// The permissions that are missing to the container in which this process runs.
    advice: Option<String>,
}

impl FabricError {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let errno = source.raw_os_error().map(Errno::from_raw);
        let advice = match errno {
            Some(Errno::EPERM | Errno::EACCES | Errno::ENOSYS) => {
                let read = |file| fs::read_to_string(file).unwrap_or_default();
                advice(&read("/proc/self/status"), &read("/proc/self/attr/current"))
            }
            _ => None,
        };
        Self {
            what: what.into(),
            source,
            advice,
        }
    }
}

/// What a container needs so that a fabric may be made in it, if this process seems to run in one
/// that restricts it: `status` has the mode of seccomp, `label` is that of AppArmor or SELinux.
fn advice(status: &str, label: &str) -> Option<String> {
    // Mode 2 is a filter.
    let filtered = status.lines().any(|line| {
        let mode = line.strip_prefix("Seccomp:");
        mode.is_some_and(|mode| mode.trim() == "2")
    });
    let mut options = Vec::new();
    options.extend(filtered.then_some("--security-opt seccomp=unconfined"));
    if label.trim_end().ends_with("(enforce)") {
        options.push("--security-opt apparmor=unconfined");
    } else if label.contains(":container") {
        options.push("--security-opt label=disable");
    }
    if options.is_empty() {
        return None;
    }
    options.push("--device /dev/net/tun");
    Some(format!(
        "this process is restricted, as in a container with the default profile: a container for a \
         fabric needs {}",
        options.join(" ")
    ))
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FabricError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restricted_container_is_told_its_options() {
        let filtered = "Name:\troce\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let free = "Name:\troce\nSeccomp:\t0\nSeccomp_filters:\t0\n";
        for (status, label, options) in [
            (free, "unconfined\n", None),
            (free, "", None),
            (
                filtered,
                "unconfined\n",
                Some("seccomp=unconfined --device"),
            ),
            (
                filtered,
                "docker-default (enforce)\n",
                Some("seccomp=unconfined --security-opt apparmor=unconfined --device /dev/net/tun"),
            ),
            (
                free,
                "system_u:system_r:container_t:s0:c1,c2\0",
                Some("needs --security-opt label=disable --device"),
            ),
        ] {
            match (advice(status, label), options) {
                (None, None) => {}
                (Some(advice), Some(options)) => assert!(advice.contains(options), "{advice}"),
                (advice, _) => panic!("{status} {label}: {advice:?}"),
            }
        }
    }
}
