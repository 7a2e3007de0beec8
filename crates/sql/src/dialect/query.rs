//! [`Query`]: a statement of a `.sql` file with its arguments. The build script renders the files, and makes a struct for each statement, so that
//! an argument that is missing, unknown or of another type does not compile.

use sqlx::SqlStr;

use crate::dialect::kind::Kind;
use crate::dialect::row::explain;
pub(crate) use crate::dialect::statement::Arg;
use crate::dialect::statement::Prepared;
use crate::dialect::{Changed, Dialect};

/// The test clock of an outbox, in milliseconds since 1970; `None`: the database's clock. In statements it is `:clock`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Option<i64>);

impl From<Arg<'_>> for Clock {
    fn from(now: Arg<'_>) -> Self {
        match now {
            Arg::Int(millis) => Self(millis),
            _ => Self(None),
        }
    }
}

impl From<Clock> for Arg<'_> {
    fn from(clock: Clock) -> Self {
        Self::Int(clock.0)
    }
}

/// The text of a statement in a dialect.
pub(crate) struct Text {
    /// The text for the driver.
    pub(crate) sql: &'static str,
    /// The text for people: `$1` is the test clock, `$2` the first argument that is declared.
    pub(crate) numbered: &'static str,
    /// The number of its first argument there.
    pub(crate) first: usize,
    /// For each placeholder of `sql`, the position of its argument.
    pub(crate) order: &'static [usize],
}

/// The text in each dialect; `None`: it has none.
pub(crate) type Texts = [Option<Text>; 3];

/// A statement with its arguments.
pub(crate) trait Query: Sync {
    /// The name in its file.
    const NAME: &'static str;
    /// Its texts, in the order of [`Kind`].
    const TEXTS: Texts;
    /// As many arguments as it has.
    type Arguments<'s>: AsRef<[Arg<'s>]> + Send + Sync
    where
        Self: 's;

    /// Returns the arguments in their order.
    fn arguments(&self) -> Self::Arguments<'_>;

    /// Returns the text for a dialect.
    fn prepared(kind: Kind) -> sqlx::Result<Prepared<'static>> {
        let texts: &'static Texts = const { &Self::TEXTS };
        let none = || sqlx::Error::Configuration(format!("{} has no text for {kind:?}", Self::NAME).into());
        let text = texts[kind as usize].as_ref().ok_or_else(none)?;
        let Text { sql, numbered, first, order } = text;
        Ok(Prepared { sql: SqlStr::from_static(sql), numbered, first: *first, order })
    }

    /// Runs it and returns its rows.
    fn fetch<DB: Dialect>(&self, conn: &mut DB::Connection) -> impl Future<Output = sqlx::Result<Vec<DB::Row>>> + Send {
        async move {
            let arguments = self.arguments();
            DB::fetch(conn, Self::prepared(DB::KIND)?, arguments.as_ref()).await
        }
    }

    /// Has the database explain it: it then checks the rights that the statement needs.
    fn explain<DB: Dialect>(&self, conn: &mut DB::Connection) -> impl Future<Output = sqlx::Result<()>> + Send {
        async move {
            let arguments = self.arguments();
            explain::<DB>(conn, Self::prepared(DB::KIND)?, arguments.as_ref()).await
        }
    }

    /// Runs it and returns what it changed.
    fn execute<DB: Dialect>(&self, conn: &mut DB::Connection) -> impl Future<Output = sqlx::Result<Changed>> + Send {
        async move {
            let arguments = self.arguments();
            DB::execute(conn, Self::prepared(DB::KIND)?, arguments.as_ref()).await
        }
    }
}
