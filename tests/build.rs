//! Turns the selection of databases (and of mail) into `cfg`s, so that a test which does not run does not print `ok`.

fn main() {
    println!("cargo:rerun-if-env-changed=NOTIFY_TEST_DATABASES");
    let selected = std::env::var("NOTIFY_TEST_DATABASES")
        .unwrap_or_else(|_| "sqlite,postgres,mariadb,mysql,pgbouncer,mail,redis,redis_cluster".to_owned());
    for database in ["sqlite", "postgres", "mariadb", "mysql", "pgbouncer", "mail", "redis", "redis_cluster"] {
        println!("cargo:rustc-check-cfg=cfg({database})");
        if selected.split(',').any(|name| name.trim() == database) {
            println!("cargo:rustc-cfg={database}");
        }
    }
}
