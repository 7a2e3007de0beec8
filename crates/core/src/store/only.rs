//! [`Only`]: what narrows a queue slice beside its class and its times: ids, keys, a tag, a text. How a store finds such notices is left
//! to the store.

use crate::notice::NoticeRecord;

/// Conditions on the notices of a queue slice, which apply together. The default selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Only {
    /// Only these notices. Ids of other definitions may be among them.
    pub ids: Option<Vec<i64>>,
    /// Only those with this tag.
    pub tag: Option<String>,
    /// Only those with this ordering key.
    pub ordering_key: Option<String>,
    /// Only those with this dedupe key, whether it is still unique or not.
    pub dedupe_key: Option<String>,
    /// Only those that have this text. Of ended notices between two times.
    pub text: Option<TextSearch>,
}

/// A text to search for, byte by byte, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSearch {
    /// The text.
    pub text: String,
    /// True: the parameter is searched, too. False if its definition has a mask.
    pub in_param: bool,
}

impl Only {
    /// Returns true if nothing is narrowed.
    pub fn selects_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the notice meets all conditions.
    pub fn selects(&self, notice: &NoticeRecord) -> bool {
        let is = |wanted: &Option<String>, has: &Option<String>| wanted.is_none() || wanted == has;
        self.ids.as_ref().is_none_or(|ids| ids.contains(&notice.id))
            && is(&self.tag, &notice.tag)
            && is(&self.ordering_key, &notice.ordering_key)
            && is(&self.dedupe_key, &notice.dedupe_key)
            && self.text.as_ref().is_none_or(|text| text.is_in(notice))
    }
}

impl TextSearch {
    /// Returns true if the message of the last failed attempt has the text, or the parameter, if that is searched.
    pub fn is_in(&self, notice: &NoticeRecord) -> bool {
        let error = notice.errors.last().is_some_and(|error| error.message.contains(&self.text));
        error || (self.in_param && notice.param.contains(&self.text))
    }
}
