//! A screen: lines of text in a few styles, no wider than the terminal.

use std::fmt::Write as _;

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Title,
    Head,
    /// Values that need attention.
    Bad,
    /// Values that are rarely needed.
    Dim,
}

/// A line: pieces, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(pub(crate) Vec<(Style, String)>);

impl Line {
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self(vec![(style, text.into())])
    }

    pub(crate) fn push(&mut self, style: Style, text: impl AsRef<str>) {
        self.0.push((style, text.as_ref().to_owned()));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Cuts the line off after `columns` columns.
    fn cut(&mut self, mut columns: usize) {
        for (_, text) in &mut self.0 {
            *text = text.chars().take(columns).collect();
            columns -= text.chars().count();
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) columns: usize,
    pub(crate) lines: Vec<Line>,
}

impl Screen {
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            columns,
            lines: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, mut line: Line) {
        line.cut(self.columns);
        self.lines.push(line);
    }

    pub(crate) fn text(&self) -> String {
        let mut all = String::new();
        for line in &self.lines {
            let text: String = line.0.iter().map(|(_, text)| text.as_str()).collect();
            let _ = writeln!(all, "{}", text.trim_end());
        }
        all
    }

    /// The output that makes a terminal show the screen in place of the previous one. It clears
    /// nothing beforehand, which avoids flicker.
    pub(crate) fn ansi(&self, rows: usize) -> String {
        let mut all = String::from("\x1b[H");
        for (row, line) in self.lines.iter().take(rows).enumerate() {
            if row > 0 {
                all.push_str("\r\n");
            }
            let fills = line
                .0
                .first()
                .is_some_and(|(style, _)| *style == Style::Title);
            for (style, text) in &line.0 {
                let _ = write!(all, "\x1b[{}m{text}", sgr(*style));
            }
            if fills {
                let _ = write!(all, "{:1$}", "", self.columns - line.len());
            }
            all.push_str("\x1b[0m");
            // A full line leaves nothing to clear, and some terminals would clear the last column.
            if !fills && line.len() < self.columns {
                all.push_str("\x1b[K");
            }
        }
        all.push_str("\x1b[J");
        all
    }
}

/// The terminal's own colours, which work on dark and light backgrounds.
fn sgr(style: Style) -> &'static str {
    match style {
        Style::Plain => "0",
        Style::Title => "0;7",
        Style::Head => "0;1",
        Style::Bad => "0;1;31",
        Style::Dim => "0;2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line never wraps: longer lines are cut off, and the last column of a full one is not
    /// cleared.
    #[test]
    fn lines_are_as_wide_as_the_terminal() {
        let mut screen = Screen::new(5);
        let mut line = Line::new(Style::Plain, "abc");
        line.push(Style::Bad, "defg");
        screen.push(line);
        screen.push(Line::new(Style::Title, "t"));
        assert_eq!(screen.text(), "abcde\nt\n");
        assert_eq!(
            screen.ansi(2),
            "\x1b[H\x1b[0mabc\x1b[0;1;31mde\x1b[0m\r\n\x1b[0;7mt    \x1b[0m\x1b[J"
        );
        assert!(!screen.ansi(1).contains('\n'));
    }
}
