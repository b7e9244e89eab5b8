use super::*;

/// An IPv4 header's checksum, from the sum of its words.
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("16 bits")
}

fn packet_v4(class: u8, id: u16) -> Vec<u8> {
    let mut frame = [mac(2), mac(1)].concat();
    frame.extend(IPV4.to_be_bytes());
    let mut header = [
        0x45, class, 0, 40, 0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    header[4..6].copy_from_slice(&id.to_be_bytes());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend([0xc1, 0x23, 0x12, 0xb7, 0, 20, 0, 0]);
    frame.extend([0; 12]);
    frame
}

#[test]
fn a_packet_of_roce_is_known_by_its_port_and_class() {
    let bytes = packet_v4(2, 7);
    let frame = parse(1, &bytes).expect("a frame");
    assert_eq!(frame.meta.src, IpAddr::from(ipv4(1)));
    assert_eq!(frame.meta.dst, IpAddr::from(ipv4(2)));
    assert_eq!((frame.meta.src_port, frame.meta.traffic_class), (0xc123, 2));
}

#[test]
fn frames_to_nobody_are_dropped_and_broadcasts_go_to_all() {
    let mut bytes = packet_v4(2, 7);
    bytes[..6].copy_from_slice(&[0xff; 6]);
    assert_eq!(parse(1, &bytes).expect("a frame").meta.dst, EVERYONE);
    bytes[..6].copy_from_slice(&[8, 0, 0, 0, 0, 2]);
    assert!(parse(1, &bytes).is_none());
}

#[test]
fn cut_frames_do_no_harm() {
    let whole = packet_v4(2, 7);
    for len in 0..whole.len() {
        if let Some(frame) = parse(1, &whole[..len]) {
            assert!(frame.meta.traffic_class == 2 || len < ETHERNET + 20);
        }
    }
}
