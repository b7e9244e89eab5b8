//! The passive side, which accepts connections, and the disconnection by either side.

use super::negotiated::rnr_timer;
use super::{ConnectionOptions, Devices, Id, IdError, IdQp, Inner, State, UDP_QKEY};
use crate::qp::ConnectOptions;
use roce_cm::{Acceptance, DatagramAcceptance, RejectReason};
use roce_stack::MAX_RD_ATOMIC;
use roce_wire::Psn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The default and maximum backlog: the number of requests that wait for the program.
const BACKLOG: usize = 1024;

/// The target ACK delay in a REP: 4.096 µs × 2^`ACK_DELAY`.
const ACK_DELAY: u8 = 14;

impl Id {
    /// Listens on the device that has the ID's address, or on all usable devices. An ID that is not bound
    /// listens at all IPv4 addresses, at a port that the system chooses, and one at a loopback
    /// address receives only requests to that address. `backlog` is from 1 to 1024; any other number
    /// means the most.
    ///
    /// # Errors
    /// If the ID's state does not allow it, or no device can listen.
    pub fn listen(self: &Arc<Self>, devices: &Devices, backlog: usize) -> Result<(), IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::Idle, State::Bound])?;
        if inner.state == State::Idle {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            self.bind_inner(&mut inner, devices, any)?;
        }
        let backlog = match backlog {
            1..BACKLOG => backlog,
            _ => BACKLOG,
        };
        self.listen_on_devices(&mut inner, devices, backlog)?;
        inner.state = State::Listening;
        Ok(())
    }

    /// # Errors
    /// If it does not listen.
    pub fn check_listens(&self) -> Result<(), IdError> {
        self.inner.lock().check(&[State::Listening])
    }

    fn listen_on_devices(
        self: &Arc<Self>,
        inner: &mut Inner,
        devices: &Devices,
        backlog: usize,
    ) -> Result<(), IdError> {
        let devices = match (&inner.device, inner.local) {
            (Some(device), _) => vec![Arc::clone(device)],
            (None, Some(local)) if local.ip().is_loopback() => vec![devices.with_address(local)?],
            _ => devices.all()?,
        };
        let claim = inner.claim.as_ref().ok_or(IdError::NoPath)?;
        let mut failed = IdError::NoDevice;
        for device in devices {
            let listen = || device.manager.listen(claim, backlog);
            match device
                .listeners
                .insert_with(self, listen)
                .map_err(IdError::from)
            {
                Ok(listener) => inner.listeners.push((device, listener)),
                Err(error) if error.is_shortage() => {
                    inner.stop_listening();
                    return Err(error);
                }
                Err(error) => failed = error,
            }
        }
        match inner.listeners.is_empty() {
            true => Err(failed),
            false => Ok(()),
        }
    }

    /// Accepts a peer's request. If the ID has a QP, it goes to RTS first. An event follows, unless it is
    /// a datagram service.
    ///
    /// # Errors
    /// If the ID's state does not allow it, an option is wrong, the QP can't be connected, or the peer
    /// has given up.
    pub fn accept(&self, options: ConnectionOptions, qp: Option<&dyn IdQp>) -> Result<(), IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::RequestReceived])?;
        let asked = inner.negotiated.options;
        let most = [asked.max_dest_rd_atomic, asked.max_rd_atomic];
        let options = options.checked(most.map(|depth| depth.min(MAX_RD_ATOMIC)).into())?;
        self.awaits_accept.store(false, Ordering::Relaxed);
        let qpn = options.qp()?;
        if self.is_datagram() {
            let acceptance = DatagramAcceptance {
                qpn,
                qkey: UDP_QKEY,
                private: options.private,
            };
            inner.with_agent(|agent, now, connection| {
                agent.accept_datagram(now, connection, &acceptance)
            })??;
            inner.state = State::Connected;
            return Ok(());
        }
        inner.negotiated.options = ConnectOptions {
            max_dest_rd_atomic: options.responder_resources,
            max_rd_atomic: options.initiator_depth,
            min_rnr_timer: rnr_timer(options.rnr_retry_count),
            ..asked
        };
        if let Some(qp) = qp {
            qp.connect(&inner.qp_parameters()?)?;
        }
        let acceptance = Acceptance {
            qpn,
            rq_psn: Psn::new(inner.psn),
            responder_resources: options.responder_resources,
            initiator_depth: options.initiator_depth,
            target_ack_delay: ACK_DELAY,
            flow_control: options.flow_control,
            rnr_retry_count: options.rnr_retry_count,
            srq: options.srq,
            private: options.private,
        };
        let accepted = inner
            .with_agent(|agent, now, connection| agent.accept(now, connection, &acceptance))?;
        if let Err(error) = accepted {
            qp.inspect(|qp| qp.fail());
            return Err(error.into());
        }
        inner.state = State::Connected;
        Ok(())
    }

    /// Refuses a peer's request or reply.
    ///
    /// # Errors
    /// If there is none, the private data are too long, or the peer has given up.
    pub fn reject(&self, private: &[u8]) -> Result<(), IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::RequestReceived, State::ReplyReceived])?;
        let reason = RejectReason::CONSUMER;
        inner.with_agent(|agent, now, connection| {
            agent.reject(now, connection, reason, private)
        })??;
        inner.state = State::Closed;
        Ok(())
    }

    /// A packet of the peer has shown that it is ready, although its RTU got lost.
    ///
    /// # Errors
    /// If the ID has no connection.
    pub fn communication_established(&self) -> Result<(), IdError> {
        let inner = self.inner.lock();
        inner.with_agent(|agent, now, connection| agent.established(now, connection))
    }

    /// Sends a DREQ, or a DREP if the peer has sent a DREQ, and moves the QP to ERR. `awaits_event` is
    /// for programs that wait for the event. One arrives only if this call ends the connection, or if the
    /// connection has already ended and its event is in the queue.
    ///
    /// # Errors
    /// If the ID is not connected, or no event would arrive.
    pub fn disconnect(&self, qp: Option<&dyn IdQp>, awaits_event: bool) -> Result<(), IdError> {
        let inner = self.inner.lock();
        if self.is_datagram() {
            return IdError::invalid("a datagram service has no connection to end".to_owned());
        }
        inner.check(&[State::Connected])?;
        qp.inspect(|qp| qp.fail());
        let ended =
            inner.with_agent(|agent, now, connection| agent.disconnect(now, connection, &[]))?;
        if awaits_event && self.channel().is_empty() {
            ended?;
        }
        Ok(())
    }
}
