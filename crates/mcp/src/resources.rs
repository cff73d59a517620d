//! Files of sandboxes as resources: `coracle://SANDBOX/PATH`, read as `sandbox_fs_read` reads them.

use coracle_core::{Error, Kind, Result, SandboxId};
use coracle_engine::{Caller, Engine};
use rmcp::ErrorData;
use rmcp::model::{MetaObject, ReadResourceResult, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

/// How much of a file is read; for more there is the tool.
const BYTES_MAX: usize = 1 << 20;

/// Longer than any path with every byte escaped.
const URI_MAX: usize = 16 << 10;

const SCHEME: &str = "coracle://";

/// A file, as a URI names it.
#[derive(Debug, PartialEq, Eq)]
struct FileUri {
    sandbox: String,
    path: String,
}

pub fn template() -> ResourceTemplate {
    ResourceTemplate::new("coracle://{sandbox_id}/{+path}", "workspace-file")
        .with_title("A file of a sandbox")
        .with_description("PATH is relative to the workspace; one that begins with a slash is absolute")
}

/// Reads a file. Blocks.
pub fn read(engine: &Engine, caller: &Caller, uri: &str) -> Result<ReadResourceResult> {
    let FileUri { sandbox, path } = file_uri(uri)?;
    let input = json!({"sandbox_id": sandbox, "path": path, "max_bytes": BYTES_MAX});
    let mut file = engine.call(caller, "sandbox_fs_read", input)?;
    let contents = match (file["contents"].take(), file["contents_b64"].take()) {
        (Value::String(text), _) => ResourceContents::text(text, uri),
        (_, Value::String(base64)) => {
            ResourceContents::blob(base64, uri).with_mime_type("application/octet-stream")
        }
        (_, _) => ResourceContents::text("", uri),
    };
    let mut meta = MetaObject::new();
    meta.insert("coracle/truncated".to_owned(), file["truncated"].take());
    meta.insert("coracle/size_bytes".to_owned(), file["size_bytes"].take());
    Ok(ReadResourceResult::new(vec![contents.with_meta(meta)]))
}

/// Returns the sandbox that a URI names.
pub fn sandbox_in(uri: &str) -> Option<SandboxId> {
    file_uri(uri).ok()?.sandbox.parse().ok()
}

fn file_uri(uri: &str) -> Result<FileUri> {
    if uri.len() > URI_MAX {
        return Err(Error::invalid("uri", format!("has more than {URI_MAX} bytes")));
    }
    let parts = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'));
    match parts {
        Some((sandbox, path)) if !sandbox.is_empty() && !path.is_empty() => {
            Ok(FileUri { sandbox: unescaped(sandbox)?, path: unescaped(path)? })
        }
        _ => Err(Error::invalid("uri", "is not `coracle://SANDBOX/PATH`")),
    }
}

/// Undoes percent-encoding.
fn unescaped(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            // Two hexadecimal digits are less than 256.
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(Error::invalid("uri", "has a `%` without two digits after it")),
        }
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid("uri", "is not UTF-8 once its escapes are undone"))
}

/// Returns a protocol error for a file that could not be read.
pub fn failed(uri: &str, error: &Error) -> ErrorData {
    let mut data = error.to_json();
    data["uri"] = uri.chars().take(URI_MAX).collect::<String>().into();
    match error.kind {
        Kind::NotFound => ErrorData::resource_not_found(error.chain(), Some(data)),
        Kind::Internal => ErrorData::internal_error(error.chain(), Some(data)),
        Kind::Invalid
        | Kind::NotOwner
        | Kind::StaleEpoch
        | Kind::LentOut
        | Kind::Conflict
        | Kind::LimitExceeded
        | Kind::ImageNotFound
        | Kind::ImageNotAllowed
        | Kind::NotAvailable
        | Kind::Unsupported
        | Kind::StartFailed
        | Kind::ExecutionFailed
        | Kind::Timeout
        | Kind::Aborted
        | Kind::EgressDenied
        | Kind::Denied => ErrorData::invalid_params(error.chain(), Some(data)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_file_of_a_sandbox() {
        let read = |uri: &str| file_uri(uri).map(|FileUri { sandbox, path }| (sandbox, path)).ok();
        let file = |path: &str| Some(("sbx_1".to_owned(), path.to_owned()));

        assert_eq!(read("coracle://sbx_1/src/main.rs"), file("src/main.rs"));
        assert_eq!(read("coracle://sbx_1//etc/hosts"), file("/etc/hosts"));
        assert_eq!(read("coracle://sbx_1/a%20b%2Fc"), file("a b/c"));
        for bad in [
            "",
            "coracle://",
            "coracle://sbx_1",
            "coracle:///x",
            "file:///etc/passwd",
            "coracle://s/%2",
            "coracle://s/%zz",
            "coracle://s/%ff",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
