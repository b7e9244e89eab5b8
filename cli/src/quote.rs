//! Texts in a form that a shell or a terminal takes as it is meant.

/// Quotes a text for a POSIX shell, so that a printed command can be pasted whatever it contains.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:,+=@%".contains(&b);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    // Between quotes, a shell takes line breaks and tabs as they are.
    let lines = text.split_inclusive(['\n', '\t']).map(|line| {
        let end = line.trim_end_matches(['\n', '\t']).len();
        let (line, end) = line.split_at(end);
        printable(line).replace('\'', "'\\''") + end
    });
    format!("'{}'", lines.collect::<String>())
}

/// Escapes a text so that it can't control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => printed.extend(character.escape_default()),
            false => printed.push(character),
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        for (text, word) in [
            ("ibv_devinfo", "ibv_devinfo"),
            ("/opt/a-b/c.so.1", "/opt/a-b/c.so.1"),
            ("", "''"),
            ("my app", "'my app'"),
            ("x;rm -rf ~", "'x;rm -rf ~'"),
            ("it's", "'it'\\''s'"),
            ("a\n\tb\n", "'a\n\tb\n'"),
            ("a\x1b[2J", "'a\\u{1b}[2J'"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }
}
