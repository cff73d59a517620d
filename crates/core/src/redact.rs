//! Redacts errors for tenants: they learn that the machine failed, and not what is where on it.

use crate::{Error, Kind, Record};

/// Facts about the tenant's own things.
const OWN: [&str; 4] = ["sandbox_id", "state", "image", "backend"];
/// Facts about the machine: what is left of a sandbox and where, which backends there are, how full its disk is.
const NOT_OWN: [&str; 6] =
    ["not_removed", "refused", "free_bytes", "reserve_bytes", "free_inodes", "reserve_inodes"];

/// Returns an error as a tenant may see it. Errors about the machine lose their causes, paths and other details.
pub fn redact(error: &Error) -> Error {
    let about_the_machine = is_about_the_machine(error.kind);
    let mut redacted = match about_the_machine {
        true => Error::new(error.kind, without_paths(&error.message))
            .hint("try again; if it stays, tell the operator the request's id"),
        false => {
            let mut whole = Error::new(error.kind, error.chain());
            whole.hint.clone_from(&error.hint);
            whole
        }
    };
    let may_be_shown =
        |name: &str| if about_the_machine { OWN.contains(&name) } else { !NOT_OWN.contains(&name) };
    let details = error.details.iter().filter(|(name, _)| may_be_shown(name));
    redacted.details.extend(details.map(|(name, value)| (name.clone(), value.clone())));
    redacted
}

/// Returns as text what went wrong with a sandbox, redacted if a tenant owns it.
pub fn reason(record: &Record, error: &Error) -> String {
    match record.tenant {
        None => error.chain(),
        Some(_) => redact(error).message,
    }
}

fn is_about_the_machine(kind: Kind) -> bool {
    match kind {
        Kind::Internal | Kind::NotAvailable | Kind::StartFailed => true,
        Kind::Invalid
        | Kind::NotFound
        | Kind::NotOwner
        | Kind::StaleEpoch
        | Kind::LentOut
        | Kind::Conflict
        | Kind::LimitExceeded
        | Kind::ImageNotFound
        | Kind::ImageNotAllowed
        | Kind::Unsupported
        | Kind::ExecutionFailed
        | Kind::Timeout
        | Kind::Aborted
        | Kind::EgressDenied
        | Kind::Denied => false,
    }
}

/// Replaces paths of the machine by `…`. Messages have names in backticks.
fn without_paths(message: &str) -> String {
    let parts = message.split('`').enumerate();
    let is_path = |part: &str| part.starts_with('/') || part.starts_with("unix:");
    let shown = parts.map(|(index, part)| if index % 2 == 1 && is_path(part) { "…" } else { part });
    shown.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_causes_and_facts_of_the_machine_are_left_out() {
        let cause = std::io::Error::other("/srv/state/coracle.db: disk on fire");
        let error = Error::new(Kind::Internal, "could not read sandbox `sbx_1` in `/srv/state/coracle.db`")
            .detail("sandbox_id", "sbx_1")
            .detail("not_removed", "/srv/x")
            .caused_by(cause);

        let redacted = redact(&error).to_json();

        assert_eq!(redacted["error"]["message"], "could not read sandbox `sbx_1` in `…`");
        let unreachable =
            Error::new(Kind::NotAvailable, "could not get `ghcr.io/o/n:1` by `unix:/run/x.sock`");
        assert_eq!(redact(&unreachable).message, "could not get `ghcr.io/o/n:1` by `…`");
        assert_eq!(redacted["error"]["details"], serde_json::json!({"sandbox_id": "sbx_1"}));
        assert!(!redacted.to_string().contains("srv"), "{redacted}");
    }

    #[test]
    fn errors_about_the_tenants_own_things_stay_as_they_are() {
        let error =
            Error::new(Kind::NotFound, "there is no file `/workspace/x`").detail("path", "/workspace/x");

        let redacted = redact(&error);

        assert_eq!((redacted.message, redacted.details), (error.message, error.details));
    }
}
