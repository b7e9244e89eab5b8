//! The `nvme-rdma` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    roce_nvme::command::main()
}
