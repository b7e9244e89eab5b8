//! Tables with aligned columns.

use std::fmt;

/// The alignment of a cell in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table with a header, whose columns are as wide as their widest cell.
#[derive(Clone, Debug)]
pub(super) struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows yet.
    pub(super) fn new(head: &[(&str, Align)]) -> Self {
        Self {
            aligns: head.iter().map(|&(_, align)| align).collect(),
            rows: vec![head.iter().map(|&(name, _)| name.to_owned()).collect()],
        }
    }

    /// Adds a row, with a cell for each column.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.aligns.len());
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(String::len).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.aligns.len()).map(width).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let mut line = String::from(if i == 0 { "" } else { "\n" });
            for ((cell, &width), align) in row.iter().zip(&widths).zip(&self.aligns) {
                line.push_str("  ");
                line.push_str(&match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            }
            f.write_str(line.trim_end_matches(' '))?;
        }
        Ok(())
    }
}
