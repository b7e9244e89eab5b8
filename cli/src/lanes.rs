//! Lanes, in words.

use roce_verbs::datapath::NotAccepted;

/// Why packets to devices on this host take sockets, and to how many devices, according to the port's
/// counter of each name.
pub(crate) fn refusals(count: impl Fn(&str) -> Option<u64>) -> Vec<(NotAccepted, u64)> {
    let all = [
        NotAccepted::OtherUser,
        NotAccepted::Silent,
        NotAccepted::NoRoom,
    ];
    let counted = all.into_iter().filter_map(|why| {
        let devices = count(why.counter()?)?;
        (devices > 0).then_some((why, devices))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_that_were_counted_are_named() {
        let counters = [
            ("lanes_silent", 2),
            ("lanes_no_room", 0),
            ("lanes_broken", 5),
        ];
        let count = |name: &str| counters.into_iter().find(|(known, _)| *known == name);
        let found = refusals(|name| count(name).map(|(_, count)| count));
        assert_eq!(found, [(NotAccepted::Silent, 2)]);
    }
}
