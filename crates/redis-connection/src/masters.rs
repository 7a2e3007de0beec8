//! One key on each master of a cluster, for what must be asked of all of them. [`Line`](crate::line::Line) connects.

use std::collections::{BTreeMap, HashMap};

use redis::Value;
use redis::cluster_routing::Slot;

use crate::connection::Redis;
use crate::error::{Error, Result};

/// So many names are tried. A master with a single one of the 16,384 slots is missed with a chance of one in 200,000.
const NAMES: u32 = 200_000;

impl Redis {
    /// Returns keys of which each master has one: of the names that `name` returns for 0, 1, 2 and so on the first one in a slot of that
    /// master. A server that belongs to no cluster has the first name.
    ///
    /// # Errors
    /// [`Error::Redis`].
    #[doc(hidden)]
    pub async fn key_of_each_master(&self, name: impl Fn(u32) -> String) -> Result<Vec<String>> {
        const DOING: &str = "asking which master has which slots";
        if !self.line.is_cluster() {
            return Ok(vec![name(0)]);
        }
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let reply = self.line.send(&question).await.map_err(Error::redis(DOING))?;
        let masters = masters(&reply).ok_or_else(|| Error::unreadable(DOING))?;
        Ok(first_of_each(&masters, name))
    }
}

/// Reads a reply to `CLUSTER SLOTS`: for each range its first and last slot, its master, and its replicas. Returns the master of each slot.
fn masters(reply: &Value) -> Option<HashMap<Slot, String>> {
    let Value::Array(ranges) = reply else { return None };
    let mut masters = HashMap::new();
    for range in ranges {
        let Value::Array(range) = range else { return None };
        let [Value::Int(first), Value::Int(last), master, ..] = range.as_slice() else { return None };
        let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?;
        // Address, port and id, which no other node has.
        let master = format!("{master:?}");
        masters.extend(slots.filter_map(Slot::new).map(|slot| (slot, master.clone())));
    }
    Some(masters)
}

fn first_of_each(masters: &HashMap<Slot, String>, name: impl Fn(u32) -> String) -> Vec<String> {
    let mut missing: BTreeMap<&str, Option<String>> = masters.values().map(|master| (master.as_str(), None)).collect();
    let mut left = missing.len();
    for name in (0..NAMES).map(name) {
        if left == 0 {
            break;
        }
        if let Some(master) = masters.get(&Slot::for_key(&name))
            && let Some(found @ None) = missing.get_mut(master.as_str())
        {
            *found = Some(name);
            left -= 1;
        }
    }
    missing.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, node: &str) -> Value {
        let node = Value::Array(vec![Value::BulkString(b"127.0.0.1".to_vec()), Value::BulkString(node.into())]);
        let replica =
            Value::Array(vec![Value::BulkString(b"127.0.0.1".to_vec()), Value::BulkString(b"replica".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node, replica])
    }

    #[test]
    fn each_master_has_one_key_also_with_several_ranges_or_a_single_slot() {
        let reply = Value::Array(vec![
            range(0, 5_000, "a"),
            range(5_001, 10_000, "b"),
            range(10_001, 10_001, "c"),
            range(10_002, 16_383, "a"),
        ]);
        let masters = masters(&reply).unwrap();
        assert_eq!(masters.len(), 16_384);
        let keys = first_of_each(&masters, |number| format!("{{notify#0:{number}}}"));
        let mut nodes: Vec<&str> = keys.iter().map(|key| masters[&Slot::for_key(key)].as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!((keys.len(), nodes.len()), (3, 3), "{keys:?}");
    }

    #[test]
    fn reply_of_another_form_is_an_error() {
        assert_eq!(masters(&Value::Nil), None);
        assert_eq!(
            masters(&Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(70_000), Value::Nil])])),
            None
        );
    }
}
