//! Columns for people, without lines and colours, so that they can be cut and searched.

use comfy_table::{ContentArrangement, Table, presets};

use super::printable;
use super::stdout;
use super::stop::Stop;

/// Rows under a heading.
#[derive(Debug)]
pub struct Columns {
    table: Table,
}

impl Columns {
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heading);
        Self { table }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.table.add_row(cells.each_ref().map(|cell| printable::line(cell)));
    }

    pub fn print(mut self) -> Result<(), Stop> {
        for column in self.table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        stdout::line(&self.table.trim_fmt())
    }
}
