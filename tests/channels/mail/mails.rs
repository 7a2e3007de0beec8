//! Mails through a real server: their contents, their encryption, and refused addresses.

use mail_parser::MimeHeaders;
use serde_json::json;
use solid_notify::alert::AlertReason;
use solid_notify::channels::{AlertChannels, ChannelError, Mail, Mailer, MailerBuilder, Slack};
use solid_notify::{NotifyDef, Status};
use tempfile::TempDir;
use test_support::sending::eventually;

use super::{delivered, fresh, parsed, the_mail_to, through, trusting_the_system_alone, variable};
use crate::configured::{Configured, SecretFile, own_machine, response};
use crate::desk::{Desk, alert, error, known_types};
use crate::receiver::Receiver;

/// A desk that mails alone.
async fn desk(mailer: MailerBuilder) -> Desk {
    Desk::with(AlertChannels::builder().mail(mailer.build().unwrap()).build().unwrap()).await
}

fn told(error: &ChannelError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {cause}")
}

#[tokio::test]
async fn every_address_gets_text_and_html_over_an_encrypted_connection() {
    let desk = desk(through("SMTP_URL")).await;
    let (first, second) = (fresh("first"), fresh("second"));
    let to = [first.as_str(), &format!("Second <{second}>")];
    let record = desk.send(&alert("sync", &to, &[]), Status::Succeeded).await;
    assert_eq!(record.description, Some(format!("delivered to: {first}, {second}")));
    for address in [&first, &second] {
        let text = the_mail_to(address).await;
        let mail = parsed(&text);
        assert_eq!(mail.subject(), Some("sync: finally failed (notice 7)"));
        let plain = mail.body_text(0).unwrap();
        assert!(plain.contains("message: connection refused <b>") && plain.contains("node: node-1"), "{plain}");
        let html = mail.body_html(0).unwrap();
        assert!(html.contains("connection refused &lt;b&gt;") && html.contains("node-1"), "{html}");
        let form = mail.content_type().unwrap();
        assert_eq!((form.ctype(), form.subtype()), ("multipart", Some("alternative")));
        let shown: Vec<&str> = mail.to().unwrap().iter().filter_map(|to| to.address()).collect();
        assert_eq!(shown, [&first, &second]);
        assert_eq!(mail.message_id(), Some(format!("{}@notify.test", record.idempotency_key()).as_str()));
        // Exim's name for ESMTP with TLS and a signed-in sender.
        assert!(text.contains("with esmtpsa"), "{text}");
        assert!(text.contains("Auto-Submitted: auto-generated\n"), "{text}");
    }
    desk.close().await;
}

#[tokio::test]
async fn final_failures_go_by_mail_and_piles_to_the_chat() {
    let chat = Receiver::accepting("ok").await;
    let channels = AlertChannels::builder().mail(through("SMTP_URL").build().unwrap());
    let desk = Desk::with(channels.chat("ops", Slack::new(chat.url("/ops"))).build().unwrap()).await;
    let address = fresh("routed");
    let row = NotifyDef::new("routed").email(format!("final_failure={address}")).alert_to("dead_letters=ops");
    desk.define(row).await;
    let mut pile = alert("routed", &[], &[]);
    pile.reason = AlertReason::DeadLetters;
    let posted = desk.send(&pile, Status::Succeeded).await;
    assert_eq!(posted.description.as_deref(), Some("delivered to: ops"));
    assert_eq!(chat.posted.count(), 1);
    let mailed = desk.send(&alert("routed", &[], &[]), Status::Succeeded).await;
    assert_eq!(mailed.description, Some(format!("delivered to: {address}")));
    let text = the_mail_to(&address).await;
    assert_eq!(parsed(&text).subject(), Some("routed: finally failed (notice 7)"));
    assert_eq!(chat.posted.count(), 1);
    desk.close().await;
}

#[tokio::test]
async fn names_and_subjects_arrive_in_any_script() {
    let desk = desk(through("SMTP_URL")).await;
    let name = "订单同步 to ÖMP 🚚 with a name so long that its line must be folded, and once more: 订单同步 to ÖMP 🚚";
    let address = fresh("script");
    let mut alert = alert(name, &[&address], &[]);
    alert.message = "连接被拒绝 🔥\nsecond line".to_owned();
    desk.send(&alert, Status::Succeeded).await;
    let text = the_mail_to(&address).await;
    let mail = parsed(&text);
    assert_eq!(mail.subject(), Some(format!("{name}: finally failed (notice 7)").as_str()));
    let from = mail.from().and_then(|from| from.first()).unwrap();
    assert_eq!((from.name(), from.address()), (Some("订单 \"Q\" 📦"), Some("alerts@notify.test")));
    assert!(mail.body_text(0).unwrap().contains("连接被拒绝 🔥\nsecond line"));
    assert!(mail.body_html(0).unwrap().contains("连接被拒绝 🔥\nsecond line"));
    desk.close().await;
}

#[tokio::test]
async fn a_line_end_in_a_name_adds_neither_a_header_nor_a_recipient() {
    let (address, hidden) = (fresh("inject"), fresh("hidden"));
    let mailer = through("SMTP_URL").from_name(format!("Alerts\r\nBcc: {hidden}"));
    let desk = desk(mailer).await;
    let name = format!("sync\r\nBcc: {hidden}\r\n\r\n<p>a body of mine</p>\nX-Mine: 1");
    desk.send(&alert(&name, &[&address], &[]), Status::Succeeded).await;
    let text = the_mail_to(&address).await;
    let mail = parsed(&text);
    let names: Vec<&str> = mail.headers().iter().map(|header| header.name()).collect();
    assert!(!names.contains(&"Bcc") && !names.contains(&"X-Mine"), "{names:?}");
    assert!(mail.subject().unwrap().starts_with(&format!("sync  Bcc: {hidden}")), "{:?}", mail.subject());
    assert!(mail.body_html(0).unwrap().contains("&lt;p&gt;a body of mine&lt;&#x2f;p&gt;"));
    assert!(delivered(&hidden).is_empty());
    desk.close().await;
}

#[tokio::test]
async fn implicit_tls_works_and_plain_text_only_on_request() {
    for (url, name, how) in
        [("SMTPS_URL", "implicit", "with esmtpsa"), ("SMTP_PLAINTEXT_URL", "plaintext", "with esmtpa")]
    {
        let address = fresh(name);
        let desk = desk(through(url)).await;
        desk.send(&alert("sync", &[&address], &[]), Status::Succeeded).await;
        let text = the_mail_to(&address).await;
        assert!(text.contains(how), "{text}");
        desk.close().await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_encrypt_gets_neither_the_password_nor_the_mail() {
    let url = variable("SMTP_PLAINTEXT_URL").replace("tls=none", "tls=required");
    let mailer = Mailer::from_url(&url).unwrap().from("alerts@notify.test");
    let checked = mailer.clone().build().unwrap().check().await.unwrap_err();
    assert!(told(&checked).contains("STARTTLS is not supported"), "{}", told(&checked));
    let address = fresh("downgrade");
    let desk = desk(mailer).await;
    let failed = desk.send(&alert("sync", &[&address], &[]), Status::Failed).await;
    assert!(error(&failed).contains("STARTTLS is not supported"), "{}", error(&failed));
    assert!(delivered(&address).is_empty());
    desk.close().await;
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    for url in ["SMTP_URL", "SMTPS_URL"] {
        let error = trusting_the_system_alone(url).build().unwrap().check().await.unwrap_err();
        assert!(told(&error).contains("certificate"), "{}", told(&error));
        through(url).build().unwrap().check().await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_does_not_repeat_it() {
    let mailer = through("SMTP_URL").credentials("notify", "hunter2-of-mine").build().unwrap();
    let error = mailer.check().await.unwrap_err();
    assert!(told(&error).contains("535"), "{}", told(&error));
    assert_eq!(known_types(&error), ["lettre"]);
    assert!(!format!("{error:?}{mailer:?}").contains("hunter2-of-mine"));
}

#[tokio::test]
async fn an_address_that_is_refused_is_named_and_the_others_get_the_mail_once() {
    let desk = desk(through("SMTP_URL")).await;
    let (kept, also) = (fresh("kept"), fresh("ALSO"));
    let to = [kept.as_str(), "missing@notify.test", "not an address", &also];
    let failed = desk.send(&alert("sync", &to, &[]), Status::Failed).await;
    for words in
        ["refused the address `missing@notify.test`", "no such mailbox", "the column `email` has \"not an address\""]
    {
        assert!(error(&failed).contains(words), "{words}: {}", error(&failed));
    }
    assert_eq!(failed.description, Some(format!("delivered to: {kept}, {also}")));
    the_mail_to(&kept).await;
    the_mail_to(&also).await;
    let again = desk.retry(&failed, Status::Failed).await;
    assert!(error(&again).contains("missing@notify.test"), "{}", error(&again));
    // A later mail to the same address is there: the earlier one would be, too, if there were one.
    desk.send(&alert("marker", &[&kept], &[]), Status::Succeeded).await;
    eventually("the marker", async || delivered(&kept).len() >= 2).await;
    assert_eq!(delivered(&kept).iter().filter(|mail| mail.contains("Subject: sync")).count(), 1);
    desk.close().await;
}

#[tokio::test]
async fn a_chat_that_fails_brings_no_second_mail() {
    let receiver = Receiver::accepting("ok").await;
    receiver.now(503, "down");
    let alerts = AlertChannels::builder()
        .mail(through("SMTP_URL").build().unwrap())
        .chat("ops", Slack::new(receiver.url("/ops")))
        .build()
        .unwrap();
    let address = fresh("once");
    let desk = Desk::with(alerts).await;
    let failed = desk.send(&alert("sync", &[&address], &["ops"]), Status::Failed).await;
    assert_eq!(failed.description, Some(format!("delivered to: {address}")));
    receiver.now(200, "ok");
    let done = desk.retry(&failed, Status::Succeeded).await;
    assert_eq!(done.description, Some(format!("delivered to: {address}, ops")));
    desk.send(&alert("marker", &[&address], &[]), Status::Succeeded).await;
    eventually("the marker", async || delivered(&address).len() >= 2).await;
    assert_eq!(delivered(&address).iter().filter(|mail| mail.contains("Subject: sync")).count(), 1);
    desk.close().await;
}

#[tokio::test]
async fn mail_of_a_row_arrives_as_the_row_says() {
    let secret = SecretFile::new(&variable("SMTP_PLAINTEXT_URL"));
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("条款.txt"), "terms").unwrap();
    let config = json!({
        "smtp": secret.reference(),
        "from": "payroll@notify.test",
        "from_name": "{{ param.company }}",
        "to": ["{{ param.name }} <{{ param.email }}>"],
        "cc": ["{{ param.managers | map(attribute='email') }}"],
        "bcc": ["{{ param.archive }}"],
        "reply_to": ["hr@notify.test"],
        "subject": "工资单 {{ param.month }}",
        "text": "{{ param.name }}: {{ param.note }}",
        "html": "<p title=\"{{ param.note }}\">{{ param.note }}</p>",
        "attachments": [
            { "name": "{{ param.month }}.pdf", "content_type": "application/pdf", "base64": "{{ param.pdf }}" },
            { "name": "条款.txt", "content_type": "text/plain", "file": "条款.txt" },
            { "name": "data.json", "content_type": "application/json", "content": "{{ param.month | tojson }}" },
        ],
    });
    let configured =
        Configured::with(Mail::new().allow_networks(&own_machine()).attachments_from(folder.path()), &config).await;
    let [employee, boss, archive, hidden] = ["employee", "boss", "archive", "hidden-of-row"].map(fresh);
    let line = format!("\r\nBcc: {hidden}\r\n\r\n<b>mine</b>");
    let param = json!({
        "company": format!("北京 \"Q\"{line}"), "name": "Zoë", "email": employee, "managers": [{ "email": boss }],
        "archive": archive, "month": format!("2026-11\"; filename=\"x.exe{line}"),
        "note": "\"><script>alert(1)</script> & 订单", "pdf": "JVBERi0=",
    });
    let done = configured.send(&param, Status::Succeeded).await;
    assert!(response(&done).starts_with("250: OK"), "{}", response(&done));
    assert_eq!(done.description, None, "no recipient is left");
    for address in [&employee, &boss, &archive] {
        let text = the_mail_to(address).await;
        let mail = parsed(&text);
        let addresses = |list: Option<&mail_parser::Address<'_>>| {
            list.unwrap().iter().filter_map(|to| to.address().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!((addresses(mail.to()), addresses(mail.cc())), (vec![employee.clone()], vec![boss.clone()]));
        assert_eq!(addresses(mail.reply_to()), ["hr@notify.test"]);
        assert!(!text.contains(&format!("{archive}>")) && mail.bcc().is_none(), "{text}");
        let from = mail.from().and_then(|from| from.first()).unwrap();
        assert_eq!(from.address(), Some("payroll@notify.test"));
        assert!(from.name().unwrap().starts_with("北京 \"Q\" "), "{from:?}");
        assert!(mail.subject().unwrap().starts_with("工资单 2026-11\"; filename"), "{:?}", mail.subject());
        assert_eq!(mail.message_id(), Some(format!("{}@notify.test", done.idempotency_key()).as_str()));
        assert_eq!(mail.body_text(0).unwrap().trim_end(), "Zoë: \"><script>alert(1)</script> & 订单");
        let html = mail.body_html(0).unwrap();
        assert!(!html.contains("<script>") && html.contains("title=\"&quot;&gt;&lt;script&gt;"), "{html}");
        let files: Vec<(String, Vec<u8>)> = mail
            .attachments()
            .map(|part| (part.attachment_name().unwrap().to_owned(), part.contents().to_owned()))
            .collect();
        let name = format!("2026-11\"; filename=\"x.exe  Bcc: {hidden}    <b>mine</b>.pdf");
        assert_eq!(files[0], (name, b"%PDF-".to_vec()));
        assert_eq!(files[1], ("条款.txt".to_owned(), b"terms".to_vec()));
        assert_eq!((files[2].0.as_str(), files.len()), ("data.json", 3));
    }
    assert!(delivered(&hidden).is_empty());
    configured.close().await;
}
