//! Tests of `in_force.rs`.

use super::*;

fn stored(id: i64, def: NotifyDef) -> NotifyDef {
    NotifyDef { id, ..def }
}

#[test]
fn target_inherits_what_it_does_not_set() {
    let parent =
        stored(3, NotifyDef::new("order").timeout("7s").need_confirm(true).mask("[\"$.card\"]").max_concurrency(2));
    let parent = parent.schedule("@daily");
    let own = stored(4, NotifyDef::new("order/erp").target_of(3).max_concurrency(9).handler_config("{}"));
    let InForce { row, problem, .. } = own.among(&[parent.clone(), own.clone()]);
    assert_eq!(problem, None);
    assert_eq!((row.id, row.name.as_str(), row.target_of), (4, "order/erp", Some(3)));
    assert_eq!((row.timeout.as_str(), row.need_confirm, row.max_concurrency), ("7s", true, 9));
    assert_eq!((row.mask, row.handler_config.as_deref()), (parent.mask.clone(), Some("{}")));
    assert_eq!((row.handler.as_deref(), row.schedule), (Some("order"), None), "the parent has the timetable");
    let off = own.among(&[NotifyDef { enabled: false, ..parent.clone() }]);
    assert!(!off.row.enabled, "what pauses the definition pauses its targets");
    let renamed = NotifyDef { handler: Some("http".to_owned()), ..parent.clone() };
    assert_eq!(own.among(std::slice::from_ref(&renamed)).row.handler.as_deref(), Some("http"));
    let other = NotifyDef { handler: Some("mail".to_owned()), ..own };
    assert_eq!(other.among(&[renamed]).row.handler.as_deref(), Some("mail"));
    assert_eq!(in_force(vec![parent.clone()]), [InForce { row: parent, problem: None, of: None }]);
}

#[test]
fn deleted_target_gets_no_notices_of_its_definition() {
    let order = stored(3, NotifyDef::new("order"));
    let live = stored(4, NotifyDef::target("order", "erp").target_of(3));
    let deleted = NotifyDef { delete_time: Some(chrono::DateTime::UNIX_EPOCH), ..live.clone() };
    assert_eq!(live.among(&[order.clone(), live.clone()]).parent(), Some(3));
    assert_eq!(deleted.among(&[order, deleted.clone()]).parent(), None);
}

#[test]
fn targets_that_inherit_a_change_are_named() {
    let order = stored(3, NotifyDef::new("order"));
    let own = stored(4, NotifyDef::target(order.name.clone(), "erp").target_of(3).timeout("9s"));
    let plain = stored(5, NotifyDef::target("order", "mail").target_of(3));
    let rows = [order.clone(), own, plain, stored(6, NotifyDef::new("other"))];
    let changed = |new: NotifyDef| inheriting(&rows, &order, &new);
    assert_eq!(changed(NotifyDef::new("order").timeout("7s")), ["order/mail"]);
    assert_eq!(changed(NotifyDef::new("order").max_retry_times(2)), ["order/erp", "order/mail"]);
    assert!(changed(NotifyDef::new("order").schedule("@daily")).is_empty(), "a timetable is not inherited");
}

#[test]
fn target_without_a_definition_is_invalid() {
    let (parent, builtin) = (stored(3, NotifyDef::new("order")), stored(1, NotifyDef::new("notify.alert")));
    let target = |of| stored(4, NotifyDef::new("order/erp").target_of(of));
    let rows = [parent, builtin, target(3)];
    let problem = |def: NotifyDef| {
        let in_force = def.among(&rows);
        assert_eq!((in_force.parent(), &in_force.row), (None, &def));
        in_force.policy().unwrap_err().remove(0).to_string()
    };
    assert_eq!(problem(target(9)), "target_of = \"9\": expected the id of a definition");
    assert_eq!(problem(target(1)), "target_of = \"1\": expected a definition that is not built in");
    assert_eq!(problem(target(4)), "target_of = \"4\": expected a definition that is no target itself");
    assert_eq!(NotifyDef::target("order", "x").among(&rows).problem, None);
    assert!(problem(NotifyDef::target("orders", "x")).starts_with("target_of = \"0\": expected a target whose name"));
    assert_eq!(target(3).among(&rows).parent(), Some(3));
}

/// The problems of the rows, and the definitions whose notices they get.
fn followed(rows: &[NotifyDef]) -> Vec<(Option<String>, Option<i64>)> {
    let all = in_force(rows.to_vec());
    for (row, followed) in rows.iter().zip(&all) {
        assert_eq!(row.among(rows), *followed, "one by one, too");
    }
    all.into_iter().map(|followed| (followed.problem.as_ref().map(ToString::to_string), followed.parent())).collect()
}

#[test]
fn invalid_target_inherits_and_gets_notices_while_its_definition_exists() {
    let order = stored(3, NotifyDef::new("order").mask(r#"["$.card"]"#).handler("http"));
    let erp = stored(4, NotifyDef::target("order", "erp").target_of(3).encrypt_param(true));
    let plain = erp.among(&[order.clone(), erp.clone()]);
    assert_eq!(
        (plain.parent(), plain.row.mask.clone(), plain.row.handler_name()),
        (Some(3), order.mask.clone(), "http")
    );
    assert!(plain.policy().unwrap_err()[0].to_string().starts_with("encrypt_param"));
    let nested = NotifyDef { target_of: Some(9), ..order.clone() };
    let erp = NotifyDef { encrypt_param: false, ..erp };
    let under_nested = erp.among(&[nested, erp.clone()]);
    assert_eq!((under_nested.parent(), &under_nested.row.mask), (Some(3), &order.mask));
    assert!(under_nested.policy().is_err());
}

#[test]
fn definition_between_targets_waits_and_no_circle_passes_on() {
    let row = |id, of: Option<i64>| NotifyDef { target_of: of, ..stored(id, NotifyDef::new(format!("d{id}"))) };
    let (nested, between) = (
        |of: i64| Some(format!("target_of = \"{of}\": expected a definition that is no target itself")),
        |of: i64| Some(format!("target_of = \"{of}\": expected null, because this definition has targets itself")),
    );
    let chain = [row(1, None), row(2, Some(1)), row(3, Some(2))];
    assert_eq!(followed(&chain), [(None, None), (between(1), Some(1)), (nested(2), Some(2))]);
    let circle = [row(1, Some(2)), row(2, Some(1))];
    assert_eq!(followed(&circle), [(nested(2), Some(2)), (nested(1), Some(1))]);
    assert_eq!(followed(&[row(1, Some(1))]), [(nested(1), None)]);
    let deleted = NotifyDef { delete_time: Some(chrono::DateTime::UNIX_EPOCH), ..row(3, Some(2)) };
    assert_eq!(followed(&[row(1, None), row(2, Some(1)), deleted])[1], (None, Some(1)));
}

#[test]
fn name_of_a_target_follows_the_last_slash() {
    let name = |name: &str| stored(7, NotifyDef::new(name).target_of(3)).target_name().map(str::to_owned);
    assert_eq!(name("a/b/erp").as_deref(), Some("erp"));
    assert_eq!(name("erp").as_deref(), Some("erp"));
    assert_eq!(name("order/erp (deleted 7)").as_deref(), Some("erp"));
    assert_eq!(NotifyDef::new("a/b").target_name(), None);
}
