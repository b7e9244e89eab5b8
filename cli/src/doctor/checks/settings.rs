//! The variables of the environment that this stack reads.

use super::Context;
use crate::doctor::finding::Finding;
use roce_verbs::settings::{check_environment, unknown_variables};

const CHECK: &str = "variables";

/// Checks the variables of this process. The code that reads settings can't read another
/// environment.
pub(in crate::doctor) fn settings(_: &Context<'_>) -> Vec<Finding> {
    let wrong = check_environment(&[]);
    let mut findings: Vec<Finding> = wrong
        .iter()
        .map(|error| Finding::failure(CHECK, error.to_string()))
        .collect();
    for unknown in unknown_variables() {
        let finding = Finding::warning(CHECK, unknown.to_string());
        let name = &unknown.name;
        // A shell can unset only such names.
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        findings.push(match is_name {
            true => finding.remedy(format!("unset {name}")),
            false => finding,
        });
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "every ROCE_ variable is valid"));
    }
    findings
}
