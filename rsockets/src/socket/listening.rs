//! Listening.

use super::connecting::accept_incoming;
use super::*;
use crate::error::is_shortage;
use crate::nic::nics;
use std::net::Ipv4Addr;

impl Socket {
    /// `listen`. A socket at an unspecified address listens on all devices.
    pub(crate) fn listen(&self) -> Result<(), Error> {
        let is_bound = self.state.lock().claim.is_some();
        if !is_bound {
            let any = match self.domain {
                Domain::V4 => Ipv4Addr::UNSPECIFIED.into(),
                Domain::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            self.bind(SocketAddr::new(any, 0))?;
        }
        let mut state = self.state.lock();
        match state.phase {
            Phase::Listening(_) => return Ok(()),
            Phase::Idle => {}
            _ => return Err(Errno::EINVAL.into()),
        }
        let (Some(claim), Some(local)) = (state.claim.clone(), state.local) else {
            return Err(Errno::EINVAL.into());
        };
        let nics = if local.ip().is_unspecified() {
            nics().all()?
        } else {
            vec![nics().with_address(local)?]
        };
        let mut listeners = Vec::new();
        let mut failed = Error::new(Errno::ENODEV, "there is no RoCE device");
        for nic in nics {
            match Listener::with_claim(&nic.context, &claim).or_errno(Errno::ENODEV) {
                Ok(listener) => listeners.push((nic, listener)),
                Err(error) if is_shortage(error.errno()) => return Err(error),
                Err(error) => failed = error,
            }
        }
        if listeners.is_empty() {
            return Err(failed);
        }
        state.phase = Phase::Listening(listeners);
        self.announce();
        Ok(())
    }

    /// `accept`: the new socket, and the peer's address.
    pub(crate) fn accept(&self) -> Result<Arc<Self>, Error> {
        let limit = self.state.lock().settings.receive_timeout;
        let domain = self.domain;
        self.wait(self.patience(false, limit), |state| {
            let Phase::Listening(listeners) = &state.phase else {
                return Err(Errno::EINVAL.into());
            };
            for (nic, listener) in listeners {
                while let Some(incoming) = listener.try_accept() {
                    match accept_incoming(domain, nic, incoming, state) {
                        Ok(socket) => return Ok(Some(socket)),
                        // Dropping the request has refused it. It says nothing about the others,
                        // unless this process has no room for any.
                        Err(error) if is_of_this_process(error.errno()) => return Err(error),
                        Err(_) => {}
                    }
                }
            }
            Ok(None)
        })
    }
}

/// Whether an error means that this process has no descriptor or no memory left.
fn is_of_this_process(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
}
