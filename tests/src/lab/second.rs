//! A second guest on the lab's link, so that both ends can be Soft-RoCE.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::agent::Agent;
use super::guest::{GuestCommand, GuestOutput};
use super::qemu::Qemu;
use super::{
    Flavour, GUEST_RDMA_DEVICE, Lab, LabConfig, LabError, cache, initramfs, kernel, network,
};

/// A second guest, at [`SECOND_IP4`](super::SECOND_IP4), always with Soft-RoCE, and otherwise like
/// the first. It is powered off when dropped, and cannot outlive its lab.
#[derive(Debug)]
pub struct SecondGuest<'a> {
    agent: Arc<Agent>,
    _qemu: Qemu,
    _lab: &'a Lab,
}

impl Lab {
    /// Boots a second guest on the lab's link, with the link's MTU.
    ///
    /// # Errors
    /// As for [`Lab::boot`].
    pub fn boot_second(&self, config: &LabConfig) -> Result<SecondGuest<'_>, LabError> {
        let cache = cache::directory()?;
        let kernel = kernel::obtain(&cache, Flavour::SoftRoce)?;
        let initramfs = initramfs::build(&cache, &kernel, Flavour::SoftRoce)?;
        let folder = self.run.path().join("second");
        fs::create_dir_all(&folder).map_err(|e| LabError::io("create", &folder, &e))?;
        let config = LabConfig {
            flavour: Flavour::SoftRoce,
            mtu: self.mtu(),
            ..config.clone()
        };
        network::add_second(&self.namespace, config.mtu)?;
        let (qemu, channel) = Qemu::start(
            &self.namespace,
            &config,
            &kernel,
            &initramfs,
            &folder,
            network::SECOND,
        )?;
        let second = SecondGuest {
            agent: Agent::connect(channel, &folder)?,
            _qemu: qemu,
            _lab: self,
        };
        second.agent.wait_ready(config.boot_timeout)?;
        let port = format!("/sys/class/infiniband/{GUEST_RDMA_DEVICE}/ports/1");
        let script = format!(
            "until grep -q ACTIVE {port}/state && grep -q ffff:0a4d:0003 {port}/gids/1; \
             do sleep 0.1; done"
        );
        second
            .command(["sh", "-c", &script])
            .output(Duration::from_secs(30))
            .and_then(GuestOutput::success)?;
        Ok(second)
    }
}

impl SecondGuest<'_> {
    /// A command to be run in this guest: program and arguments.
    pub fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> GuestCommand {
        GuestCommand::new(
            Arc::clone(&self.agent),
            argv.into_iter().map(Into::into).collect(),
        )
    }
}
