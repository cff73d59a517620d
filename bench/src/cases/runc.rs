//! runc, which Docker and podman start. It knows no way to do without cgroups.

use super::name;
use super::oci::Runtime;

pub const RUNTIME: Runtime =
    Runtime { program: "runc", run: name::RUNC, exec: name::RUNC_EXEC, preparation: "", flags: &[] };
