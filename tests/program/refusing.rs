//! The program's `serve` on servers that accept no writes for a while, or refuse calls: what it says meanwhile, how often, and that all goes on
//! when they accept them again. Each test has a private server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use solid_notify::{ConnectedOutbox, NewNotice};
use test_servers::servers::{Server, mariadb, mysql, postgres, redis};
use test_support::sending::eventually;
use tokio::task::spawn_blocking;

use crate::served::{Readiness, Receiver, Served};

/// The line of an outage; of each further call during it; of a refused call; of each further one.
const DOWN: (&str, &str) = ("the database does not answer;", "the database still does not answer");
const REFUSED: (&str, &str) = ("the database refuses a call", "the database still refuses a call");

/// What a test expects while a server refuses writes.
struct Expected {
    ready: bool,
    /// Part of the problem that the readiness names.
    problem: &'static str,
    /// The error, and the line at debug level when it comes again.
    lines: (&'static str, &'static str),
}

const OUTAGE: Expected = Expected { ready: false, problem: "the database does not answer", lines: DOWN };

/// A service, and the outbox of an account that may do everything.
struct Site {
    outbox: ConnectedOutbox,
    receiver: Receiver,
    serve: Served,
}

impl Site {
    /// `url`: that of the service.
    async fn start(admin: &str, url: &str) -> Self {
        let receiver = Receiver::start().await;
        let outbox = ConnectedOutbox::connect(admin).await.unwrap();
        outbox.migrate().await.unwrap();
        outbox.define_if_missing(receiver.order()).await.unwrap();
        let site = Self { outbox, receiver, serve: Served::start(url).await };
        site.serve.is_well().await;
        site.receiver.gets(&site.outbox, 1).await;
        site
    }

    /// After its server began to refuse: waits until the service says so, and goes on to say so, with one error line for each call.
    async fn says(&self, expected: &Expected) {
        let says = async || {
            let Readiness { ready, sending, problem } = self.serve.readiness().await;
            ready == expected.ready && !sending && problem.contains(expected.problem)
        };
        eventually(&format!("{} / {:?}", expected.problem, self.serve.readiness().await), says).await;
        let before = self.serve.logged(expected.lines.1);
        eventually("it tries again", async || {
            let again = self.serve.logged(expected.lines.1) > before + 1;
            let now = self.serve.readiness().await;
            assert!(now.ready == expected.ready && !now.sending, "it flaps: {now:?}");
            again
        })
        .await;
        let errors = self.serve.errors();
        let mut said: Vec<&String> = errors.iter().filter(|error| error.contains(expected.lines.0)).collect();
        let all = said.len();
        said.sort_unstable();
        said.dedup();
        assert!(all > 0 && all == said.len(), "each is said once: {errors:#?}");
        assert!(expected.lines != DOWN || all == 1, "an outage is one error: {errors:#?}");
    }

    /// After its server accepts everything again.
    async fn goes_on(&mut self) {
        self.receiver.gets(&self.outbox, 2).await;
        self.serve.is_well().await;
        self.serve.runs_on();
    }
}

/// A private database server, whose client runs on a thread for blocking work.
#[derive(Clone)]
struct Private(Arc<Mutex<Server>>);

impl Private {
    async fn start(start: fn() -> anyhow::Result<Server>) -> (Self, String) {
        let server = spawn_blocking(start).await.unwrap().unwrap();
        let url = server.url().to_owned();
        (Self(Arc::new(Mutex::new(server))), url)
    }

    async fn sql(&self, sql: &'static str) {
        let server = Arc::clone(&self.0);
        spawn_blocking(move || server.lock().unwrap().query(sql).unwrap()).await.unwrap();
    }
}

mod on_postgres {
    use sqlx::{Connection, Executor};

    use super::*;

    const ACCOUNT: &str =
        "CREATE ROLE shop LOGIN; GRANT ALL ON SCHEMA public TO shop; ALTER DATABASE notify OWNER TO shop";

    /// As a standby, or a server that a failover has fenced off.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_postgres_that_becomes_read_only_is_an_outage_until_it_is_not() {
        let (server, admin) = Private::start(postgres::start).await;
        server.sql(ACCOUNT).await;
        let url = admin.replace("postgres@", "shop@");
        let mut site = Site::start(&url, &url).await;
        // Sessions that are open have the setting of before.
        server.sql("ALTER DATABASE notify SET default_transaction_read_only = on").await;
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'shop'").await;
        site.says(&OUTAGE).await;
        // The sessions that were opened meanwhile stay read-only.
        // From another database, which is not read-only.
        let mut other = sqlx::PgConnection::connect(&admin.replace("/notify", "/postgres")).await.unwrap();
        other.execute("ALTER DATABASE notify RESET default_transaction_read_only").await.unwrap();
        site.goes_on().await;
    }

    /// The setting of the whole server, which open sessions follow.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_postgres_set_read_only_under_open_sessions_is_an_outage() {
        let (server, url) = Private::start(postgres::start).await;
        let mut site = Site::start(&url, &url).await;
        server.sql("ALTER SYSTEM SET default_transaction_read_only = on").await;
        server.sql("SELECT pg_reload_conf()").await;
        site.says(&OUTAGE).await;
        server.sql("ALTER SYSTEM RESET default_transaction_read_only").await;
        server.sql("SELECT pg_reload_conf()").await;
        site.goes_on().await;
    }
}

/// The account of a service is none of those that may write to a read-only server.
async fn read_only_is_an_outage(start: fn() -> anyhow::Result<Server>) {
    let (server, url) = Private::start(start).await;
    server.sql("CREATE USER shop@'127.0.0.1'; GRANT ALL ON notify.* TO shop@'127.0.0.1'").await;
    let shop = url.replace("root@", "shop@");
    let mut site = Site::start(&url, &shop).await;
    server.sql("SET GLOBAL read_only = ON").await;
    site.says(&OUTAGE).await;
    server.sql("SET GLOBAL read_only = OFF").await;
    site.goes_on().await;
}

mod on_mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_mariadb_that_becomes_read_only_is_an_outage_until_it_is_not() {
        read_only_is_an_outage(mariadb::start).await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_mysql_that_becomes_read_only_is_an_outage_until_it_is_not() {
        read_only_is_an_outage(mysql::start).await;
    }
}

mod on_sqlite {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    /// The service opens the file again with another URL.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite_that_is_opened_read_only_is_an_outage_until_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let url = |mode: &str| format!("sqlite://{}?mode={mode}", folder.path().join("shop.db").display());
        let mut site = Site::start(&url("rwc"), &url("rwc")).await;
        site.serve.reload(&url("ro"));
        site.says(&OUTAGE).await;
        site.serve.reload(&url("rw"));
        site.goes_on().await;
    }

    /// The account of a service may not write to the file, until its owner allows it. Nothing forbids root to write.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite_file_that_may_not_be_written_is_an_outage_until_it_may() {
        const UNPRIVILEGED: u32 = 65_534;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let receiver = Receiver::start().await;
        let outbox = ConnectedOutbox::connect(&url).await.unwrap();
        outbox.migrate().await.unwrap();
        outbox.define_if_missing(receiver.order()).await.unwrap();
        let own = tempfile::tempdir().unwrap();
        let is_root = chown(own.path(), Some(UNPRIVILEGED), None).is_ok();
        let may_write = |may: bool| {
            let mode = |folder: bool| match (may, folder) {
                (true, true) => 0o777,
                (true, false) => 0o666,
                (false, true) => 0o555,
                (false, false) => 0o444,
            };
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                let path = entry.unwrap().path();
                std::fs::set_permissions(path, PermissionsExt::from_mode(mode(false))).unwrap();
            }
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode(true))).unwrap();
        };
        may_write(false);
        let serve = Served::start_in(own, &format!("url = '{url}'"), |program| {
            if is_root {
                program.uid(UNPRIVILEGED);
            }
        })
        .await;
        let mut site = Site { outbox, receiver, serve };
        // It cannot even start, and tries again.
        let refused = async || {
            let now = site.serve.readiness().await;
            !now.ready && !now.sending && now.problem.contains("attempt to write a readonly database")
        };
        eventually("it says so", refused).await;
        let tries = || site.serve.logged("cannot start with");
        let before = tries();
        eventually("it tries again", async || tries() > before + 1).await;
        let log = site.serve.log();
        let said = log.lines().filter(|line| line.contains("cannot start with") && !line.contains("DEBUG"));
        assert_eq!(said.count(), 1, "it is said once: {log}");
        may_write(true);
        site.goes_on().await;
    }
}

mod on_redis {
    use super::*;

    fn command(url: &str, words: &[&str]) -> ::redis::Value {
        let mut connection = ::redis::Client::open(url).unwrap().get_connection().unwrap();
        ::redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).unwrap()
    }

    async fn private() -> Server {
        spawn_blocking(redis::start).await.unwrap().unwrap()
    }

    fn replicates(server: &Server, master: Option<&Server>) {
        match master {
            Some(master) => command(server.url(), &["REPLICAOF", "127.0.0.1", &master.port().to_string()]),
            None => command(server.url(), &["REPLICAOF", "NO", "ONE"]),
        };
    }

    async fn has_copied(server: &Server) {
        eventually("it is a replica", async || {
            let info: String = ::redis::from_redis_value(command(server.url(), &["INFO", "replication"])).unwrap();
            info.contains("master_link_status:up")
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_becomes_a_replica_is_an_outage_until_it_is_a_master() {
        let (server, other) = (private().await, private().await);
        let mut site = Site::start(server.url(), server.url()).await;
        // The other one gets all that this one has, and becomes its master.
        replicates(&other, Some(&server));
        has_copied(&other).await;
        replicates(&other, None);
        replicates(&server, Some(&other));
        has_copied(&server).await;
        site.says(&OUTAGE).await;
        replicates(&server, None);
        site.goes_on().await;
    }

    /// The disk fails: its snapshot has the name of a folder.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_cannot_write_its_snapshot_refuses_until_it_can() {
        let server = private().await;
        let mut site = Site::start(server.url(), server.url()).await;
        let snapshot = server.directory().join("data/dump.rdb");
        std::fs::create_dir(&snapshot).unwrap();
        let admin = |words: &[&str]| command(server.url(), words);
        admin(&["CONFIG", "SET", "save", "86400 1"]);
        let saved = async |expected: &str| {
            eventually("the snapshot has ended", async || {
                let info: String = ::redis::from_redis_value(admin(&["INFO", "persistence"])).unwrap();
                info.contains("rdb_bgsave_in_progress:0")
                    && info.contains(&format!("rdb_last_bgsave_status:{expected}"))
            })
            .await;
        };
        admin(&["BGSAVE"]);
        saved("err").await;
        eventually("it is not ready", async || !site.serve.readiness().await.ready).await;
        // Not only when it is time to ask for what acks need, once a minute.
        let beats = site.serve.logged("storing a heartbeat");
        assert!(beats < 8, "{beats} beats were refused before: {}", site.serve.log());
        site.says(&Expected { ready: false, problem: "MISCONF", lines: REFUSED }).await;
        std::fs::remove_dir(&snapshot).unwrap();
        admin(&["BGSAVE"]);
        saved("ok").await;
        site.goes_on().await;
    }

    /// Adds are refused; what is stored is sent, and acks are taken.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn full_private_redis_sends_what_it_has_and_takes_acks() {
        let server = private().await;
        let mut site = Site::start(server.url(), server.url()).await;
        // A tick of a timetable adds a notice, too.
        let with_timetable = site.outbox.definitions().await.unwrap().into_iter().map(|state| state.row);
        for seen in with_timetable.filter(|row| row.schedule.is_some()) {
            site.outbox.update(&seen, seen.clone().enabled(false)).await.unwrap();
        }
        let later = NewNotice::new("order", 7).unwrap().delay(Duration::from_secs(8));
        site.outbox.add(later).await.unwrap();
        command(server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]);
        assert!(site.outbox.add(NewNotice::new("order", 8).unwrap()).await.is_err(), "it is full");
        eventually("what was stored is sent", async || site.receiver.count() == 2).await;
        let last_beat = async || site.outbox.operator("a test").nodes().await.unwrap()[0].last_seen;
        for _ in 0..2 {
            let before = last_beat().await;
            eventually("it says that it lives", async || {
                let now = site.serve.readiness().await;
                assert!(now.ready && now.sending, "{now:?}: {:#?}", site.serve.errors());
                last_beat().await > before
            })
            .await;
        }
        command(server.url(), &["CONFIG", "SET", "maxmemory", "0"]);
        site.goes_on().await;
        assert_eq!(site.serve.errors(), [] as [String; 0]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_account_that_loses_a_right_is_refused_until_it_has_it() {
        let server = private().await;
        let admin = |words: &[&str]| command(server.url(), words);
        admin(&["ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all"]);
        let url = server.url().replace("redis://", "redis://shop:secret@");
        let mut site = Site::start(server.url(), &url).await;
        admin(&["ACL", "SETUSER", "shop", "-zadd"]);
        site.says(&Expected { ready: false, problem: "the database refuses a call", lines: REFUSED }).await;
        admin(&["ACL", "SETUSER", "shop", "+zadd"]);
        site.goes_on().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_redis_that_demands_a_password_refuses_until_it_does_not() {
        let server = private().await;
        let mut site = Site::start(server.url(), server.url()).await;
        command(server.url(), &["CONFIG", "SET", "requirepass", "secret"]);
        let admin = server.url().replace("redis://", "redis://:secret@");
        command(&admin, &["CLIENT", "KILL", "TYPE", "normal"]);
        site.says(&Expected { ready: false, problem: "the database refuses a call", lines: REFUSED }).await;
        command(&admin, &["CONFIG", "SET", "requirepass", ""]);
        site.goes_on().await;
    }
}
