//! Images: where a sandbox's files come from. So far the `host` image; registries and archives come with issue 2.

pub mod host;
