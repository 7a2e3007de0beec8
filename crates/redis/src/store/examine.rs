//! What Redis says of itself: version, eviction, persistence. A cluster is judged by all of its servers.

use solid_notify_core::StoreError;
use solid_notify_core::finding::Finding;

use super::{RedisStore, fault};

const DOING: &str = "reading the state of the server";

/// A check of a field of INFO.
struct Check {
    field: &'static str,
    judge: fn(&str) -> Finding,
}

const CHECKS: [Check; 6] = [
    Check {
        field: "redis_version",
        judge: |version| match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
            Some(major) if major >= 7 => Finding::fine("version", format!("Redis {version}")),
            _ => Finding::problem(
                "version",
                format!("Redis {version}"),
                "scripts need Redis 7 or newer",
                "update the server",
            ),
        },
    },
    Check {
        field: "maxmemory_policy",
        judge: |policy| match policy.starts_with("allkeys") {
            true => Finding::problem(
                "eviction",
                policy,
                "a full server deletes notices",
                "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
            ),
            // The other policies delete only keys that expire, and none of this crate's keys does.
            false => Finding::fine("eviction", policy),
        },
    },
    Check {
        field: "aof_enabled",
        judge: |enabled| match enabled {
            "1" => Finding::fine("persistence", "append-only file"),
            _ => Finding::warning(
                "persistence",
                "there is no append-only file",
                "a crash of the server loses the notices since the last snapshot, or all of them",
                "CONFIG SET appendonly yes, and in redis.conf; appendfsync everysec loses at most a second or two",
            ),
        },
    },
    Check {
        field: "aof_last_write_status",
        judge: |status| match status {
            "ok" => Finding::fine("append_only_file", status),
            _ => Finding::problem(
                "append_only_file",
                status,
                "the server cannot write its file, so a crash loses notices",
                "look at the disk and the log of the server",
            ),
        },
    },
    Check {
        field: "rdb_last_bgsave_status",
        judge: |status| match status {
            "ok" => Finding::fine("snapshot", status),
            _ => Finding::problem(
                "snapshot",
                status,
                "the server cannot write snapshots; by default it then refuses to store anything",
                "look at the disk and the log of the server",
            ),
        },
    },
    Check {
        field: "master_link_status",
        judge: |status| match status {
            "up" => Finding::fine("replication", status),
            _ => Finding::warning(
                "replication",
                status,
                "a replica does not follow its master",
                "look at the log of the replica",
            ),
        },
    },
];

/// Redis does not say where a connection comes from, so one on the same machine is judged like any other.
fn tls(is_encrypted: bool) -> Finding {
    match is_encrypted {
        true => Finding::fine("tls", "rediss://"),
        false => Finding::warning(
            "tls",
            "the connection is not encrypted",
            "parameters and passwords can be read on the network, unless the server is on this machine",
            "let the URL begin with rediss://",
        ),
    }
}

impl RedisStore {
    pub(crate) async fn examine_servers(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = vec![tls(self.redis.is_encrypted())];
        for check in CHECKS {
            let values = self.redis.server_info(check.field).await.map_err(|error| fault(DOING, error))?;
            // The worst of all servers. A field that no server has is not applicable.
            findings.extend(values.iter().map(|value| (check.judge)(value)).max_by_key(|finding| finding.severity));
        }
        Ok(findings)
    }
}
