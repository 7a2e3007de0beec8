//! [`Masking`]: what people see of a notice whose definition has a mask: its parameter, and the texts and responses that may repeat it.
//!
//! The parameter is read once, and everything together has one budget. What is beyond it is hidden. Which ways out lead to people is decided by
//! the callers; see `docs/decisions/0108-people-see-masked-parameters.md`.

use std::collections::BTreeSet;

use super::NotifyDef;
use super::mask::{MASKED, Mask};
use super::spelled::replaced;
use crate::cipher::{ENCRYPTED, is_encrypted};
use crate::notice::{NoticeRecord, Response};
use crate::path::{Budget, quickly};

/// A mask that is applied to one parameter.
pub struct Masking<'a> {
    /// `None`: what is to be hidden is unknown, so everything is.
    mask: Option<&'a Mask>,
    /// The parameter as people see it.
    shown: Option<String>,
    /// The texts and numbers that are masked; `None`: they are unknown or too many.
    values: Option<BTreeSet<String>>,
    budget: &'a mut Budget,
}

impl<'a> Masking<'a> {
    /// Applies a mask; `None` hides everything.
    pub fn new(mask: Option<&'a Mask>, param: &str, budget: &'a mut Budget) -> Self {
        let applied = mask.and_then(|mask| mask.apply(param, budget).ok());
        let (shown, values) = applied.map_or((None, None), |(shown, values)| (Some(shown), values));
        Self { mask, shown, values, budget }
    }

    /// Returns the parameter as people see it. A parameter that cannot be read, or for which finding the values takes too many steps, is masked as
    /// a whole.
    pub fn param(&mut self) -> String {
        self.shown.take().unwrap_or_else(|| format!("\"{MASKED}\""))
    }

    /// Returns a text, such as the message of an error, without the masked values: texts and numbers of at least three characters, also where the
    /// text spells them with other escapes of JSON (`\u00e9`, `\/`). If the parameter cannot be read, or finding the values takes too many
    /// steps, nothing of the text is left.
    pub fn text(&mut self, text: &str) -> String {
        let shown = self.values.as_ref().and_then(|values| replaced(text, values, MASKED, self.budget).ok());
        shown.unwrap_or_else(|| MASKED.to_owned())
    }

    /// Returns a response as people see it. It may repeat the parameter, so a body that is a JSON object or array is masked like a
    /// parameter and has none of the masked values of the parameter; of another body nothing is left. The number of an HTTP status stays;
    /// another status has none of the masked values.
    pub fn response(&mut self, response: &Response) -> Response {
        let status = response.status();
        let status = if is_http(status) { status.to_owned() } else { self.text(status) };
        let body = response.body_text().map(|text| {
            let is_json = text.trim_start().starts_with(['{', '[']);
            let applied = self.mask.filter(|_| is_json).and_then(|mask| mask.apply(text, self.budget).ok());
            applied.map_or_else(|| MASKED.to_owned(), |(shown, _)| self.text(&shown))
        });
        Response::shown(status, body)
    }
}

/// Returns true for the number of an HTTP status.
fn is_http(status: &str) -> bool {
    status.parse::<u16>().is_ok_and(|number| (100..600).contains(&number))
}

impl NotifyDef {
    /// Returns a parameter of one of its notices as people see it: [`ENCRYPTED`] instead of one that is still encrypted. If the column
    /// `mask` is invalid, or takes more than some milliseconds, nothing of it is shown.
    pub fn masked(&self, param: &str) -> String {
        match self.parsed_mask() {
            _ if is_encrypted(param) => format!("\"{ENCRYPTED}\""),
            None => param.to_owned(),
            Some(mask) => quickly(|budget| Masking::new(mask.ok().as_ref(), param, budget).param())
                .unwrap_or_else(|| format!("\"{MASKED}\"")),
        }
    }
}

impl NoticeRecord {
    /// Returns the record as people see it, by the row of its definition as it is now: the parameter and the responses masked, and the
    /// description, the errors and the reason without the masked values. Without the row nothing of the parameter is shown, and nothing of
    /// one that is still encrypted, because this process has no cipher or not its key.
    #[must_use]
    pub fn for_people(self, definition: Option<&NotifyDef>) -> Self {
        self.for_people_within(definition, &mut Budget::default())
    }

    /// As [`Self::for_people`], within a budget.
    pub(crate) fn for_people_within(&self, definition: Option<&NotifyDef>, budget: &mut Budget) -> Self {
        let (mut shown, mask) = (self.clone(), definition.map(NotifyDef::parsed_mask));
        if is_encrypted(&self.param) {
            if matches!(mask, Some(Some(_))) {
                // The texts of the handler were stored without any value of the parameter; this one may be the application's.
                shown.description = shown.description.map(|_| MASKED.to_owned());
            }
            shown.param = format!("\"{ENCRYPTED}\"");
            return shown;
        }
        let mask = match mask {
            Some(None) => return shown,
            // An invalid mask, or no row: what it would hide is unknown.
            mask => mask.flatten().and_then(Result::ok),
        };
        let mut masking = Masking::new(mask.as_ref(), &self.param, budget);
        let of_attempts = shown.errors.iter_mut().filter_map(|error| error.response.as_mut());
        for response in of_attempts.chain(shown.response.iter_mut().map(|last| &mut last.response)) {
            *response = masking.response(response);
        }
        let messages = shown.errors.iter_mut().map(|error| &mut error.message);
        for text in messages.chain(&mut shown.description).chain(&mut shown.end_reason) {
            *text = masking.text(text);
        }
        shown.param = masking.param();
        shown
    }
}
