//! Congestion control: what the environment asks for, and what becomes of QPs.

use crate::context::Context;
use crate::environment;
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
    environment::variable(VARIABLE, environment::text_or_file)
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
    use crate::environment::text_or_file;
    use roce_stack::CongestionControl;

    #[test]
    fn what_a_file_says_is_as_good() {
        let name = format!("roce-cc-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let at = format!("@{}", path.display());
        assert!(
            text_or_file::<CongestionSettings>(&at)
                .expect_err("no such file")
                .contains("No such file")
        );
        std::fs::write(&path, "none # as it was\ncnp_dscp=46\n").expect("written");
        let settings: CongestionSettings = text_or_file(&at).expect("well-formed");
        assert_eq!(settings.control, CongestionControl::None);
        assert_eq!(settings.notification.cnp_dscp, 46);
        std::fs::write(&path, "dcqcn\nrpg_ai_rate=fast\n").expect("written");
        let error = text_or_file::<CongestionSettings>(&at).expect_err("malformed");
        assert!(
            error.contains("\"rpg_ai_rate=fast\" should be a rate in Mbit/s"),
            "{error}"
        );
        assert!(error.starts_with("in "), "{error}");
        std::fs::remove_file(&path).expect("removed");
    }
}
