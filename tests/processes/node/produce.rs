//! Producers: tasks that commit transactions of a few notices each, and record them before and after.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use solid_notify::sql::Dialect;
use solid_notify::{Error, NewNotice, Outbox};
use test_support::journal::Event;
use tokio::task::JoinHandle;

use crate::Node;

const TASKS: usize = 8;
/// The ordering keys of one task.
const KEYS: u64 = 6;
/// How long the application waits for one of its transactions.
const PATIENCE: Duration = Duration::from_secs(4);

pub fn start<DB: Dialect>(outbox: &Outbox<DB>, node: &Arc<Node>) -> Vec<JoinHandle<()>> {
    let task = |number| tokio::spawn(produce(outbox.clone(), Arc::clone(node), number));
    (0..TASKS).map(task).collect()
}

async fn produce<DB: Dialect>(outbox: Outbox<DB>, node: Arc<Node>, task: usize) {
    // Counts the transactions of unknown outcome: one that is still to be committed would overlap with the next of its
    // key, and have no order. So the task's keys are new ones after it.
    let mut generation = 0;
    for n in 0.. {
        if node.quiet.load(Ordering::Relaxed) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(5..40))).await;
        if node.held.load(Ordering::Relaxed) {
            continue;
        }
        let own = format!("{}.{task}.{n}", node.name);
        let key = format!("{}.{task}.{generation}.{}", node.name, fastrand::u64(..KEYS));
        let mut transaction = Transaction { node: &node, own, key, added: Vec::new(), committing: false };
        let done = tokio::time::timeout(PATIENCE, transaction.run(&outbox)).await;
        let refused = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the transaction took too long".to_owned()),
        };
        if let Some(why) = refused {
            generation += 1;
            transaction.failed(why);
            // A refused producer tries again, but not at once.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(50..150))).await;
        }
    }
}

/// One transaction of the application.
struct Transaction<'a> {
    node: &'a Node,
    own: String,
    key: String,
    /// The tokens and ids of the notices of this transaction.
    added: Vec<(String, i64)>,
    /// From now on an error says nothing about the outcome.
    committing: bool,
}

impl Transaction<'_> {
    async fn run<DB: Dialect>(&mut self, outbox: &Outbox<DB>) -> Result<(), Error> {
        let mut tx = outbox.begin().await?;
        for n in 0..fastrand::u32(1..=5) {
            let (def, key) = match fastrand::u32(..10) {
                0..4 => ("plain", None),
                4..8 => ("keyed", Some(&*self.key)),
                _ => ("edited", None),
            };
            let token = format!("{}.{n}", self.own);
            let inner = fastrand::u32(..12) == 0;
            self.begun(&token, def, key);
            self.added.push((token.clone(), 0));
            if inner {
                // A savepoint that is rolled back takes its notice with it and nothing else.
                let mut savepoint = tx.begin().await?;
                add(&mut savepoint, def, key, &token).await?;
                savepoint.rollback().await?;
                self.added.pop();
                self.node.journal.add(&Event::RolledBack { token });
            } else {
                let id = add(&mut tx, def, key, &token).await?;
                self.added.last_mut().unwrap().1 = id;
            }
        }
        if fastrand::u32(..10) == 0 {
            tx.rollback().await?;
            self.rolled_back();
            return Ok(());
        }
        self.committing = true;
        match tx.commit().await {
            Ok(()) => {
                for (token, id) in self.added.drain(..) {
                    self.node.journal.add(&Event::Committed { token, id });
                }
                Ok(())
            }
            Err(error) => {
                let lost = matches!(error, Error::TransactionLost { .. });
                self.committing = !lost;
                Err(error)
            }
        }
    }

    fn begun(&self, token: &str, def: &str, key: Option<&str>) {
        let (token, def, key) = (token.to_owned(), def.to_owned(), key.map(str::to_owned));
        self.node.journal.add(&Event::Begun { token, def, key });
    }

    fn rolled_back(&mut self) {
        for (token, _) in self.added.drain(..) {
            self.node.journal.add(&Event::RolledBack { token });
        }
    }

    /// Where no commit was sent, nothing was committed.
    fn failed(mut self, why: String) {
        if self.committing {
            for (token, _) in self.added.drain(..) {
                self.node.journal.add(&Event::Unknown { token });
            }
        }
        self.rolled_back();
        let why = why.chars().take(100).collect();
        self.node.journal.add(&Event::Refused { node: self.node.name.clone(), why });
    }
}

async fn add<DB: Dialect>(
    tx: &mut solid_notify::NoticeTx<'_, DB>,
    def: &str,
    key: Option<&str>,
    token: &str,
) -> Result<i64, Error> {
    let notice = NewNotice::new(def, token)?;
    let notice = match key {
        Some(key) => notice.ordering_key(key),
        None => notice,
    };
    Ok(notice.add(tx).await?.id())
}
