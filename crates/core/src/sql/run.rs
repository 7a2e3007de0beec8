//! A statement and its arguments on their way to a driver.
//!
//! Statements are written with `$1`, `$2` … in any order and as often as needed; MySQL, which only has `?`, gets its
//! arguments in the order of their use.

use sqlx::{Arguments, AssertSqlSafe, Database, Encode, SqlStr, Type};

use super::fragment::Kind;

/// A statement with a constant text, so that drivers prepare it once.
#[derive(Clone)]
pub struct Statement {
    source: String,
    sql: SqlStr,
    /// For each placeholder of `sql`, the number of its argument.
    order: Vec<usize>,
}

/// One argument.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// A whole number, or null.
    Int(Option<i64>),
    /// A text, or null.
    Text(Option<&'a str>),
    /// A flag.
    Bool(bool),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl Statement {
    pub(super) fn new(kind: Kind, source: &str) -> Self {
        let (sql, order) = render(kind, source);
        Self { source: source.to_owned(), sql: sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(sql)), order }
    }

    /// The text as written, with numbered placeholders.
    pub(super) fn text(&self) -> &str {
        &self.source
    }

    pub(super) fn sql(&self) -> SqlStr {
        self.sql.clone()
    }

    /// The driver's form of `args`, which are in the order of their numbers.
    pub(super) fn arguments<DB>(&self, args: &[Arg<'_>]) -> sqlx::Result<DB::Arguments>
    where
        DB: Database,
        for<'q> Option<i64>: Encode<'q, DB> + Type<DB>,
        for<'q> Option<&'q str>: Encode<'q, DB> + Type<DB>,
        for<'q> bool: Encode<'q, DB> + Type<DB>,
    {
        let mut arguments = DB::Arguments::default();
        for number in &self.order {
            let added = match args.get(*number - 1) {
                Some(Arg::Int(value)) => arguments.add(*value),
                Some(Arg::Text(value)) => arguments.add(*value),
                Some(Arg::Bool(value)) => arguments.add(*value),
                None => Err(format!("argument ${number} is missing for: {}", self.source).into()),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        Ok(arguments)
    }
}

/// The driver's text, and which argument each of its placeholders takes.
///
/// Postgres and SQLite number their placeholders: there each argument is passed once, up to the highest number used.
fn render(kind: Kind, source: &str) -> (String, Vec<usize>) {
    let mut sql = String::with_capacity(source.len());
    let mut uses = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[at + 1..at + 1 + digits].parse::<usize>().ok();
        let (before, placeholder) = (&rest[..at], &rest[at..at + 1 + digits]);
        sql.push_str(before);
        match number {
            // A JSON path such as '$.id' is no placeholder.
            None => sql.push('$'),
            Some(number) => {
                uses.push(number);
                sql.push_str(if kind == Kind::MySql { "?" } else { placeholder });
            }
        }
        rest = &rest[at + 1 + digits..];
    }
    sql.push_str(rest);
    let order = match kind {
        Kind::MySql => uses,
        Kind::Postgres | Kind::Sqlite => (1..=uses.into_iter().max().unwrap_or(0)).collect(),
    };
    (sql, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_gets_its_arguments_in_the_order_of_their_use() {
        let (sql, order) = render(Kind::MySql, "a = $2 AND b = $1 AND c = $2 AND p '$.id'");
        assert_eq!(sql, "a = ? AND b = ? AND c = ? AND p '$.id'");
        assert_eq!(order, [2, 1, 2]);
    }

    #[test]
    fn numbered_placeholders_stay_and_each_argument_is_passed_once() {
        let (sql, order) = render(Kind::Postgres, "a = $3 AND b = $1");
        assert_eq!(sql, "a = $3 AND b = $1");
        assert_eq!(order, [1, 2, 3]);
    }
}
