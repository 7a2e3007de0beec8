//! The contents of attachments: Base64 and text of the parameter, and files below the folder that the program allows.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use solid_notify_core::ErrorClass;
use solid_notify_core::secret::read_below;
use solid_notify_sweeper::Failure;

use super::config::AttachmentConfig;
use super::message::Attached;
use crate::channel::AnyNotice;
use crate::computing;
use crate::template::Values;

/// What a program allows attachments.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) folder: Option<PathBuf>,
    /// The size of all attachments of a mail.
    pub(super) bytes: usize,
}

/// Returns the attachments of a mail.
pub(super) async fn read(
    configs: &[AttachmentConfig],
    values: &Values<'_>,
    limits: &Limits,
    notice: &AnyNotice,
) -> Result<Vec<Attached>, Failure> {
    let mut left = limits.bytes;
    let mut files = Vec::with_capacity(configs.len());
    for (at, config) in configs.iter().enumerate() {
        let field = |name: &str| format!("attachments[{at}].{name}");
        let name = config.name.render(&field("name"), values).await?;
        let content = if let Some(text) = &config.base64 {
            // Base64 has 4 bytes for 3, and perhaps ends of lines.
            let text = text.render_within(left.saturating_mul(2), &field("base64"), values).await?;
            let bytes = text.len();
            let decode = move || STANDARD.decode(text.split_ascii_whitespace().collect::<String>());
            computing::on(notice, bytes, decode)
                .await?
                .map_err(|_| invalid(format!("handler_config: {} gives no Base64", field("base64"))))?
        } else if let (Some(path), Some(folder)) = (&config.file, &limits.folder) {
            let (path, folder) = (path.render(&field("file"), values).await?, folder.clone());
            let read = move || Ok(file(&folder, &path, left));
            notice.outbox().engine().blocking().run(notice.definition(), read).await??
        } else if let Some(text) = &config.content {
            text.render_within(left, &field("content"), values).await?.into_bytes()
        } else {
            // Not reachable: a configuration without a content is refused.
            Vec::new()
        };
        left = left.checked_sub(content.len()).ok_or_else(|| {
            invalid(format!("the attachments have more than {} bytes: at `{}`", limits.bytes, field("name")))
        })?;
        files.push(Attached { name, content_type: config.content_type.clone(), content });
    }
    Ok(files)
}

fn invalid(problem: String) -> Failure {
    Failure::retry(problem).class(ErrorClass::Invalid)
}

/// Reads a file below `folder`, and one byte more than `limit` of a larger one.
fn file(folder: &Path, path: &str, limit: usize) -> Result<Vec<u8>, Failure> {
    let outside = || invalid(format!("the attachment {path:?} is not below the folder that the program allows"));
    let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_below || path.is_empty() {
        return Err(outside());
    }
    let failed = |error: std::io::Error| {
        let class = match error.kind() {
            ErrorKind::NotFound => ErrorClass::NotFound,
            ErrorKind::InvalidInput => ErrorClass::Invalid,
            _ => ErrorClass::Unavailable,
        };
        Failure::retry(format!("cannot read the attachment {path:?}: {error}")).class(class)
    };
    read_below(folder, &folder.join(path), limit).map_err(failed)?.ok_or_else(outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_are_read() {
        let root = std::env::temp_dir().join(format!("attachments-{}", std::process::id()));
        let folder = root.join("allowed");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(folder.join("sub/订单.pdf"), "%PDF").unwrap();
        std::fs::write(root.join("secret"), "hunter2").unwrap();
        std::fs::create_dir_all(root.join("allowed-too")).unwrap();
        std::fs::write(root.join("allowed-too/x"), "hunter2").unwrap();
        assert_eq!(file(&folder, "sub/订单.pdf", 4).unwrap(), b"%PDF");
        assert_eq!(file(&folder, "sub/订单.pdf", 2).unwrap(), b"%PD", "one byte more shows that it is too large");
        let absolute = root.join("secret").display().to_string();
        let mut outside = vec!["../secret", "sub/../../secret", "../allowed-too/x", absolute.as_str(), "", ".", "/"];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join("secret"), folder.join("link")).unwrap();
            std::os::unix::fs::symlink(&root, folder.join("up")).unwrap();
            std::os::unix::fs::symlink("sub", folder.join("inside")).unwrap();
            outside.extend(["link", "up/secret", "up/allowed-too/x"]);
            assert_eq!(file(&folder, "inside/订单.pdf", 4).unwrap(), b"%PDF");
        }
        for path in outside {
            let error = file(&folder, path, 100).unwrap_err().error().to_string();
            assert!(error.contains("is not below the folder"), "{path}: {error}");
        }
        for (path, expected) in
            [("sub", "no regular file"), ("missing", "cannot read the attachment \"missing\""), ("a\0b", "cannot read")]
        {
            let error = file(&folder, path, 100).unwrap_err().error().to_string();
            assert!(error.contains(expected), "{path:?}: {error}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
