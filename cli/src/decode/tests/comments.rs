//! The comments of packets in a file.

use super::{Blocks, Opcode, Order, Sender, json, packet, print};

const FLAGS: (u16, &[u8]) = (2, &[1, 0, 0, 0]);

/// A file of one packet with options, whose length requires padding.
fn file(order: Order, options: &[(u16, &[u8])]) -> Vec<u8> {
    let blocks = Blocks(order);
    let mut frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 8);
    frame.push(0);
    let mut file = blocks.section();
    file.extend(blocks.interface(1, &[]));
    file.extend(blocks.commented(0, 5, &frame, options));
    file
}

#[test]
fn comments_are_shown() {
    for order in [Order::Little, Order::Big] {
        let options = [
            (1, &b"one"[..]),
            FLAGS,
            (1, "zw\u{f6}lf".as_bytes()),
            (0, b""),
        ];
        let file = file(order, &options);
        let (packets, _) = json(&file, &[]);
        assert_eq!(
            packets[0]["comments"],
            serde_json::json!(["one", "zw\u{f6}lf"])
        );
        assert_eq!(packets[0]["icrc"]["verdict"], "ok");
        let (text, _) = print(&file, &[]);
        let line = text.lines().nth(1).unwrap();
        assert!(line.ends_with("  # one  # zw\u{f6}lf"), "{line}");
    }
}

#[test]
fn a_packet_without_comments_has_none() {
    for options in [&[][..], &[FLAGS]] {
        let file = file(Order::Little, options);
        let (packets, _) = json(&file, &[]);
        assert_eq!(packets[0].get("comments"), None);
        // The summary's table has a column of that name.
        let (text, _) = print(&file, &[]);
        assert!(!text.lines().nth(1).unwrap().contains('#'), "{text}");
    }
}

#[test]
fn records_that_are_not_roce_keep_theirs() {
    let blocks = Blocks(Order::Little);
    let mut file = blocks.section();
    file.extend(blocks.interface(1, &[]));
    file.extend(blocks.commented(0, 5, &[0; 60], &[(1, b"dropped")]));
    let (others, _) = json(&file, &["--other"]);
    assert_eq!(others[0]["comments"][0], "dropped");
    let (text, _) = print(&file, &["--other"]);
    assert!(
        text.lines().nth(1).unwrap().ends_with("  # dropped"),
        "{text}"
    );
}

/// Control characters in a comment are escaped: none starts a new line or controls the terminal.
#[test]
fn a_comment_stays_in_its_line() {
    let file = file(Order::Little, &[(1, b"a\nb\x1b[31mc\xff\r")]);
    let (text, broken) = print(&file, &[]);
    assert_eq!(broken, None);
    let line = text.lines().nth(1).unwrap();
    assert!(line.ends_with("  # a\\nb\\u{1b}[31mc\u{fffd}\\r"), "{line}");
}

/// The packet is shown even if the options after it have invalid lengths.
#[test]
fn broken_options_end_the_comments() {
    let whole = file(Order::Little, &[(1, b"one"), (1, b"two")]);
    // The second option's length: the block ends with it and four bytes of text.
    let at = whole.len() - 4 - 4 - 2;
    for len in [4_u8, 5, 255] {
        let mut file = whole.clone();
        file[at] = len;
        let (packets, _) = json(&file, &[]);
        assert_eq!(packets[0]["comments"][0], "one");
        assert_eq!(
            packets[0]["comments"].as_array().unwrap().len() == 2,
            len == 4
        );
    }
    // More comments than the decoder reads.
    let many: Vec<_> = (0..1000).map(|_| (1, &b""[..])).collect();
    let (packets, _) = json(&file(Order::Little, &many), &[]);
    assert_eq!(packets[0]["comments"].as_array().unwrap().len(), 64);
}
