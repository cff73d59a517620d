//! The supported clients, and where each keeps its settings.

/// A program that starts MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
}

/// Whose settings get the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Scope {
    /// For you, in every project
    #[default]
    User,
    /// For everyone who works on the project in this directory
    Project,
}

/// The format of settings, and the key of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json {
        servers: &'static str,
        /// An entry names its transport.
        typed: bool,
    },
    Toml {
        servers: &'static str,
    },
}

impl Client {
    /// Returns the file, relative to the person's home directory or that of the project.
    pub fn file(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::Claude, Scope::User) => ".claude.json",
            (Self::Claude, Scope::Project) => ".mcp.json",
            (Self::Codex, Scope::User | Scope::Project) => ".codex/config.toml",
            (Self::Cursor, Scope::User | Scope::Project) => ".cursor/mcp.json",
            (Self::Vscode, Scope::User) => ".config/Code/User/mcp.json",
            (Self::Vscode, Scope::Project) => ".vscode/mcp.json",
        }
    }

    pub fn format(self) -> Format {
        match self {
            Self::Claude => Format::Json { servers: "mcpServers", typed: true },
            Self::Codex => Format::Toml { servers: "mcp_servers" },
            Self::Cursor => Format::Json { servers: "mcpServers", typed: false },
            Self::Vscode => Format::Json { servers: "servers", typed: true },
        }
    }
}
