//! [`Screen`]: what the keys change, and how a look is drawn.

use std::cmp::Reverse;

use crossterm::event::KeyCode;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line as TextLine, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState};

use super::look::{COLUMNS, Look};
use crate::output::harmless;
use crate::table::definition;

/// The order of the definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    OldestDue,
    Live,
    DeadLetters,
    Name,
}

impl Order {
    const fn next(self) -> Self {
        match self {
            Self::OldestDue => Self::Live,
            Self::Live => Self::DeadLetters,
            Self::DeadLetters => Self::Name,
            Self::Name => Self::OldestDue,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::OldestDue => "oldest due",
            Self::Live => "live",
            Self::DeadLetters => "dead",
            Self::Name => "name",
        }
    }
}

/// A look, and how it is shown.
pub(super) struct Screen {
    look: Look,
    order: Order,
    frozen: bool,
    problem: Option<String>,
    table: TableState,
}

impl Screen {
    pub(super) fn new(look: Look) -> Self {
        let table = TableState::default().with_selected(0);
        let mut screen = Self { look, order: Order::OldestDue, frozen: false, problem: None, table };
        screen.sort();
        screen
    }

    /// Shows a newer look.
    pub(super) fn show(&mut self, look: Look) {
        self.look = look;
        self.problem = None;
        self.sort();
    }

    /// Shows why there is no newer look.
    pub(super) fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Does what a key is for. Returns whether the user wants a look at once.
    pub(super) fn press(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.table.select_previous(),
            KeyCode::Down | KeyCode::Char('j') => self.table.select_next(),
            KeyCode::PageUp => self.table.scroll_up_by(10),
            KeyCode::PageDown => self.table.scroll_down_by(10),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select_last(),
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.sort();
            }
            KeyCode::Char('f') => self.frozen = !self.frozen,
            KeyCode::Char('r') => return true,
            _ => {}
        }
        false
    }

    fn sort(&mut self) {
        let order = self.order;
        self.look.definitions.sort_by_cached_key(|line| {
            let first = match order {
                Order::OldestDue => u64::try_from(line.counts.oldest_due_for().as_millis()).unwrap_or(u64::MAX),
                Order::Live => line.counted(solid_notify::operate::NoticeCounts::live),
                Order::DeadLetters => line.counted(|counts| counts.dead_letters),
                Order::Name => 0,
            };
            (Reverse(first), line.counts.definition.clone())
        });
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, chart, table, keys] =
            Layout::vertical([Constraint::Length(2), Constraint::Length(6), Constraint::Min(3), Constraint::Length(1)])
                .areas(frame.area());
        self.draw_head(frame, head);
        self.draw_chart(frame, chart);
        self.draw_table(frame, table);
        let text = format!("q quit  ↑↓ move  s sort by ({})  f freeze  r read now", self.order.name());
        frame.render_widget(Paragraph::new(text).dim(), keys);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let time = self.look.time.format("%H:%M:%SZ");
        let frozen = if self.frozen { "  frozen" } else { "" };
        let summary = TextLine::from(format!("{}  {time}{frozen}", harmless(&self.look.summary()))).bold();
        let second = match (&self.problem, self.look.open_alerts.first()) {
            (Some(problem), _) => TextLine::from(harmless(problem)).red(),
            (None, Some(alert)) => {
                let message = alert.message.as_deref().unwrap_or_default();
                let definition = definition(&alert.definition, alert.def_id);
                TextLine::from(harmless(&format!("alert: {definition} {} {message}", alert.reason.as_str()))).yellow()
            }
            (None, None) => TextLine::default(),
        };
        frame.render_widget(Paragraph::new(Text::from(vec![summary, second])), area);
    }

    /// Two charts of the last hour, a column for each minute.
    fn draw_chart(&self, frame: &mut Frame<'_>, area: Rect) {
        let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(2).areas(area);
        let minutes = |of: fn(&solid_notify::operate::SeriesPoint) -> u64| -> Vec<u64> {
            self.look.series.iter().map(of).collect()
        };
        let succeeded = minutes(|point| point.counts.succeeded + point.counts.awaiting_ack);
        let failed = minutes(|point| point.counts.failed + point.counts.dead_letters);
        for (area, name, values, style) in [
            (left, "delivered", succeeded, Style::new().green()),
            (right, "failed attempts", failed, Style::new().red()),
        ] {
            let title = format!("{name} each minute, at most {}", values.iter().max().unwrap_or(&0));
            // What does not fit is the older part.
            let shown = values.len().saturating_sub(usize::from(area.width));
            let chart = Sparkline::default().data(&values[shown..]).style(style).block(Block::new().title(title));
            frame.render_widget(chart, area);
        }
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let aligned = |column: usize, text: String| {
            let is_number = COLUMNS.get(column).is_some_and(|name| name.starts_with('#'));
            let alignment = if is_number { Alignment::Right } else { Alignment::Left };
            Cell::new(Text::from(harmless(&text)).alignment(alignment))
        };
        let header = COLUMNS.iter().enumerate();
        let header = header.map(|(column, name)| aligned(column, name.trim_start_matches('#').to_uppercase()));
        let rows = self.look.definitions.iter().map(|line| {
            let cells = line.cells().into_iter().enumerate().map(|(column, text)| aligned(column, text));
            let row = Row::new(cells);
            if line.state.is_some() { row.yellow() } else { row }
        });
        let width = |name: &&str| Constraint::Length(u16::try_from(name.len()).unwrap_or(10).max(10));
        let widths = [Constraint::Fill(1)].into_iter().chain(COLUMNS[1..].iter().map(width));
        let table = Table::new(rows, widths.collect::<Vec<_>>())
            .header(Row::new(header).bold())
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.table);
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use solid_notify::operate::{DefinitionCounts, NoticeCounts};

    use super::super::look::Line;
    use super::*;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn line(name: &str, live: u64, dead_letters: u64, due_before: i64) -> Line {
        let mut counts = NoticeCounts::default();
        (counts.not_sent, counts.dead_letters) = (live, dead_letters);
        counts.oldest_due = (due_before > 0).then(|| NOW - chrono::TimeDelta::seconds(due_before));
        Line { counts: DefinitionCounts::new((1, name.to_owned()), Some((counts, NOW)), None, NOW), state: None }
    }

    fn screen() -> Screen {
        let mut uncounted = line("new\u{1b}[2J", 0, 0, 0);
        (uncounted.counts.taken, uncounted.state) = (None, Some("paused"));
        Screen::new(Look {
            store: "sqlite:shop.db".to_owned(),
            time: NOW,
            paused: None,
            nodes: Vec::new(),
            open_alerts: Vec::new(),
            definitions: vec![line("busy", 900, 0, 5), line("late", 1, 2, 125), line("dead", 0, 70, 0), uncounted],
            series: Vec::new(),
        })
    }

    /// Draws the screen in a terminal of this size. Returns its lines.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        cells.chunks(width.into()).map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
    }

    /// The names of the definitions in the order of the screen.
    fn names(screen: &mut Screen) -> Vec<String> {
        let lines = drawn(screen, 110, 14);
        lines[9..13].iter().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    }

    #[test]
    fn s_sorts_by_each_order_in_turn() {
        let mut screen = screen();
        let new = "new\u{FFFD}[2J";
        for order in [
            ["late", "busy", "dead", new],
            ["busy", "late", "dead", new],
            ["dead", "late", "busy", new],
            ["busy", "dead", "late", new],
        ] {
            assert_eq!(names(&mut screen), order, "{:?}", screen.order);
            assert!(!screen.press(KeyCode::Char('s')));
        }
        assert_eq!(screen.order, Order::OldestDue);
    }

    #[test]
    fn screen_shows_counts_ages_and_obstacles() {
        let lines = drawn(&mut screen(), 110, 14);
        assert!(
            lines[0].starts_with("sqlite:shop.db  0 nodes, 0 open alerts, 901 live, 72 dead  00:00:00Z"),
            "{lines:#?}"
        );
        assert!(lines[9].contains("2m 5s") && lines[12].contains("paused"), "{lines:#?}");
    }

    #[test]
    fn failed_look_keeps_the_last_one_and_says_why() {
        let mut screen = screen();
        screen.fail("the database\u{7} does not answer".to_owned());
        let lines = drawn(&mut screen, 110, 14);
        assert!(
            lines[1].starts_with("the database\u{FFFD} does not answer") && lines[9].contains("late"),
            "{lines:#?}"
        );
        screen.show(screen.look.clone());
        assert!(drawn(&mut screen, 110, 14)[1].trim().is_empty());
    }

    #[test]
    fn keys_move_freeze_and_read_now() {
        let mut screen = screen();
        for (key, selected) in
            [(KeyCode::Down, 1), (KeyCode::Up, 0), (KeyCode::Up, 0), (KeyCode::PageDown, 3), (KeyCode::Home, 0)]
        {
            assert!(!screen.press(key));
            drawn(&mut screen, 110, 14);
            assert_eq!(screen.table.selected(), Some(selected), "{key:?}");
        }
        screen.press(KeyCode::Char('f'));
        assert!(screen.is_frozen() && screen.press(KeyCode::Char('r')));
    }

    #[test]
    fn small_terminal_is_drawn_too() {
        for (width, height) in [(1, 1), (20, 5), (300, 3)] {
            drawn(&mut screen(), width, height);
        }
    }
}
