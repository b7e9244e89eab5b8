//! Devices, opened on first use and kept open.

use crate::error::{Error, OrErrno, is_shortage};
use nix::errno::Errno;
use parking_lot::Mutex;
use roce_trust::fork::PerProcess;
use roce_verbs::device::{Device, devices};
use roce_verbs::{Context, ProtectionDomain};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// An open device with a protection domain.
pub(crate) struct Nic {
    pub(crate) context: Context,
    pub(crate) pd: ProtectionDomain,
}

#[derive(Default)]
pub(crate) struct Nics(Mutex<Vec<Arc<Nic>>>);

static NICS: PerProcess<Nics> = PerProcess::new();

/// The open devices of the process.
pub(crate) fn nics() -> &'static Nics {
    NICS.get()
}

impl Nics {
    /// Opens the device with a local address. The scope of a link-local address selects among several.
    pub(crate) fn with_address(&self, local: SocketAddr) -> Result<Arc<Nic>, Error> {
        let scope = match local {
            SocketAddr::V6(local) => local.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let all = devices().or_errno(Errno::ENODEV)?;
        let found = all.iter().find(|device| {
            let interface = device.interface();
            let has_it = interface.addresses.contains(&local.ip());
            has_it && (scope == 0 || interface.index == scope)
        });
        let Some(device) = found else {
            let what = format!(
                "no RoCE device has the address {}; `roce devices` lists the devices",
                local.ip()
            );
            return Err(Error::new(Errno::EADDRNOTAVAIL, what));
        };
        self.open_or_reuse(device)
    }

    /// Opens all devices, and skips any that can't be opened.
    ///
    /// # Errors
    /// If the devices can't be listed, descriptors or memory run out, or there are devices and none can
    /// be opened.
    pub(crate) fn all(&self) -> Result<Vec<Arc<Nic>>, Error> {
        let all = devices().or_errno(Errno::ENODEV)?;
        let mut opened = Vec::with_capacity(all.len());
        let mut failed = None;
        for device in &all {
            match self.open_or_reuse(device) {
                Ok(nic) => opened.push(nic),
                Err(error) if is_shortage(error.errno()) => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if opened.is_empty() => Err(error),
            _ => Ok(opened),
        }
    }

    fn open_or_reuse(&self, device: &Device) -> Result<Arc<Nic>, Error> {
        let index = device.interface().index;
        let mut open = self.0.lock();
        let is_it = |nic: &&Arc<Nic>| nic.context.device().interface().index == index;
        if let Some(nic) = open.iter().find(is_it) {
            return Ok(Arc::clone(nic));
        }
        let context = device.open().or_errno(Errno::ENODEV)?;
        let pd = context.alloc_pd();
        let nic = Arc::new(Nic { context, pd });
        open.push(Arc::clone(&nic));
        Ok(nic)
    }
}

/// The source address that the routing table selects for `remote`, with port 0.
pub(crate) fn source_for(remote: SocketAddr) -> Result<SocketAddr, Error> {
    let any = match remote {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
    };
    let routed = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(remote)?;
        socket.local_addr()
    };
    let mut local = routed().map_err(|error| {
        let errno = error
            .raw_os_error()
            .map_or(Errno::ENETUNREACH, Errno::from_raw);
        Error::new(errno, error)
    })?;
    local.set_port(0);
    Ok(local)
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}
