//! Every public async function of the channels can be awaited in a spawned task. The test is that this file compiles.
//!
//! `tests/rules/send.rs` has the functions of the other crates, and checks that one of both files calls each function.

use std::collections::BTreeMap;

use solid_notify::channels::template::{Addresses, Template, Values};
use solid_notify::channels::{AlertChannels, AnyNotice, Mailer, Secrets};
use solid_notify::{Alert, Handler, Notice};

fn spawns<T>(_: impl Future<Output = T> + Send + 'static) {}

/// A value that is never made: nothing here runs.
fn never<T>() -> T {
    panic!("only the types count")
}

#[test]
fn futures_of_channels_can_be_spawned() {
    spawns(async {
        never::<Mailer>().check().await.unwrap();
        Secrets::read(&never::<AnyNotice>(), Vec::new()).await.map(drop).unwrap();
        let (notice, references) = (never::<AnyNotice>(), BTreeMap::new());
        let values = Values::new(&notice, None, (&references, &never::<Secrets<'_>>())).unwrap_or_else(|_| never());
        never::<Template<Addresses>>().addresses("to", &values).await.map(drop).unwrap();
        never::<Template>().render("text", &values).await.map(drop).unwrap();
        never::<Template>().render_within(1, "text", &values).await.map(drop).unwrap();
        never::<AlertChannels>().handle(never::<Notice<Alert>>()).await.unwrap();
    });
}
