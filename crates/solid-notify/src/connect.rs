//! [`ConnectedOutbox`]: the outbox that a URL names, for programs that learn their store when they run.

use std::ops::Deref;

use solid_notify_core::{AnyOutbox, Error, NewNotice, Receipt, Result};

/// The outbox on the store that a URL names. It derefs to [`AnyOutbox`]; what only one kind of store has is in its variant.
///
/// ```no_run
/// # async fn example() -> solid_notify::Result<()> {
/// use solid_notify::{ConnectedOutbox, NotifyDef};
///
/// let outbox = ConnectedOutbox::connect("sqlite://shop.db?mode=rwc").await?;
/// outbox.migrate().await?;
/// for state in outbox.definitions().await? {
///     println!("{}", state.row.name);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectedOutbox {
    /// `postgres://` or `postgresql://`.
    #[cfg(feature = "postgres")]
    Postgres(crate::Outbox<sqlx::Postgres>),
    /// `mysql://` or `mariadb://`.
    #[cfg(feature = "mysql")]
    MySql(crate::Outbox<sqlx::MySql>),
    /// `sqlite:`.
    #[cfg(feature = "sqlite")]
    Sqlite(crate::Outbox<sqlx::Sqlite>),
    /// `redis://` or `rediss://`; of a cluster a few nodes, separated by commas. `?prefix=shop` is the prefix of the keys.
    #[cfg(feature = "redis")]
    Redis(crate::redis::RedisOutbox),
}

impl ConnectedOutbox {
    /// Connects to the store of `url`, with the default settings of its pool. The scheme selects the store; each needs its feature.
    /// It creates no tables: see [`Self::migrate`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for another scheme and for a store whose feature is off; [`Error::Store`] where the store cannot be reached. No
    /// error shows the URL, because it may contain a password.
    pub async fn connect(url: &str) -> Result<Self> {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => crate::Outbox::connect(url).await.map(Self::Postgres),
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => crate::Outbox::connect(url).await.map(Self::MySql),
            #[cfg(feature = "sqlite")]
            "sqlite" => crate::Outbox::connect(url).await.map(Self::Sqlite),
            #[cfg(feature = "redis")]
            "redis" | "rediss" => {
                let redis = crate::redis::Redis::connect(url).await.map_err(|error| {
                    use solid_notify_core::error::{FaultKind, StoreError};
                    StoreError::new("connecting", FaultKind::Outage, error)
                })?;
                Ok(Self::Redis(crate::redis::RedisOutbox::new(redis)))
            }
            _ => Err(unknown(scheme)),
        }
    }

    /// Creates the tables, or brings them up to date. Redis has none.
    ///
    /// # Errors
    /// Those of the database: see `Outbox::migrate`.
    pub async fn migrate(&self) -> Result<()> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(outbox) => outbox.migrate().await,
            #[cfg(feature = "mysql")]
            Self::MySql(outbox) => outbox.migrate().await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(outbox) => outbox.migrate().await,
            #[cfg(feature = "redis")]
            Self::Redis(_) => Ok(()),
        }
    }

    /// Adds a notice in a transaction of its own, which it commits. An application that writes business rows adds the notice in the
    /// transaction of those rows instead: see [`NewNotice::add`].
    ///
    /// # Errors
    /// Those of [`crate::add_notice`], and of the commit.
    pub async fn add(&self, notice: NewNotice) -> Result<Receipt> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(outbox) => added(outbox, notice).await,
            #[cfg(feature = "mysql")]
            Self::MySql(outbox) => added(outbox, notice).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(outbox) => added(outbox, notice).await,
            #[cfg(feature = "redis")]
            Self::Redis(outbox) => notice.add(&mut outbox.clone()).await,
        }
    }
}

/// Adds a notice in a transaction of its own.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
async fn added<DB: crate::sql::Dialect>(outbox: &crate::Outbox<DB>, notice: NewNotice) -> Result<Receipt> {
    let mut tx = outbox.begin().await?;
    let receipt = notice.add(&mut tx).await?;
    tx.commit().await?;
    Ok(receipt)
}

impl Deref for ConnectedOutbox {
    type Target = AnyOutbox;

    fn deref(&self) -> &AnyOutbox {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(outbox) => outbox,
            #[cfg(feature = "mysql")]
            Self::MySql(outbox) => outbox,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(outbox) => outbox,
            #[cfg(feature = "redis")]
            Self::Redis(outbox) => outbox,
        }
    }
}

/// The schemes of a URL, each with the feature that it needs.
const SCHEMES: [(&str, bool); 4] = [
    ("postgres", cfg!(feature = "postgres")),
    ("mysql", cfg!(feature = "mysql")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("redis", cfg!(feature = "redis")),
];

fn unknown(scheme: &str) -> Error {
    let known = match scheme {
        "postgresql" => "postgres",
        "mariadb" => "mysql",
        "rediss" => "redis",
        other => other,
    };
    let problem = if SCHEMES.iter().any(|(feature, _)| *feature == known) {
        format!("the scheme {scheme:?} needs the cargo feature `{known}`, which this program was built without")
    } else {
        let on: Vec<String> = SCHEMES.iter().filter(|(_, on)| *on).map(|(scheme, _)| format!("`{scheme}:`")).collect();
        // Text before a colon may be a part of a password where the scheme was forgotten.
        format!("its scheme is none that this program knows; begin it with one of {}", on.join(", "))
    };
    Error::Invalid { what: "the URL of a store", problem }
}
