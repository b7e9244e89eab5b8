//! The congestion control that the environment sets.

use crate::environment;
use crate::error::OpenError;
use roce_stack::CongestionSettings;

/// The variable that sets the congestion control.
const VARIABLE: &str = "ROCE_CC";

/// The congestion control that `ROCE_CC` sets, if it is set. With `@FILE`, the settings are the
/// file's contents.
///
/// # Errors
/// If the value or the file's contents are malformed, or the file can't be read.
pub fn environment_congestion() -> Result<Option<CongestionSettings>, OpenError> {
    environment::variable(VARIABLE, environment::parse_text_or_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::parse_text_or_file;
    use roce_stack::CongestionControl;

    #[test]
    fn settings_can_come_from_a_file() {
        let name = format!("roce-cc-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let at = format!("@{}", path.display());
        assert!(
            parse_text_or_file::<CongestionSettings>(&at)
                .expect_err("no such file")
                .contains("No such file")
        );
        std::fs::write(&path, "none # as it was\ncnp_dscp=46\n").expect("written");
        let settings: CongestionSettings = parse_text_or_file(&at).expect("well-formed");
        assert_eq!(settings.control, CongestionControl::None);
        assert_eq!(settings.notification.cnp_dscp, 46);
        std::fs::write(&path, "dcqcn\nrpg_ai_rate=fast\n").expect("written");
        let error = parse_text_or_file::<CongestionSettings>(&at).expect_err("malformed");
        assert!(
            error.contains("\"rpg_ai_rate=fast\" should be a rate in Mbit/s"),
            "{error}"
        );
        assert!(error.starts_with("in "), "{error}");
        std::fs::remove_file(&path).expect("removed");
    }
}
