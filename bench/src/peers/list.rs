//! The peers: what each runs on, and how much it is given.
//!
//! The counts are chosen so that a repetition takes some seconds at the peer's rate: a slow peer that is given as much as a fast one takes an hour.

use crate::databases::Product;
use crate::run::Plan;
use crate::workloads::Workload;

use Product::{Mariadb, Mysql, Postgres, Redis, Sqlite, SqliteNormal};

/// A peer with its setting, as its program names it.
#[derive(Debug)]
pub struct Peer {
    /// The name.
    pub name: &'static str,
    products: &'static [Product],
    drain: usize,
    steady: usize,
    /// Samples of the latency: fewer where the handler waits for a poll each second or for a heartbeat.
    samples: usize,
}

/// All peers.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "ruststream_guide",
        products: &[Postgres, Mariadb, Mysql, Sqlite, SqliteNormal],
        drain: 20_000,
        steady: 20_000,
        samples: 60,
    },
    Peer {
        name: "ruststream_batch",
        products: &[Postgres, Mariadb, Mysql, Sqlite, SqliteNormal],
        drain: 40_000,
        steady: 20_000,
        samples: 60,
    },
    Peer { name: "ruststream_notify", products: &[Postgres], drain: 20_000, steady: 20_000, samples: 300 },
    Peer {
        name: "hexeract_readme",
        products: &[Postgres, Mariadb, Mysql, Sqlite, SqliteNormal],
        drain: 4_000,
        steady: 4_000,
        samples: 300,
    },
    Peer {
        name: "hexeract_tuned",
        products: &[Postgres, Mariadb, Mysql, Sqlite, SqliteNormal],
        drain: 20_000,
        steady: 20_000,
        samples: 300,
    },
    Peer {
        name: "river_readme",
        products: &[Postgres, Sqlite, SqliteNormal],
        drain: 1_000,
        steady: 1_000,
        samples: 300,
    },
    Peer {
        name: "river_bench",
        products: &[Postgres, Sqlite, SqliteNormal],
        drain: 40_000,
        steady: 20_000,
        samples: 300,
    },
    Peer { name: "apalis_readme", products: &[Redis], drain: 10_000, steady: 10_000, samples: 3 },
    Peer { name: "apalis_interval", products: &[Redis], drain: 20_000, steady: 20_000, samples: 100 },
    Peer { name: "pgmq", products: &[Postgres], drain: 100_000, steady: 20_000, samples: 300 },
];

impl Peer {
    /// True if the peer supports a product.
    pub fn runs_on(&self, product: Product) -> bool {
        self.products.contains(&product)
    }

    /// Returns how many messages a workload of the peer has; for the latency, samples.
    pub fn count(&self, product: Product, workload: Workload, plan: Plan) -> usize {
        let full = match (workload, product) {
            (Workload::Drain, _) => self.drain,
            (Workload::Steady, _) => self.steady,
            (Workload::Latency, _) => self.samples,
            (_, Sqlite | SqliteNormal) => 5_000,
            _ => 10_000,
        };
        // A quick run has some for each producer, and an apalis that waits for its heartbeat has few samples.
        plan.scaled(full).max(full.min(16))
    }
}
