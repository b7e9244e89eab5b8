//! `roce pingpong`: two programs send a message back and forth, as rdma-core's `ibv_rc_pingpong`,
//! `ibv_uc_pingpong` and `ibv_ud_pingpong` do. Either end may be the original program that `--type`
//! names: the TCP exchange, the options and the printed lines are the same.
//!
//! ```text
//!   server                                    client
//!   listens on TCP port 18515     ◄────────   connects, sends its QP's address
//!   connects its QP, answers      ────────►   connects its QP
//!                                 ◄────────   "done"
//!                                 ◄────────   SEND   ┐
//!   SEND                          ────────►          ┘ --iters times
//! ```

mod args;
mod error;
mod exchange;
mod pattern;
mod plan;
mod report;
mod session;

pub use args::PingpongArgs;
pub use error::PingpongError;

use exchange::{Address, Listener};
use plan::Plan;
use report::Report;
use session::Session;

/// Runs one end to completion.
///
/// # Errors
/// If the arguments are invalid, the device does not open, the peer is not reachable or goes away,
/// data differ, or the result can't be printed.
pub fn run(args: &PingpongArgs) -> Result<(), PingpongError> {
    let plan = Plan::new(args)?;
    let mut session = Session::open(&plan)?;
    let local = Address::from(session.endpoint()?);
    let remote = match &plan.host {
        None => {
            let listener = Listener::bind(plan.listen_on(), plan.port)?;
            // A script that reads this line may start the client.
            report::local(&plan, &local)?;
            let mut client = listener.accept(plan.timeout, plan.peer_timeout)?;
            let remote = client.receive()?;
            // The QP must be ready before the client knows its address.
            session.connect(&remote)?;
            client.answer(&local)?;
            remote
        }
        Some(host) => {
            report::local(&plan, &local)?;
            let remote = exchange::exchange_with_server(
                &host.addresses,
                &host.name,
                plan.peer_timeout,
                &local,
            )?;
            session.connect(&remote)?;
            remote
        }
    };
    report::remote(&plan, &remote)?;
    let elapsed = session.run()?;
    Report::new(&plan, &local, &remote, elapsed).print(plan.json)
}
