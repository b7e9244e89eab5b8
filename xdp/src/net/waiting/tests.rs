use super::*;

const MAC: Mac = [2, 0, 0, 0, 0, 2];
const START: Instant = Instant::from_nanos(1_000_000_000);

fn hop(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

/// The released frames and their outcomes, with `resolution` as the state of each next hop.
fn release(
    waiting: &mut Waiting<u32>,
    now: Instant,
    resolution: impl Fn(IpAddr) -> Resolution,
) -> Vec<(u32, Outcome)> {
    let mut out = Vec::new();
    waiting.release(now, resolution, |frame, outcome| out.push((frame, outcome)));
    out
}

#[test]
fn frames_are_released_in_order_when_their_next_hop_is_known() {
    let mut waiting = Waiting::default();
    for (number, to) in [(1, 1), (2, 2), (3, 1), (4, 3)] {
        assert_eq!(waiting.hold(hop(to), START, number), None);
    }
    let resolution = |address| match address {
        _ if address == hop(1) => Resolution::Known(MAC),
        _ if address == hop(3) => Resolution::Failed,
        _ => Resolution::Pending,
    };
    let out = release(&mut waiting, START, resolution);
    let unreachable = Outcome::Drop(WaitDrop::HostUnreachable);
    let sent = Outcome::Send(MAC);
    assert_eq!(out, [(1, sent), (3, sent), (4, unreachable)]);
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting.dropped(WaitDrop::HostUnreachable), 1);
    let out = release(&mut waiting, START, |_| Resolution::Known(MAC));
    assert_eq!(out, [(2, sent)]);
    assert!(waiting.is_empty());
}

#[test]
fn each_next_hop_keeps_its_newest_frames() {
    let mut waiting = Waiting::default();
    let all = MAX_WAITING_PER_HOP as u32;
    assert_eq!(waiting.hold(hop(2), START, 1000), None);
    for number in 0..all {
        assert_eq!(waiting.hold(hop(1), START, number), None);
    }
    assert_eq!(waiting.hold(hop(1), START, all), Some(0));
    assert_eq!(waiting.dropped(WaitDrop::Overflow), 1);
    let out = release(&mut waiting, START, |_| Resolution::Known(MAC));
    let frames: Vec<u32> = out.into_iter().map(|(frame, _)| frame).collect();
    let expected: Vec<u32> = std::iter::once(1000).chain(1..=all).collect();
    assert_eq!(frames, expected);
}

#[test]
fn the_total_number_of_frames_is_bounded() {
    let mut waiting = Waiting::default();
    let mut dropped = 0;
    for number in 0..2 * MAX_WAITING as u32 {
        let to = hop((number % 64) as u8);
        dropped += usize::from(waiting.hold(to, START, number).is_some());
        assert!(waiting.len() <= MAX_WAITING);
    }
    assert_eq!(dropped, MAX_WAITING);
    assert_eq!(waiting.dropped(WaitDrop::Overflow), MAX_WAITING as u64);
}

#[test]
fn no_frame_waits_for_ever() {
    let mut waiting = Waiting::default();
    assert_eq!(waiting.next_deadline(), None);
    let later = START + Duration::from_secs(1);
    assert_eq!(waiting.hold(hop(1), START, 1), None);
    assert_eq!(waiting.hold(hop(1), later, 2), None);
    let deadline = START + MAX_WAIT;
    assert_eq!(waiting.next_deadline(), Some(deadline));
    let almost = deadline - Duration::from_nanos(1);
    assert_eq!(release(&mut waiting, almost, |_| Resolution::Pending), []);
    let out = release(&mut waiting, deadline, |_| Resolution::Pending);
    assert_eq!(out, [(1, Outcome::Drop(WaitDrop::TooLate))]);
    assert_eq!(waiting.next_deadline(), Some(later + MAX_WAIT));
}
