//! Columns for people, without lines, so that they can be cut and searched. On a terminal they fit its width: the
//! least important columns are left out or shortened. Anywhere else everything is printed in full.

use unicode_width::UnicodeWidthStr;

use super::paint::{self, Ink};
use super::stop::Stop;
use super::{printable, stdout, terminal};

/// Between two columns.
const GAP: usize = 2;
/// The width below which no column is cut: enough to tell most things apart.
const SHORTEST: usize = 8;
/// Text is not wrapped into lines shorter than this.
const NARROWEST: usize = 16;
const CUT: char = '…';

/// Rows under a heading. The first column names the thing and is never cut.
#[derive(Debug)]
pub struct Columns {
    heading: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns that are left out on a narrow terminal, in this order.
    spare: &'static [&'static str],
    last: Last,
}

/// What happens to the last column where space is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It is cut, as others are.
    Word,
    /// It is wrapped.
    Text,
}

impl Columns {
    pub fn new<const N: usize>(heading: [&'static str; N]) -> Self {
        Self { heading: heading.into(), rows: Vec::new(), spare: &[], last: Last::Word }
    }

    /// Names the columns to leave out on a narrow terminal, the least important first.
    pub fn spare(mut self, columns: &'static [&'static str]) -> Self {
        self.spare = columns;
        self
    }

    /// Makes the last column text, which is wrapped instead of cut.
    pub fn with_text(mut self) -> Self {
        self.last = Last::Text;
        self
    }

    /// Leaves a column out everywhere.
    pub fn without(mut self, column: &str) -> Self {
        self.leave_out(column);
        self
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| printable::line(cell)).collect());
    }

    pub fn print(self) -> Result<(), Stop> {
        stdout::line(&self.render(terminal::width(), paint::on_stdout()))
    }

    /// Returns the lines, at most `width` wide if given.
    pub fn render(mut self, width: Option<usize>, ink: Ink) -> String {
        let widths = match width {
            Some(width) => self.fit(width),
            None => self.widths(),
        };
        let mut lines = self.lines(&self.heading, &widths, |_, text| ink.bold(text));
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            lines.extend(self.lines(&cells, &widths, |column, text| {
                ink.state(self.heading[column], text).unwrap_or_else(|| text.to_owned())
            }));
        }
        lines.join("\n")
    }

    /// Returns one row, over several lines where the last cell is text that does not fit.
    fn lines(&self, cells: &[&str], widths: &[usize], shown: impl Fn(usize, &str) -> String) -> Vec<String> {
        let Some(last) = cells.len().checked_sub(1) else { return Vec::new() };
        let text = match self.last {
            Last::Text => wrapped(cells[last], widths[last]),
            Last::Word => vec![cut(cells[last], widths[last])],
        };
        let mut begin = String::new();
        for (column, cell) in cells.iter().enumerate().take(last) {
            let cell = cut(cell, widths[column]);
            let fill = widths[column] + GAP - cell.width();
            begin.push_str(&shown(column, &cell));
            begin.push_str(&" ".repeat(fill));
        }
        let indent = widths[..last].iter().map(|width| width + GAP).sum();
        let mut lines = Vec::new();
        for (number, line) in text.iter().enumerate() {
            let before = if number == 0 { begin.clone() } else { " ".repeat(indent) };
            lines.push((before + &shown(last, line)).trim_end().to_owned());
        }
        lines
    }

    /// Leaves columns out and returns the widths of the others, so that they fit if they can.
    fn fit(&mut self, width: usize) -> Vec<usize> {
        for name in self.spare {
            if total(&self.widths()) <= width {
                break;
            }
            self.leave_out(name);
        }
        let mut widths = self.widths();
        if self.last == Last::Text
            && let Some((last, others)) = widths.split_last_mut()
        {
            let room = width.saturating_sub(others.iter().map(|width| width + GAP).sum());
            *last = (*last).min(room.max(NARROWEST));
        }
        while total(&widths) > width {
            let least = |column: usize| SHORTEST.max(self.heading[column].width());
            let end = if self.last == Last::Text { widths.len() - 1 } else { widths.len() };
            let widest = (1..end)
                .filter(|column| widths[*column] > least(*column))
                .max_by_key(|column| widths[*column]);
            match widest {
                Some(column) => widths[column] -= 1,
                None => break,
            }
        }
        widths
    }

    fn leave_out(&mut self, name: &str) {
        if let Some(column) = self.heading.iter().position(|heading| *heading == name) {
            self.heading.remove(column);
            for row in &mut self.rows {
                row.remove(column);
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let cells = |column: usize| self.rows.iter().map(move |row| row[column].width());
        (0..self.heading.len())
            .map(|column| cells(column).max().unwrap_or(0).max(self.heading[column].width()))
            .collect()
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns the text cut to this width, with a mark where it was cut.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for character in text.chars() {
        shown.push(character);
        if shown.width() >= width {
            shown.pop();
            break;
        }
    }
    shown.push(CUT);
    shown
}

/// Returns the text in lines of at most this width, broken between words, and within words that are longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            line.push(character);
            if line.width() > width && line.chars().count() > 1 {
                line.pop();
                lines.push(std::mem::replace(&mut line, character.to_string()));
            }
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Columns {
        let mut table = Columns::new(["ID", "STATE", "EPOCH", "IMAGE", "AGE"]).spare(&["EPOCH"]);
        let cells = ["sbx_0123456789", "ready", "1", "docker.io/library/python:3.12", "2m"];
        table.row(cells.map(str::to_owned));
        table
    }

    #[test]
    fn everything_is_whole_where_there_is_no_width() {
        assert_eq!(
            table().render(None, Ink::none()),
            "ID              STATE  EPOCH  IMAGE                          AGE\n\
             sbx_0123456789  ready  1      docker.io/library/python:3.12  2m"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_less_and_the_id_whole() {
        assert_eq!(
            table().render(Some(44), Ink::none()),
            "ID              STATE  IMAGE             AGE\n\
             sbx_0123456789  ready  docker.io/libra…  2m"
        );
        for width in [45, 60, 63, 64, 80] {
            let shown = table().render(Some(width), Ink::none());
            assert!(shown.lines().all(|line| line.width() <= width && !line.is_empty()), "{width}\n{shown}");
            assert!(shown.contains("sbx_0123456789"));
        }
    }

    #[test]
    fn nothing_is_narrow_enough_to_be_a_fault() {
        for width in 0..40 {
            assert!(table().render(Some(width), Ink::none()).contains("sbx_0123456789"));
        }
        assert_eq!(Columns::new([]).render(Some(3), Ink::none()), "");
    }

    #[test]
    fn text_goes_on_below_itself() {
        let mut table = Columns::new(["WALL", "HOW"]).with_text();
        table.row([
            "seccomp".to_owned(),
            "a filter on system calls that refuses what is not listed".to_owned(),
        ]);

        assert_eq!(
            table.render(Some(38), Ink::none()),
            "WALL     HOW\n\
             seccomp  a filter on system calls that\n         refuses what is not listed"
        );
        assert_eq!(
            wrapped("a unix:///var/run/docker.sock b", 10),
            ["a", "unix:///va", "r/run/dock", "er.sock b"]
        );
        assert_eq!(wrapped("", 0), [""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("größe", 5), "größe");
        let mut table = Columns::new(["KEY", "AGE"]);
        table.row(["漢字".to_owned(), "2m".to_owned()]);
        assert_eq!(table.render(None, Ink::none()), "KEY   AGE\n漢字  2m");
    }
}
