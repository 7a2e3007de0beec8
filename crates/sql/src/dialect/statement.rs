//! Statements and their arguments, in the form that a driver takes, and the macro that declares the statements of a topic.
//!
//! Statements use `$1`, `$2` … in any order and as often as needed. MySQL only has `?`, so it gets the arguments in the order of
//! their use, or within the text where one of them is a list.

use serde::Serialize;
use sqlx::{Arguments, AssertSqlSafe, Database, Encode, SqlStr, Type};

use crate::dialect::kind::Kind;

/// Declares the statements of a topic: those of every dialect, then in brackets those that some dialects lack. The topic writes
/// their texts in `new`; a comment over a statement gives the reason for its form.
///
/// `$1` is the hand-turned clock (null: the database's clock), except in inserts of bare notices, which a hand-turned clock excludes.
macro_rules! statements {
    ($of:ident: $($name:ident,)* $([$($lacking:ident,)+])?) => {
        /// The statements of one topic and one dialect.
        pub(crate) struct $of {
            $(pub(crate) $name: crate::dialect::statement::Statement,)*
            $($(pub(crate) $lacking: Option<crate::dialect::statement::Statement>,)+)?
        }

        impl $of {
            /// Returns the statements of a dialect. They are made at their first use.
            pub(crate) fn of(kind: crate::dialect::kind::Kind) -> &'static Self {
                static MADE: [std::sync::OnceLock<$of>; 3] = [const { std::sync::OnceLock::new() }; 3];
                MADE[kind as usize].get_or_init(|| Self::new(kind))
            }

            /// Returns the name and the text of each statement, for tests of the query plans.
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                let all = [$((stringify!($name), Some(&self.$name)),)* $($((stringify!($lacking), self.$lacking.as_ref()),)+)?];
                all.into_iter().filter_map(|(name, statement)| Some((name, statement?.text().to_owned()))).collect()
            }
        }
    };
}
pub(crate) use statements;

/// A statement with a constant text, so that drivers prepare it once.
#[derive(Clone)]
pub struct Statement {
    source: String,
    sql: SqlStr,
    /// As in [`Prepared`].
    order: Vec<usize>,
}

/// A statement in the form that a driver takes.
#[derive(Debug, Clone)]
pub struct Prepared<'s> {
    pub(crate) sql: SqlStr,
    /// The text with `$1`, `$2` …
    pub(crate) numbered: &'s str,
    /// The number of its first argument there.
    pub(crate) first: usize,
    /// For each placeholder of `sql`, the position of its argument.
    pub(crate) order: &'s [usize],
}

impl<'s> From<&'s Statement> for Prepared<'s> {
    fn from(Statement { source, sql, order }: &'s Statement) -> Self {
        Self { sql: sql.clone(), numbered: source, first: 1, order }
    }
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
    /// Ids, as [`Kind::listed`] reads them.
    Ids(&'a [i64]),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Arg<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a [i64]> for Arg<'a> {
    fn from(value: &'a [i64]) -> Self {
        Self::Ids(value)
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

/// A number of rows, or a limit, as a value of an argument.
pub(crate) fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The rows of a batch, or a list, as JSON.
pub(crate) fn json(values: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(values).map_err(|error| sqlx::Error::Encode(error.into()))
}

impl Statement {
    pub(crate) fn new(kind: Kind, source: &str) -> Self {
        let (sql, order) = render(kind, source);
        Self { source: source.to_owned(), sql: sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(sql)), order }
    }

    /// The original text, with numbered placeholders.
    pub(crate) fn text(&self) -> &str {
        &self.source
    }
}

impl Prepared<'_> {
    /// Converts the arguments to the driver's form.
    pub(crate) fn arguments<DB: Database>(&self, kind: Kind, args: &[Arg<'_>]) -> sqlx::Result<DB::Arguments>
    where
        for<'q> Option<i64>: Encode<'q, DB> + Type<DB>,
        for<'q> Option<&'q str>: Encode<'q, DB> + Type<DB>,
        for<'q> bool: Encode<'q, DB> + Type<DB>,
    {
        let mut arguments = DB::Arguments::default();
        for position in self.order {
            let added = match args.get(*position) {
                Some(Arg::Int(value)) => arguments.add(*value),
                Some(Arg::Text(value)) => arguments.add(*value),
                Some(Arg::Bool(value)) => arguments.add(*value),
                Some(Arg::Ids(ids)) => arguments.add(Some(list(kind, ids).as_str())),
                None => return Err(self.is_missing(*position)),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        Ok(arguments)
    }

    /// Returns the text with the arguments in it, where one of them is a list and this database has no parameter for lists.
    pub(crate) fn spelled_out(&self, kind: Kind, args: &[Arg<'_>]) -> sqlx::Result<Option<String>> {
        if kind != Kind::MySql || !args.iter().any(|arg| matches!(arg, Arg::Ids(_))) {
            return Ok(None);
        }
        if let Some(position) = self.order.iter().find(|position| **position >= args.len()) {
            return Err(self.is_missing(*position));
        }
        let value = |number: usize| match args[number - self.first] {
            Arg::Int(value) => value.map_or("NULL".to_owned(), |value| value.to_string()),
            Arg::Text(value) => mysql_literal(value),
            Arg::Bool(value) => value.to_string(),
            Arg::Ids(ids) => list(kind, ids),
        };
        Ok(Some(replaced(self.numbered, value)))
    }

    fn is_missing(&self, position: usize) -> sqlx::Error {
        sqlx::Error::Encode(format!("argument ${} is missing for: {}", position + self.first, self.numbered).into())
    }
}

/// Formats ids for the database: a Postgres array, a list within MySQL's text (the empty one is `IN (NULL)`, which is never
/// true), or JSON.
fn list(kind: Kind, ids: &[i64]) -> String {
    let joined = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    match kind {
        Kind::Postgres => format!("{{{joined}}}"),
        Kind::MySql if ids.is_empty() => "NULL".to_owned(),
        Kind::MySql => joined,
        Kind::Sqlite => format!("[{joined}]"),
    }
}

/// A text literal for MySQL, as the hexadecimal digits of its bytes. They cannot contain SQL, in any mode and character set of
/// the session.
fn mysql_literal(text: Option<&str>) -> String {
    text.map_or("NULL".to_owned(), |text| format!("_utf8mb4 X'{}'", hex::encode(text)))
}

/// Returns the driver's text, and the position of the argument that each of its placeholders takes.
///
/// Postgres and SQLite number their placeholders: they get each argument once, up to the highest number used.
fn render(kind: Kind, source: &str) -> (String, Vec<usize>) {
    let mut uses = Vec::new();
    let sql = replaced(source, |number| {
        uses.push(number - 1);
        if kind == Kind::MySql { "?".to_owned() } else { format!("${number}") }
    });
    let order = match kind {
        Kind::MySql => uses,
        Kind::Postgres | Kind::Sqlite => (0..uses.into_iter().map(|use_| use_ + 1).max().unwrap_or(0)).collect(),
    };
    (sql, order)
}

/// Replaces each numbered placeholder of a text.
fn replaced(source: &str, mut placeholder: impl FnMut(usize) -> String) -> String {
    let mut sql = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        sql.push_str(&rest[..at]);
        match rest[at + 1..at + 1 + digits].parse() {
            Ok(number) => sql.push_str(&placeholder(number)),
            // A JSON path such as '$.id' is not a placeholder.
            Err(_) => sql.push('$'),
        }
        rest = &rest[at + 1 + digits..];
    }
    sql.push_str(rest);
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_gets_its_arguments_in_the_order_of_their_use() {
        let (sql, order) = render(Kind::MySql, "a = $2 AND b = $1 AND c = $2 AND p '$.id'");
        assert_eq!(sql, "a = ? AND b = ? AND c = ? AND p '$.id'");
        assert_eq!(order, [1, 0, 1]);
    }

    #[test]
    fn mysql_gets_a_list_in_the_text_and_nothing_in_it_can_be_taken_for_sql() {
        let statement = Statement::new(Kind::MySql, "a IN ($3) AND b = $1 AND c = $2 AND d = $4 AND p '$.id'");
        let args = [Arg::Int(None), "'; $3 \\".into(), Arg::Ids(&[7, -8]), Arg::Bool(true)];
        let expected = "a IN (7,-8) AND b = NULL AND c = _utf8mb4 X'273b202433205c' AND d = true AND p '$.id'";
        let prepared = Prepared::from(&statement);
        assert_eq!(prepared.spelled_out(Kind::MySql, &args).unwrap().as_deref(), Some(expected));
        assert_eq!(prepared.spelled_out(Kind::MySql, &args[..2]).unwrap(), None, "without a list it is prepared");
        let missing = prepared.spelled_out(Kind::MySql, &args[..3]).unwrap_err();
        assert!(missing.to_string().contains("argument $4 is missing"));
        let of_none = Prepared::from(&Statement::new(Kind::MySql, "a IN ($1)"))
            .spelled_out(Kind::MySql, &[Arg::Ids(&[])])
            .unwrap();
        assert_eq!(of_none.as_deref(), Some("a IN (NULL)"));
        let prepared = Statement::new(Kind::Postgres, "a = $1");
        assert_eq!(Prepared::from(&prepared).spelled_out(Kind::Postgres, &[Arg::Ids(&[7])]).unwrap(), None);
    }

    #[test]
    fn numbered_placeholders_stay_and_each_argument_is_passed_once() {
        let (sql, order) = render(Kind::Postgres, "a = $3 AND b = $1");
        assert_eq!(sql, "a = $3 AND b = $1");
        assert_eq!(order, [0, 1, 2]);
    }
}
