//! The `roce` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    roce_cli::main()
}
