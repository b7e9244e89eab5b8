//! Numbers with their nouns, and paragraphs.

/// Columns of a paragraph.
pub(crate) const WIDTH: usize = 100;

/// A number of things, such as `1 packet` or `2 processes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('s') || noun.ends_with("ch") => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// A number in hexadecimal with 0x, or in decimal.
pub(crate) fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `start`, then the words of `text` in lines of at most [`WIDTH`] columns; all but the first begin at column
/// `indent`.
pub(crate) fn wrapped(start: &str, text: &str, indent: usize) -> String {
    let mut all = String::new();
    let mut line = start.to_owned();
    for word in text.split(' ') {
        let is_full = line.chars().count() + word.chars().count() > WIDTH;
        if is_full && !line.trim().is_empty() {
            all += &format!("{}\n", line.trim_end());
            line = " ".repeat(indent);
        }
        line += &format!("{word} ");
    }
    all + line.trim_end() + "\n"
}
