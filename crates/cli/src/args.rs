//! Flags that several verbs share, and how their values are parsed.

mod acting;
mod copy_path;
mod max;
mod mount;
mod name;
mod pair;
mod ports;
mod process;
mod quantity;
mod secret;
mod spec;
mod variable;

pub use self::acting::ActingArgs;
pub use self::copy_path::CopyPath;
pub use self::max::MaxArgs;
pub use self::name::{ExecName, SandboxName};
pub use self::pair::{LocalFile, Pair};
pub use self::ports::{Ports, published};
pub use self::process::ProcessArgs;
pub use self::quantity::{Span, mebibytes, millicores, span, span_with_unit};
pub use self::spec::SpecArgs;
pub use self::variable::Variable;
