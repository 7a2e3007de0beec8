//! [`Shared`]: what several definitions use together, such as an HTTP client or an OAuth token, by what it is made from.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Values by key. A value exists for as long as a configuration that uses it.
pub(super) struct Shared<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone, V: Default> Shared<K, V> {
    /// Returns the value of this key, the same one to all that have it at the same time.
    pub(super) fn get(&self, key: &K) -> Arc<V> {
        let mut values = self.0.lock();
        if let Some(value) = values.get(key).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = Arc::new(V::default());
        values.insert(key.clone(), Arc::downgrade(&value));
        value
    }
}
