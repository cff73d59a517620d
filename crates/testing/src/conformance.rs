//! The contracts of the ports, as tests that run against any implementation.
//!
//! An implementation runs a suite by one line: `store_conformance!(make)`, `event_conformance!(make)`,
//! `token_conformance!(make)`, `answer_conformance!(make)`, `kept_log_conformance!(make)`, `repo_conformance!(make)`,
//! `package_cache_conformance!(make)`, `backend_conformance!(make)` or
//! `image_conformance!(make)`.

pub mod answers;
pub mod backend;
pub mod events;
pub mod images;
pub mod kept_logs;
pub mod packages;
pub mod repos;
pub mod store;
pub mod tokens;

/// Writes one test for each clause, which it calls with what `$make` returns.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_clauses {
    ($make:expr, $module:ident, $suite:path, [$($clause:ident,)+]) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            use $suite as clauses;

            $(
                #[test]
                fn $clause() {
                    clauses::$clause(&$make());
                }
            )+
        }
    };
}
