//! Every store passes the same suite: one visible test per case and store.

use solid_notify_testkit::conformance::Backend;
use solid_notify_testkit::conformance_suite;

mod memory {
    use super::{Backend, conformance_suite};

    async fn run(case: impl AsyncFnOnce(&dyn Backend)) {
        case(&solid_notify_tests::memory::MemoryBackend::default()).await;
    }

    conformance_suite!(run);
}

macro_rules! on_database {
    ($module:ident, $database:ident) => {
        #[cfg($module)]
        mod $module {
            use super::{Backend, conformance_suite};

            async fn run(case: impl AsyncFnOnce(&dyn Backend)) {
                let db = solid_notify_tests::TestDb::<solid_notify_tests::$database>::with_hand_clock().await;
                case(&db).await;
                db.close().await;
            }

            conformance_suite!(run);
        }
    };
}
on_database!(sqlite, Sqlite);
on_database!(postgres, Postgres);
on_database!(mariadb, MariaDb);
on_database!(mysql, MySql);
