//! PostgreSQL behind poolers that share its sessions: notices arrive, and the application does not see our session settings.
//!
//! PgBouncer is a real one, in transaction mode, in front of a private server. RDS Proxy is a few lines that refuse what it refuses.

use solid_notify::{NotifyDef, Outbox};

/// RDS Proxy sends this error to a connection with options.
mod like_rds_proxy {
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
    use tokio::net::{TcpListener, TcpStream};

    /// The port of a proxy that refuses options.
    pub async fn start(server: SocketAddr) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, server));
            }
        });
        port
    }

    async fn serve(mut client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
        let mut packet = read_packet(&mut client).await?;
        // A request for TLS, which has no more than its number.
        if packet.len() == 8 {
            client.write_all(b"N").await?;
            packet = read_packet(&mut client).await?;
        }
        if packet.windows(8).any(|window| window == b"options\0") {
            let text = "SFATAL\0VFATAL\0C0A000\0MFeature not supported: RDS Proxy currently doesn't support command-line options.\0\0";
            client.write_all(b"E").await?;
            client.write_all(&u32::try_from(text.len() + 4).unwrap().to_be_bytes()).await?;
            return client.write_all(text.as_bytes()).await;
        }
        let mut upstream = TcpStream::connect(server).await?;
        upstream.write_all(&packet).await?;
        copy_bidirectional(&mut client, &mut upstream).await.map(drop)
    }

    /// The first packets have no type, only a length.
    async fn read_packet(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        let mut packet = vec![0; 4];
        client.read_exact(&mut packet).await?;
        let length = u32::from_be_bytes(packet[..4].try_into().unwrap());
        packet.resize(usize::try_from(length).unwrap(), 0);
        client.read_exact(&mut packet[4..]).await?;
        Ok(packet)
    }
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn a_proxy_that_refuses_options_gets_none() {
        use sqlx::Executor;
        use test_support::TestDb;

        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&db.pool).await.unwrap();
        let url = test_support::databases::server_url("POSTGRES_URL");
        let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
        let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap().next().unwrap();
        let options = options.host("127.0.0.1").port(like_rds_proxy::start(server).await);
        let set = format!("SET search_path TO {schema}");
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2).after_connect(move |conn, _| {
            let set = sqlx::AssertSqlSafe(set.clone());
            Box::pin(async move { conn.execute(set).await.map(drop) })
        });
        let outbox = Outbox::new(pool.connect_lazy_with(options));
        for _ in 0..3 {
            assert_eq!(outbox.definitions().await.unwrap().len(), 1);
        }
        outbox.pool().close().await;
        db.close().await;
    }

    mod on_pgbouncer {
        use super::*;

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn private_pgbouncer_sends_all_and_hides_our_session_settings() {
            use std::collections::BTreeSet;

            use solid_notify::{Failure, HandlerResult, Notice, OutboxExt, add_notice};
            use sqlx::postgres::{PgPool, PgPoolOptions};
            use test_servers::servers::{pgbouncer, postgres};
            use test_support::sending::{Calls, PATIENCE, eventually};
            use tokio::task::spawn_blocking;

            /// The settings of a session, but for those that a driver gives each connection, and those of extensions, which show once they are used.
            async fn settings(conn: &mut sqlx::PgConnection) -> BTreeSet<(String, String)> {
                let sql =
                    "SELECT name, setting FROM pg_settings WHERE name NOT IN ('application_name', 'extra_float_digits')
                           AND name NOT LIKE '%.%'";
                sqlx::query_as(sql).fetch_all(conn).await.unwrap().into_iter().collect()
            }

            let (server, pooler) = spawn_blocking(|| {
                let server = postgres::start().unwrap();
                let pooler = pgbouncer::start(server.port()).unwrap();
                (server, pooler)
            })
            .await
            .unwrap();
            let direct = PgPool::connect(server.url()).await.unwrap();
            let expected = settings(&mut direct.acquire().await.unwrap()).await;
            let pool = PgPoolOptions::new().max_connections(8).connect(pooler.url()).await.unwrap();
            let outbox = Outbox::new(pool.clone());
            outbox.migrate().await.unwrap();
            outbox.define_if_missing(NotifyDef::new("sync").retry_interval("100ms")).await.unwrap();
            let calls = Calls::<i64>::default();
            let sent = calls.clone();
            let handler = move |notice: Notice<i64>| {
                let fails = notice.param() % 7 == 0 && notice.attempt() == 1;
                if !fails {
                    sent.note(*notice.param());
                }
                async move { if fails { Err(Failure::retry("on purpose")) } else { HandlerResult::Ok(()) } }
            };
            let sweeper = outbox.sweeper().handler("sync", handler).housekeeping(false).start().await.unwrap();
            // More transactions at once than there are sessions, so that all of them are shared.
            let adding = (0..20_i64).map(|task| {
                let outbox = outbox.clone();
                tokio::spawn(async move {
                    for n in 0..10 {
                        let mut tx = outbox.begin().await.unwrap();
                        add_notice(&mut tx, "sync", task * 10 + n).await.unwrap();
                        tx.commit().await.unwrap();
                    }
                })
            });
            for task in adding.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            eventually("all is sent", async || calls.count() == 200).await;
            // The examination finds the pooler, and none where there is none.
            let pooled = async |outbox: &Outbox<sqlx::Postgres>| {
                let findings = outbox.operator("alice").examine().await;
                findings.into_iter().find(|finding| finding.check == "pooler").unwrap().severity
            };
            assert_eq!(pooled(&outbox).await, solid_notify::operate::Severity::Warning);
            assert_eq!(pooled(&Outbox::new(direct.clone())).await, solid_notify::operate::Severity::Fine);
            assert_eq!(calls.all().into_iter().collect::<BTreeSet<_>>(), (0..200).collect());

            // Both sessions at once: a transaction keeps one.
            let mut sessions = BTreeSet::new();
            let (mut one, mut other) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
            for conn in [&mut *one, &mut *other] {
                sessions.insert(
                    sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&mut *conn).await.unwrap(),
                );
                let set: Vec<_> = settings(conn).await.difference(&expected).cloned().collect();
                assert!(set.is_empty(), "the application's sessions have settings of ours: {set:?}");
            }
            assert_eq!(sessions.len(), usize::from(pgbouncer::SESSIONS));
            drop((one, other));
            tokio::time::timeout(PATIENCE, sweeper.shutdown()).await.unwrap();
            pool.close().await;
            direct.close().await;
            spawn_blocking(move || {
                pooler.stop().unwrap();
                server.stop().unwrap();
            })
            .await
            .unwrap();
        }
    }
}
