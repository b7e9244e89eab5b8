//! Congestion control: what the environment asks for, and what becomes of QPs.

use crate::context::Context;
use crate::error::OpenError;
use crate::qp::QueuePair;
use roce_stack::{CongestionSettings, QpCongestion};

/// The variable that says how.
const VARIABLE: &str = "ROCE_CC";

/// How `ROCE_CC` says that devices are to control congestion, if it does. `@FILE` is what
/// the file says.
///
/// # Errors
/// If the value, or what the file says, is malformed, or the file can't be read.
pub fn environment_congestion() -> Result<Option<CongestionSettings>, OpenError> {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let text = value.to_string_lossy();
    read(&text)
        .map(Some)
        .map_err(|error| OpenError::Environment {
            variable: VARIABLE,
            value: text.into_owned(),
            error,
        })
}

fn read(text: &str) -> Result<CongestionSettings, String> {
    match text.strip_prefix('@') {
        None => text.parse().map_err(in_words),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("reading {file:?}: {error}"))?;
            text.parse()
                .map_err(in_words)
                .map_err(|error| format!("in {file:?}, {error}"))
        }
    }
}

fn in_words(error: roce_stack::CongestionSettingsError) -> String {
    error.to_string()
}

impl Context {
    /// Sets how the device controls congestion from now on. If the algorithm stays the same,
    /// QPs keep the rates that they have.
    pub fn set_congestion(&self, settings: &CongestionSettings) {
        self.inner.shared.lock().nic.set_congestion(settings);
    }

    /// How the device controls congestion.
    pub fn congestion(&self) -> CongestionSettings {
        self.inner.shared.lock().nic.congestion()
    }
}

impl QueuePair {
    /// What congestion control has made of the QP by now: its rate, its round trips, and
    /// what it has met of marks and notifications.
    pub fn congestion(&self) -> QpCongestion {
        let shared = &self.context().inner.shared;
        let mut engine = shared.lock();
        let now = engine.at(shared.now());
        let told = engine.nic.qp_congestion(now, self.qpn);
        told.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_stack::CongestionControl;

    #[test]
    fn what_a_file_says_is_as_good() {
        let name = format!("roce-cc-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let at = format!("@{}", path.display());
        assert!(
            read(&at)
                .expect_err("no such file")
                .contains("No such file")
        );
        std::fs::write(&path, "none # as it was\ncnp_dscp=46\n").expect("written");
        let settings = read(&at).expect("well-formed");
        assert_eq!(settings.control, CongestionControl::None);
        assert_eq!(settings.notification.cnp_dscp, 46);
        std::fs::write(&path, "dcqcn\nrpg_ai_rate=fast\n").expect("written");
        let error = read(&at).expect_err("malformed");
        assert!(
            error.contains("\"rpg_ai_rate=fast\" should be a rate in Mbit/s"),
            "{error}"
        );
        assert!(error.starts_with("in "), "{error}");
        std::fs::remove_file(&path).expect("removed");
    }
}
