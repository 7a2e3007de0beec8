//! Stores and channels behind hosts and passwords of each form: an address of IPv6, a password with signs that a URL reserves.

use std::net::{Ipv6Addr, SocketAddr};
use std::process::Stdio;

use sqlx::ConnectOptions;
use test_support::databases::server_url;
use test_support::{Database, MariaDb, MySql, Postgres, TestDb};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use url::Url;

/// With percent signs that look like encoded characters, all signs that a URL reserves, and the comma between the nodes of a cluster.
const PASSWORDS: [&str; 4] = ["ab%41cd", "100%", "p@:/?#[]{} +ü,&=;|^`<>\"", "%2F%zz%25"];

/// Runs the program with these variables. Returns its exit code and what it printed.
async fn run(variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notify-program"));
    command.env_remove("SOLID_NOTIFY_URL").envs(variables.iter().copied()).arg("--yes").args(arguments);
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout) + &text(output.stderr))
}

/// Logs in with each password, which the server has got by `set`, and with another one, which it refuses.
async fn any_password_logs_in(url: &str, mut set: impl AsyncFnMut(&str)) {
    let folder = tempfile::tempdir().unwrap();
    let contexts = folder.path().join("contexts.toml");
    let context = format!("[contexts.shop]\nurl = '{url}'\npassword = 'env:SHOP_PASSWORD'\n");
    std::fs::write(&contexts, format!("current = 'shop'\n{context}")).unwrap();
    let list = async |password: &str| {
        run(&[("SHOP_PASSWORD", password)], &["--contexts", contexts.to_str().unwrap(), "def", "list"]).await
    };
    for password in PASSWORDS {
        set(password).await;
        let (code, out) = list(password).await;
        assert_eq!(code, 0, "{password}: {out}");
        assert_ne!(list(WRONG).await.0, 0, "the server checks passwords");
    }
}

/// Starts a relay on `[::1]` that connects each client to a server. Returns its port.
async fn relay(server: SocketAddr) -> u16 {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

/// Returns the URL of the same server behind an address of IPv6.
async fn behind_ipv6(url: &str) -> String {
    let parsed = Url::parse(url).unwrap();
    let server = (parsed.host_str().unwrap(), parsed.port().unwrap());
    let server = tokio::net::lookup_host(server).await.unwrap().next().unwrap();
    let (before, after) = url.split_once(parsed.host_str().unwrap()).unwrap();
    format!("{before}[::1]:{}{}", relay(server).await, after.strip_prefix(&format!(":{}", server.port())).unwrap())
}

async fn store_behind_ipv6_is_reached(url: &str) {
    let url = behind_ipv6(url).await;
    for arguments in [&["--url", &url, "migrate"][..], &["--url", &url, "def", "list"]] {
        let (code, out) = run(&[], arguments).await;
        assert_eq!(code, 0, "{arguments:?}: {out}");
    }
}

async fn account_of<D: Database>(db: &TestDb<D>) -> (String, String) {
    let account = format!("login_{:08x}", fastrand::u32(..));
    let url: Url = db.pool.connect_options().to_url_lossy();
    let mut with_account = url.clone();
    with_account.set_username(&account).unwrap();
    with_account.set_password(None).unwrap();
    (account, with_account.into())
}

async fn any_password_logs_in_on_mysql_or_mariadb<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let (account, url) = account_of(&db).await;
    let database = Url::parse(&url).unwrap().path().trim_start_matches('/').to_owned();
    db.sql(&format!("CREATE USER {account}@'%' IDENTIFIED BY 'x'")).await;
    db.sql(&format!("GRANT ALL ON {database}.* TO {account}@'%'")).await;
    any_password_logs_in(&url, async |password| {
        db.sql(&format!("ALTER USER {account}@'%' IDENTIFIED BY '{password}'")).await;
    })
    .await;
    db.sql(&format!("DROP USER {account}@'%'")).await;
    db.close().await;
}

mod on_postgres {
    use sqlx::{Connection, Executor, PgConnection};
    use test_servers::servers::postgres;
    use tokio::task::spawn_blocking;

    use super::*;

    /// On a server of its own, because the shared one lets each account in without a password.
    #[tokio::test]
    async fn any_password_logs_in_on_private_postgres() {
        let server = spawn_blocking(postgres::start).await.unwrap().unwrap();
        let mut admin = PgConnection::connect(server.url()).await.unwrap();
        let (migrated, out) = run(&[], &["--url", server.url(), "migrate"]).await;
        assert_eq!(migrated, 0, "{out}");
        let file: String = sqlx::query_scalar("SHOW hba_file").fetch_one(&mut admin).await.unwrap();
        let rules = "host all shop all scram-sha-256' UNION ALL SELECT 'host all all all trust";
        let rules = format!(
            "CREATE ROLE shop LOGIN SUPERUSER PASSWORD 'x'; COPY (SELECT '{rules}') TO '{file}'; SELECT pg_reload_conf()"
        );
        for statement in rules.split("; ") {
            admin.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.unwrap();
        }
        let mut url = Url::parse(server.url()).unwrap();
        url.set_username("shop").unwrap();
        any_password_logs_in(url.as_str(), async |password: &str| {
            admin.execute(sqlx::AssertSqlSafe(format!("ALTER ROLE shop PASSWORD '{password}'"))).await.unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn postgres_behind_an_address_of_ipv6_is_reached() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        store_behind_ipv6_is_reached(&crate::verbs::on_postgres::url(&db)).await;
        db.close().await;
    }
}

async fn store_behind_ipv6_is_reached_on<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    store_behind_ipv6_is_reached(db.pool.connect_options().to_url_lossy().as_str()).await;
    db.close().await;
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn any_password_logs_in_on_mariadb() {
        any_password_logs_in_on_mysql_or_mariadb::<MariaDb>().await;
    }

    #[tokio::test]
    async fn mariadb_behind_an_address_of_ipv6_is_reached() {
        store_behind_ipv6_is_reached_on::<MariaDb>().await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn any_password_logs_in_on_mysql() {
        any_password_logs_in_on_mysql_or_mariadb::<MySql>().await;
    }

    #[tokio::test]
    async fn mysql_behind_an_address_of_ipv6_is_reached() {
        store_behind_ipv6_is_reached_on::<MySql>().await;
    }
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn any_password_logs_in_on_redis() {
        let mut url = Url::parse(&server_url("REDIS_URL")).unwrap();
        let mut admin = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
        let account = format!("login_{:08x}", fastrand::u32(..));
        url.set_username(&account).unwrap();
        any_password_logs_in(url.as_str(), async |password: &str| {
            let rules = ["SETUSER", &account, "reset", "on", "~*", "&*", "+@all", &format!(">{password}")];
            redis::cmd("ACL").arg(&rules).exec(&mut admin).unwrap();
        })
        .await;
        redis::cmd("ACL").arg(&["DELUSER", &account]).exec(&mut admin).unwrap();
    }

    #[tokio::test]
    async fn redis_behind_an_address_of_ipv6_is_reached() {
        let url = server_url("REDIS_URL");
        store_behind_ipv6_is_reached(&url).await;
        let stream = format!("ipv6_{:08x}", fastrand::u32(..));
        let config = format!(r#"{{"url":"env:NOTIFY_SECRET_URL","stream":"{stream}"}}"#);
        let out = sent_by("redis_stream", &behind_ipv6(&url).await, &config).await;
        assert!(is_delivered(&out), "{out}");
        redis::cmd("DEL").arg(&stream).exec(&mut redis::Client::open(url).unwrap().get_connection().unwrap()).unwrap();
    }
}

/// Sends a notice by a channel whose URL is a secret. Returns what `run` and `dead list` printed.
async fn sent_by(channel: &str, url: &str, config: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}?mode=rwc", folder.path().join("x.db").display());
    let handler = format!("handler={channel}");
    let config = format!("handler_config={config}");
    let mut printed = String::new();
    for arguments in [
        &["migrate"][..],
        &["def", "create", "x", &handler, &config, "max_retry_times=0"],
        &["add", "x", "{\"n\":19.90}"],
        &["run", "--until-idle", "--allow-network", "::1/128", "--allow-network", "127.0.0.1/32"],
        &["msg", "show", "1"],
    ] {
        let arguments = [&["--url", &store][..], arguments].concat();
        let (code, out) = run(&[("NOTIFY_SECRET_URL", url)], &arguments).await;
        assert!(code < 2 || arguments.contains(&"run"), "{arguments:?}: {out}");
        printed.push_str(&out);
    }
    printed
}

/// Returns whether `run` has counted a success.
fn is_delivered(printed: &str) -> bool {
    printed.contains("succeeded:    1\n")
}

/// Returns a URL with this account and host. Each byte of the password is percent-encoded, as a URL allows.
fn url_of(scheme: &str, account: &str, password: &str, rest: &str) -> String {
    let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("{scheme}://{account}:{encoded}@{rest}")
}

/// A password that no server of these tests has.
const WRONG: &str = "abAcd";

/// No queue has this name and no stream this subject, which only the broker itself can say.
const NO_QUEUE: &str = r#"{"url":"env:NOTIFY_SECRET_URL","routing_key":"no.queue.of.this.name"}"#;

mod rabbitmq {
    use test_servers::servers::rabbitmq;
    use tokio::task::spawn_blocking;

    use super::*;

    /// On a server of its own, because no client of the shared one may create accounts.
    #[tokio::test]
    async fn any_password_logs_in_on_private_rabbitmq() {
        let accounts = PASSWORDS.iter().enumerate().map(|(k, password)| (format!("login_{k}"), (*password).to_owned()));
        let accounts: Vec<(String, String)> = accounts.collect();
        let created = accounts.clone();
        let server = spawn_blocking(move || {
            let server = rabbitmq::start().unwrap();
            rabbitmq::create_accounts(&server, &created).unwrap();
            server
        });
        let server = server.await.unwrap();
        let rest = format!("127.0.0.1:{}/%2f", server.port());
        for (account, password) in &accounts {
            let out = sent_by("amqp", &url_of("amqp", account, password, &rest), NO_QUEUE).await;
            assert!(out.contains("the broker returned the message (312"), "{password}: {out}");
        }
        let out = sent_by("amqp", &url_of("amqp", "login_0", WRONG, &rest), NO_QUEUE).await;
        assert!(out.contains("ACCESS_REFUSED") && out.contains("auth"), "{out}");
    }

    #[tokio::test]
    async fn rabbitmq_behind_an_address_of_ipv6_is_reached() {
        let out = sent_by("amqp", &behind_ipv6(&server_url("AMQP_URL")).await, NO_QUEUE).await;
        assert!(out.contains("the broker returned the message (312"), "{out}");
    }
}

mod nats {
    use test_servers::servers::nats;
    use tokio::task::spawn_blocking;

    use super::*;

    #[tokio::test]
    async fn any_password_logs_in_on_private_nats() {
        let config = NO_QUEUE.replace("routing_key", "subject");
        for password in PASSWORDS {
            let server = spawn_blocking(move || nats::start_with_account("shop", password)).await.unwrap().unwrap();
            let rest = format!("127.0.0.1:{}", server.port());
            let out = sent_by("nats", &url_of("nats", "shop", password, &rest), &config).await;
            assert!(out.contains("no stream") || out.contains("no responders"), "{password}: {out}");
            let out = sent_by("nats", &url_of("nats", "shop", WRONG, &rest), &config).await;
            assert!(out.contains("auth"), "{password}: {out}");
        }
    }

    #[tokio::test]
    async fn nats_behind_an_address_of_ipv6_is_reached() {
        let config = NO_QUEUE.replace("routing_key", "subject");
        let out = sent_by("nats", &behind_ipv6(&server_url("NATS_URL")).await, &config).await;
        assert!(out.contains("no stream") || out.contains("no responders"), "{out}");
    }
}

mod mail {
    use test_servers::servers::exim;
    use tokio::task::spawn_blocking;

    use super::*;

    const MAIL: &str = r#"{"smtp":"env:NOTIFY_SECRET_URL","from":"a@example.org","to":["b@example.org"],"subject":"{{ param.n }}","text":"x"}"#;

    #[tokio::test]
    async fn any_password_logs_in_on_a_private_mail_server() {
        let server = spawn_blocking(exim::start).await.unwrap().unwrap();
        // The third port, without TLS, whose certificate the program would not trust.
        let rest = format!("127.0.0.1:{}?tls=none", server.port() + 2);
        for password in PASSWORDS {
            exim::set_accounts(&server, &[("shop", password)]).unwrap();
            let out = sent_by("mail", &url_of("smtp", "shop", password, &rest), MAIL).await;
            assert!(is_delivered(&out), "{password}: {out}");
            let out = sent_by("mail", &url_of("smtp", "shop", WRONG, &rest), MAIL).await;
            assert!(out.contains("535") && out.contains("auth"), "{password}: {out}");
        }
    }

    #[tokio::test]
    async fn mail_server_behind_an_address_of_ipv6_is_reached() {
        let out = sent_by("mail", &behind_ipv6(&server_url("SMTP_PLAINTEXT_URL")).await, MAIL).await;
        assert!(is_delivered(&out), "{out}");
    }
}

#[tokio::test]
async fn webhook_to_an_address_of_ipv6_arrives() {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://[::1]:{}/orders/{{{{ param.n }}}}", listener.local_addr().unwrap().port());
    let receive = axum::routing::any(async |uri: axum::http::Uri| uri.path().to_owned());
    tokio::spawn(axum::serve(listener, axum::Router::new().fallback(receive)).into_future());
    let out = sent_by("webhook", "", &format!(r#"{{"url":"{url}","allow_hosts":["[::1]"]}}"#)).await;
    assert!(is_delivered(&out) && out.contains("/orders/19.90"), "{out}");
}
