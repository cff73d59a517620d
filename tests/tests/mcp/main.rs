//! MCP clients at our doors: those of others, and one of our own that misbehaves.

mod bounds;
mod cancel;
mod ceiling;
mod clients;
mod conformance;
mod door;
mod fuzz;
mod http;
mod ids;
mod install;
mod resources;
mod resume;
mod revisions;
mod standard_output;
mod tokens;
mod tools;

use coracle_tests::mcp as client;
