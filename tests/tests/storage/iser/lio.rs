//! The kernel's target in the guest: LIO with isert, and one disk in a file.

use roce_tests::lab::{Drops, GUEST_IP4, Lab};

use super::{PORT, TIMEOUT, drop_packets, in_guest};

/// The name of the target. Its disk is logical unit 0.
const TARGET: &str = "iqn.2026-01.example:lio";

/// The file behind the disk, in the guest.
pub(super) const FILE: &str = "/tmp/iser-disk";

/// Size of the disk.
pub(super) const DISK: usize = 32 << 20;

/// Sets up target $1 at portal $2, with a disk of $4 bytes in file $3.
const SET_UP: &str = "
    modprobe target_core_file
    modprobe iscsi_target_mod
    modprobe ib_isert
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    cd /sys/kernel/config/target
    truncate -s $4 $3
    mkdir -p core/fileio_0/disk
    echo fd_dev_name=$3,fd_dev_size=$4 >core/fileio_0/disk/control
    echo 1 >core/fileio_0/disk/enable
    group=iscsi/$1/tpgt_1
    mkdir -p $group/lun/lun_0
    ln -s $PWD/core/fileio_0/disk $group/lun/lun_0/disk
    echo 0 >$group/attrib/authentication
    echo 1 >$group/attrib/generate_node_acls
    echo 1 >$group/attrib/cache_dynamic_acls
    echo 0 >$group/attrib/demo_mode_write_protect
    # libiscsi announces immediate data over iSER, and does not send it.
    echo No >$group/param/ImmediateData
    mkdir $group/np/$2
    echo 1 >$group/np/$2/iser
    echo 1 >$group/enable";

/// Removes what [`SET_UP`] made, also if that failed half-way. Fails if something is left.
const TEAR_DOWN: &str = "
    cd /sys/kernel/config/target
    group=iscsi/$1/tpgt_1
    echo 0 >$group/enable
    rmdir $group/np/*
    rm $group/lun/lun_0/disk
    rmdir $group/lun/lun_0 $group iscsi/$1 core/fileio_0/disk core/fileio_0
    rm $2
    ! test -e iscsi/$1 && ! test -e core/fileio_0";

pub(super) struct Lio<'a> {
    lab: &'a Lab,
}

impl<'a> Lio<'a> {
    /// Sets it up with an empty disk. It serves when this returns, until the value is dropped.
    pub(super) fn start(lab: &'a Lab) -> Self {
        let portal = format!("{GUEST_IP4}:{PORT}");
        // Whatever fails from here on, it is removed again.
        let started = Self { lab };
        in_guest(lab, SET_UP, &[TARGET, &portal, FILE, &DISK.to_string()]);
        started
    }

    /// Stops serving: sessions end.
    pub(super) fn stop(&self) {
        let script = "echo 0 >/sys/kernel/config/target/iscsi/$1/tpgt_1/enable";
        in_guest(self.lab, script, &[TARGET]);
    }

    /// The URL of the disk, for libiscsi.
    pub(super) fn url() -> String {
        format!("iser://{GUEST_IP4}:{PORT}/{TARGET}/0")
    }
}

impl Drop for Lio<'_> {
    fn drop(&mut self) {
        // Connections end sooner if nothing is lost.
        drop_packets(self.lab, Drops::None);
        let torn_down = self
            .lab
            .guest(["sh", "-c", TEAR_DOWN, "sh", TARGET, FILE])
            .output(TIMEOUT)
            .and_then(|output| output.success());
        if let (Err(error), false) = (torn_down, std::thread::panicking()) {
            panic!("the target stays: {error}");
        }
    }
}
