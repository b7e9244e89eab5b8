//! The path of a connection: RDMA_ROUTE.

use super::*;
use roce_verbs::qp::{ConnectOptions, PathMtu};

/// A path between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The source address of packets.
    pub source: IpAddr,
    /// The destination address of packets.
    pub destination: IpAddr,
    /// The traffic class: the DSCP is in the upper six bits.
    pub traffic_class: u8,
    /// The hop limit; 0 means the default.
    pub hop_limit: u8,
}

/// The ECN bits of the traffic class, which connections use themselves.
const ECN: u8 = 0b11;

impl Socket {
    /// Sets the path that the socket will connect along.
    ///
    /// # Errors
    /// EINVAL if the socket is connected, or the ends of the path differ in address family.
    pub(crate) fn set_route(&self, route: Route) -> Result<(), Error> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Idle) {
            let what = "the path can only be set before the socket is connected";
            return Err(Error::new(Errno::EINVAL, what));
        }
        if route.source.is_ipv4() != route.destination.is_ipv4() {
            let Route {
                source,
                destination,
                ..
            } = route;
            let what = format!("{source} and {destination} differ in address family");
            return Err(Error::new(Errno::EINVAL, what));
        }
        state.settings.route = Some(route);
        Ok(())
    }

    /// The path of a connection, and its largest path MTU; `None` if the socket is not connected.
    pub(crate) fn route(&self) -> Option<(Route, PathMtu)> {
        let state = self.state.lock();
        let (Phase::Stream(stream), Some(local), Some(remote)) =
            (&state.phase, state.local, state.remote)
        else {
            return None;
        };
        let options = connect_options(state.settings.route.as_ref());
        let route = Route {
            source: local.ip(),
            destination: remote.ip(),
            traffic_class: options.traffic_class & !ECN,
            hop_limit: options.hop_limit,
        };
        Some((route, stream.largest_path_mtu()))
    }
}

/// The options to connect a QP with, along the path that the program has set.
pub(super) fn connect_options(route: Option<&Route>) -> ConnectOptions {
    let defaults = ConnectOptions {
        access: roce_verbs::Access::REMOTE_WRITE,
        max_rd_atomic: 0,
        max_dest_rd_atomic: 0,
        ..ConnectOptions::default()
    };
    let Some(route) = route else {
        return defaults;
    };
    ConnectOptions {
        traffic_class: route.traffic_class & !ECN | defaults.traffic_class & ECN,
        hop_limit: match route.hop_limit {
            0 => defaults.hop_limit,
            limit => limit,
        },
        ..defaults
    }
}
