//! Unreliable connections (IBTA 1.7, 9.8.2).

mod errors;
mod hostile;
mod loss;
mod operations;

use crate::sim::Setup;
use roce_stack::QpKind;

/// The usual setup, with the service UC.
fn setup() -> Setup {
    Setup {
        kind: QpKind::Uc,
        ..Setup::default()
    }
}
