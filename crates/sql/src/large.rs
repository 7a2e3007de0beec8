//! Large parameters, which claims and looks leave in the store.

use solid_notify_core::notice::ClaimedNotice;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{one_number, one_text};
use crate::dialect::statement::{Arg, Statement, statements};

impl Kind {
    /// How many bytes the text of a JSON column has.
    pub(crate) fn json_bytes(self, column: &str) -> String {
        match self {
            Self::Postgres => format!("octet_length({column}::text)"),
            Self::MySql => format!("octet_length({column})"),
            // `octet_length` is younger than the oldest SQLite.
            Self::Sqlite => format!("length(CAST({column} AS blob))"),
        }
    }
}

statements! {
    LargeStatements:
    param_bytes,
    param_text,
}

impl LargeStatements {
    fn new(kind: Kind) -> Self {
        let of_claim =
            |what: &str| Statement::new(kind, &format!("SELECT {what} FROM notify_msg WHERE id = $2 AND fence = $3"));
        Self { param_bytes: of_claim(&kind.json_bytes("param")), param_text: of_claim("param") }
    }
}

pub(crate) async fn bytes<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    claimed: &ClaimedNotice,
) -> sqlx::Result<Option<usize>> {
    let args = [now, claimed.id.into(), claimed.fence.into()];
    let bytes = one_number::<DB>(&on.rows(&LargeStatements::of(DB::KIND).param_bytes, &args).await?)?;
    Ok(bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

pub(crate) async fn text<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    claimed: &ClaimedNotice,
) -> sqlx::Result<Option<String>> {
    let args = [now, claimed.id.into(), claimed.fence.into()];
    one_text::<DB>(&on.rows(&LargeStatements::of(DB::KIND).param_text, &args).await?)
}
