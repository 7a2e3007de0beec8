//! The switch, which pauses everything or all retries. The nodes read it with the limits (`limits.rs`).

use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{AuditEntry, PauseScope, Switch};

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Statement, statements};

statements! {
    SwitchStatements:
    open_switch,
    turn_switch,
}

impl SwitchStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            open_switch: statement(kind.insert_unless_there("INTO notify_switch (id) VALUES (1)")),
            // While everything is paused, it makes no difference whether retries are.
            turn_switch: statement(format!(
                "UPDATE notify_switch
                 SET paused = $2, retries_paused = $5, who = $3, since = {now}, reason = $4
                 WHERE paused <> $2 OR (NOT paused AND retries_paused <> $5)"
            )),
        }
    }
}

pub(crate) async fn switch<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    switch: &Switch,
    who: &str,
) -> sqlx::Result<bool> {
    let statements = SwitchStatements::of(DB::KIND);
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    DB::execute(&mut tx, &statements.open_switch, &[now]).await?;
    let pauses = |scope| Arg::Bool(switch.scope() == Some(scope));
    let (everything, retries) = (pauses(PauseScope::Everything), pauses(PauseScope::Retries));
    let args = [now, everything, who.into(), Arg::Text(switch.reason()), retries];
    let turned = DB::execute(&mut tx, &statements.turn_switch, &args).await?.rows > 0;
    if turned {
        let mut entry = AuditEntry::new(time_from_millis(0), who, switch.act());
        entry.detail = switch.reason().map(str::to_owned);
        write_entry::<DB>(&mut tx, now, &entry).await?;
    }
    tx.commit().await?;
    conn.done();
    Ok(turned)
}
