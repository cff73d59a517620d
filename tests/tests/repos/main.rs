//! Hosted repositories as clients of git see them: over HTTP, by `coracle://`, hostile ones, and after crashes.

mod clients;
mod crash;
mod hostile;
mod imports;
mod sandboxes;
mod scopes;
mod site;
mod verbs;
