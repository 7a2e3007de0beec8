//! Turns the selection of databases (of brokers, mail, example receivers, services and checkers of files) into `cfg`s, so that a test which does not
//! run does not print `ok`.

const ALL: [&str; 13] = [
    "sqlite",
    "postgres",
    "mariadb",
    "mysql",
    "pgbouncer",
    "mail",
    "redis",
    "redis_cluster",
    "rabbitmq",
    "nats",
    "receivers",
    "services",
    "deploy",
];

fn main() {
    println!("cargo:rerun-if-env-changed=NOTIFY_TEST_DATABASES");
    let selected = std::env::var("NOTIFY_TEST_DATABASES").unwrap_or_else(|_| ALL.join(","));
    for database in ALL {
        println!("cargo:rustc-check-cfg=cfg({database})");
        if selected.split(',').any(|name| name.trim() == database) {
            println!("cargo:rustc-cfg={database}");
        }
    }
}
