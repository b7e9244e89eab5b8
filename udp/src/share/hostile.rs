//! Other processes that misbehave according to a script, for the fuzz target `sharing` and for
//! tests.

use std::any::Any;
use std::fs::File;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Shutdown, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use roce_port::{Offered, Offers};
use roce_stack::{Addresses, QpnRange};

use super::addressee::Addressee;
use super::keeper::{self, KeeperThread};
use super::message;
use super::names::{self, PREFIX, SharedAddress};
use super::offer::offer_over;
use super::steer::{self, run::run};
use super::table::{self, Table};
use super::{holder, join, sockets, watch};

/// The maximum number of messages of a script.
const MAX_MESSAGES: usize = 64;

/// The bytes of a script, one after the other. After the end, zeros follow.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn part(&mut self) -> QpnRange {
        QpnRange::new(self.byte() % QpnRange::COUNT).unwrap_or(QpnRange::FIRST)
    }
}

/// Plays a script: messages of another process to each reader of messages, or lines of the kernel's
/// tables, or packets. The first byte says which.
///
/// # Panics
/// If two computations of the same result disagree.
pub fn run_script(script: &[u8]) {
    let mut script = Script(script);
    match script.byte() % 7 {
        0 => receive_messages(&mut script),
        1 => receive_as_keeper(&mut script),
        2 => receive_as_newcomer(&mut script),
        3 => watch_peer(&mut script),
        4 => read_tables(&mut script),
        5 => steer_packets(&mut script),
        _ => receive_answer(&mut script),
    }
}

fn shared() -> SharedAddress {
    // A documentation address, which no other test shares.
    SharedAddress::new(Ipv4Addr::new(192, 0, 2, 77).into(), 0)
}

/// Sends one message of the script: any bytes, and any number of descriptors. Returns `false` if
/// the other end takes no more.
fn send_any(script: &mut Script<'_>, to: &UnixStream) -> bool {
    let kind = script.byte();
    let len = match kind % 8 {
        0 => usize::from(script.byte()),
        1 => 1,
        _ => 2,
    };
    let count = match kind / 8 % 8 {
        0 => usize::from(script.byte()).min(253),
        1 => 128,
        2 => 129,
        3 => 2,
        4 => 1,
        _ => 0,
    };
    let mut bytes = script.take(len).to_vec();
    if kind & 0x80 != 0 && bytes.len() == 2 {
        // One that is valid.
        bytes = vec![1 + bytes[0] % 4, bytes[1] % QpnRange::COUNT];
    }
    if bytes.is_empty() {
        return false;
    }
    let file = match kind / 64 % 2 {
        0 => File::open("/dev/null").map(OwnedFd::from),
        _ => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(OwnedFd::from),
    };
    let Ok(file) = file else { return false };
    let descriptors: Vec<RawFd> = vec![file.as_raw_fd(); count];
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let rights = if count == 0 { &[] } else { &rights[..] };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let bytes = [IoSlice::new(&bytes)];
    sendmsg::<()>(to.as_raw_fd(), &bytes, rights, flags, None).is_ok()
}

fn pair() -> (UnixStream, UnixStream) {
    let (peer, own) = UnixStream::pair().expect("a pair");
    own.set_nonblocking(true).expect("allowed");
    (peer, own)
}

/// Reads everything that a peer sends.
fn receive_messages(script: &mut Script<'_>) {
    let (peer, own) = pair();
    for _ in 0..MAX_MESSAGES {
        if !send_any(script, &peer) {
            break;
        }
        if script.byte().is_multiple_of(4) {
            continue;
        }
        while let Ok(Some(received)) = message::receive(&own) {
            assert!(received.descriptors.len() <= usize::from(QpnRange::COUNT));
        }
    }
    drop(peer);
    // Every read takes something, so the end comes.
    while !matches!(message::receive(&own), Ok(None)) {}
}

/// Plays several peers of the thread that answers for a member.
fn receive_as_keeper(script: &mut Script<'_>) {
    let sockets: Vec<OwnedFd> = (0..script.byte() % 4)
        .filter_map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok())
        .map(OwnedFd::from)
        .collect();
    let held = Arc::new(Mutex::new(sockets));
    let name = format!("{PREFIX}/hostile/{}", std::process::id());
    let listener = names::listen(&name).expect("nobody else has the name");
    let mut peers: Vec<Option<UnixStream>> = Vec::new();
    let offers = Arc::new(AcceptingOffers::default());
    let taken: Arc<dyn Offers> = Arc::<AcceptingOffers>::clone(&offers);
    let mut keeper = KeeperThread::without_thread(
        shared(),
        script.part(),
        listener,
        Arc::clone(&held),
        Some(taken),
    )
    .expect("allowed");
    for _ in 0..=script.byte() % 3 {
        let peer = names::connect(&name).expect("the backlog has room");
        peer.set_nonblocking(true).expect("allowed");
        peers.push(Some(peer));
    }
    for _ in 0..MAX_MESSAGES {
        let index = usize::from(script.byte()) % peers.len();
        match (script.byte() % 8, &mut peers[index]) {
            (0, peer) => *peer = None,
            (1, Some(peer)) => {
                let _ = peer.shutdown(Shutdown::Write);
            }
            (2, Some(peer)) => {
                let _ = message::receive(peer);
            }
            (_, Some(peer)) => {
                send_any(script, peer);
            }
            (_, None) => {}
        }
        keeper.handle_all();
        assert!(keeper::lock(&held).len() <= usize::from(QpnRange::COUNT));
        // A connection is for one offer.
        assert!(offers.accepted() <= peers.len());
        if script.0.is_empty() {
            break;
        }
    }
    drop(keeper);
    assert_eq!(offers.accepted(), 0);
}

/// Accepts two of three files, and gives them back.
#[derive(Debug, Default)]
struct AcceptingOffers {
    offered: Mutex<usize>,
    /// The values that were returned hold it.
    accepted: Arc<()>,
}

impl AcceptingOffers {
    fn accepted(&self) -> usize {
        Arc::strong_count(&self.accepted) - 1
    }
}

impl Offers for AcceptingOffers {
    fn take(&self, at: IpAddr, file: OwnedFd) -> Option<(Box<dyn Any + Send>, OwnedFd)> {
        assert_eq!(at, shared().address);
        let mut offered = self.offered.lock().expect("nobody panics");
        *offered += 1;
        let is_accepted = !offered.is_multiple_of(3);
        is_accepted.then(|| (Box::new(Arc::clone(&self.accepted)) as _, file))
    }
}

/// Plays a member to which a file is offered.
fn receive_answer(script: &mut Script<'_>) {
    let (peer, own) = pair();
    while !script.byte().is_multiple_of(4) && send_any(script, &peer) {}
    let part = script.part();
    peer.shutdown(Shutdown::Write).expect("allowed");
    let file = File::open("/dev/null").expect("opened");
    let Ok(Offered::Accepted(accepted)) = offer_over(own, part, file.as_fd()) else {
        return;
    };
    // Only a whole answer with one descriptor is one, and what was offered has arrived.
    drop(accepted);
    peer.set_read_timeout(Some(Duration::from_secs(60)))
        .expect("allowed");
    let offer = message::receive(&peer).expect("a message");
    let offer = offer.expect("a message");
    assert_eq!((offer.kind, offer.part), (message::Kind::Offer, part));
    assert_eq!(offer.descriptors.len(), 1);
}

/// Plays a member that a newcomer asks for the sockets.
fn receive_as_newcomer(script: &mut Script<'_>) {
    let (peer, own) = pair();
    while !script.byte().is_multiple_of(4) && send_any(script, &peer) {}
    let part = script.part();
    if let Ok(received) = join::request_sockets(&own, part) {
        assert!(received.len() <= usize::from(QpnRange::COUNT));
    }
}

/// Plays a process that is watched.
fn watch_peer(script: &mut Script<'_>) {
    let (peer, own) = pair();
    for _ in 0..MAX_MESSAGES {
        if !send_any(script, &peer) {
            break;
        }
    }
    let _ = watch::has_hung_up(&own);
    drop(peer);
    for _ in 0..=MAX_MESSAGES * 256 {
        if watch::has_hung_up(&own).expect("it can be polled") {
            return;
        }
    }
    panic!("a closed connection is not seen as one");
}

/// Reads the kernel's tables, in which other users' processes choose names.
fn read_tables(script: &mut Script<'_>) {
    let service = u32::from(script.byte()) << 16 | u32::from(script.byte());
    let with_prefix = script.byte() % 2 == 1;
    let text = String::from_utf8_lossy(script.0).into_owned();
    // In a name, the prefix is what a fuzzer does not guess.
    let text = if with_prefix {
        text.lines()
            .map(|line| format!("0: 2 0 10000 1 1 4711 @{PREFIX}/{line}\n"))
            .collect()
    } else {
        text
    };
    let names = table::parse(&text);
    let _ = Table::of(&shared(), &names).default_agent();
    for name in &names {
        if let Some(at) = names::claimed_at(name, service) {
            let again = names::claim(at, 0, service);
            assert_eq!(names::claimed_at(&again, service), Some(at));
            assert!(at.overlaps(Addresses::All));
        }
        let _ = holder::inode(&text, name);
    }
    for address in [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0_u8; 16])] {
        let _ = sockets::parse(&text, address);
    }
}

/// Steers packets by a table that is made of any names. The program in the kernel and this crate
/// must decide alike.
fn steer_packets(script: &mut Script<'_>) {
    let mut table = Table::default();
    for _ in 0..script.byte() % 16 {
        let part = script.part();
        let service = u32::from_be_bytes([1, 6, 0, script.byte() % 4]);
        match script.byte() % 4 {
            0 => table.agents.push(part),
            _ => table.services.push((service, part)),
        }
    }
    table.sort();
    let part = script.part();
    let packet = script.0;
    let steered = run(&steer::steering(&table), packet);
    let accepted = run(&steer::filter(part), &[&[0; 8], packet].concat()) > 0;
    match Addressee::of(packet) {
        // A packet that is cut off within a field is for the first socket, whose filter drops it.
        Addressee::Part(to) if packet.len() >= 8 => {
            assert_eq!(steered, u32::from(to.number()));
            assert_eq!(accepted, to == part);
        }
        Addressee::Server if packet.len() >= 60 => {
            assert!(accepted);
            assert!(steered < u32::from(QpnRange::COUNT));
        }
        Addressee::Unknown => assert_eq!((steered, accepted), (0, false)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::run_script;

    #[test]
    fn scripts_of_random_bytes_are_played() {
        let mut state = 7_u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for kind in (0..7).cycle().take(140) {
            let script: Vec<u8> = (0..200).map(|_| draw()).collect();
            run_script(&[&[kind], &script[..]].concat());
        }
    }
}
