//! Tables as text: "How wide may a line be?"
//!
//! Invariants: no colours and no control characters; no line is wider than asked, but for a single word; Markdown cells cannot
//! break their table.

use super::page::{Detail, Page, Table, pages};
use crate::analysis::delta::Pair;
use crate::limits::TABLE_COLUMNS;
use crate::run::Run;
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

/// Narrowest column of names; below it the other cells are wrapped, too.
const MIN_NAME_COLUMNS: usize = 20;

/// The tables for a terminal of a width.
pub fn terminal(run: &Run, pairs: &[Pair<'_>], detail: Detail, columns: u16) -> String {
    let width = columns.clamp(TABLE_COLUMNS.0, TABLE_COLUMNS.1);
    let mut out = String::new();
    for page in pages(run, pairs, detail) {
        let gap = if out.is_empty() { "" } else { "\n" };
        out.push_str(gap);
        wrapped(&mut out, "", &page.title, width);
        for table in &page.tables {
            out.push('\n');
            wrapped(&mut out, "", &table.title, width);
            if !table.rows.is_empty() {
                out.push_str(&plain(table, width));
            }
            for note in &table.notes {
                wrapped(&mut out, "  ", note, width);
            }
        }
    }
    if out.is_empty() {
        out.push_str("nothing to compare: no component has two records, or two reports of one route\n");
    }
    out
}

/// Adds text in lines of a width, broken between words.
fn wrapped(out: &mut String, indent: &str, text: &str, width: u16) {
    let mut line = indent.to_string();
    for word in text.split(' ') {
        let begun = line.len() > indent.len();
        if begun && line.chars().count() + 1 + word.chars().count() > usize::from(width) {
            out.push_str(&line);
            out.push('\n');
            line = format!("{indent}  {word}");
        } else {
            line.push_str(if begun { " " } else { "" });
            line.push_str(word);
        }
    }
    out.push_str(&line);
    out.push('\n');
}

fn plain(table: &Table, width: u16) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn.load_preset(comfy_table::presets::NOTHING);
    for component in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        drawn.set_style(component, '-');
    }
    drawn.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    drawn.set_header(table.header.clone());
    let room = room_for_names(table, width);
    for row in &table.rows {
        let mut row = row.clone();
        if let Some(name) = row.first_mut() {
            *name = broken(name, room);
        }
        drawn.add_row(row);
    }
    let noted = table.header.last().is_some_and(|last| last == "note");
    let last = table.header.len().saturating_sub(1);
    for (at, column) in drawn.column_iter_mut().enumerate() {
        column.set_padding((if at == 0 { 2 } else { 1 }, 1));
        if at != 0 && !(noted && at == last) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = drawn.trim_fmt();
    text.push('\n');
    text
}

/// Columns that the other cells, their padding and the gaps between them leave for the names.
fn room_for_names(table: &Table, width: u16) -> usize {
    let lines = || std::iter::once(&table.header).chain(&table.rows);
    let widest = |at: usize| lines().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let others: usize = (1..table.header.len()).filter_map(widest).map(|widest| widest + 3).sum();
    usize::from(width).saturating_sub(others + 3).max(MIN_NAME_COLUMNS)
}

/// A name in lines that are no longer than the room, broken behind its underscores and dots; no character is lost.
fn broken(name: &str, room: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for piece in name.split_inclusive(['_', '.']) {
        let length = piece.chars().count();
        if used > 0 && used + length > room {
            out.push('\n');
            used = 0;
        }
        out.push_str(piece);
        used += length;
    }
    out
}

/// The tables as Markdown.
pub fn markdown(run: &Run, pairs: &[Pair<'_>], detail: Detail) -> String {
    let mut out = String::from("# What changed\n");
    let all = pages(run, pairs, detail);
    if all.is_empty() {
        out.push_str("\nNothing to compare: no component has two records, or two reports of one route.\n");
    }
    for Page { title, tables } in all {
        out.push_str(&format!("\n## {}\n", escaped(&title)));
        for table in tables {
            out.push_str(&format!("\n### {}\n\n", escaped(&table.title)));
            if !table.rows.is_empty() {
                out.push_str(&line(&table.header, false));
                let rule = |at: usize| if at == 0 { "---" } else { "---:" };
                let rules: Vec<&str> = (0..table.header.len()).map(rule).collect();
                out.push_str(&format!("| {} |\n", rules.join(" | ")));
                table.rows.iter().for_each(|row| out.push_str(&line(row, true)));
            }
            for note in &table.notes {
                out.push_str(&format!("\n{}\n", escaped(note)));
            }
        }
    }
    out
}

fn line(cells: &[String], names: bool) -> String {
    let cell = |(at, text): (usize, &String)| match text.is_empty() {
        true => String::new(),
        false if names && at == 0 => format!("`{}`", text.replace('`', "'").replace('|', "\\|")),
        false => escaped(text),
    };
    let all: Vec<String> = cells.iter().enumerate().map(cell).collect();
    format!("| {} |\n", all.join(" | "))
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_break_behind_their_words_and_keep_every_character() {
        let name = "fast_native_transport_batch_transport_total_seconds";
        let lines = broken(name, 20);
        assert_eq!(lines, "fast_native_\ntransport_batch_\ntransport_total_\nseconds");
        assert_eq!(lines.replace('\n', ""), name);
        assert_eq!(broken("a_b", 20), "a_b");
        assert_eq!(broken("unbreakable", 4), "unbreakable");
    }
}
