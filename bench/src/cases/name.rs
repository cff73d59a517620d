//! The names of all that is measured, so that a goal cannot refer to what does not exist.

pub const BASE: &str = "base";
pub const DIRECT_WRITE: &str = "direct write 1 KiB";
pub const DIRECT_WRITE_NEW: &str = "direct write 1 KiB, new file";
pub const BARE_PYTHON: &str = "python3 -c pass";
pub const BWRAP: &str = "bwrap";
pub const CRUN: &str = "crun";
pub const CRUN_EXEC: &str = "crun exec";
pub const RUNC: &str = "runc";
pub const RUNC_EXEC: &str = "runc exec";
pub const PODMAN_RUN: &str = "podman run";
pub const PODMAN_EXEC: &str = "podman exec";
pub const DOCKER_RUN: &str = "docker run";
pub const DOCKER_EXEC: &str = "docker exec";
pub const DOCKER_ARCHIVE: &str = "docker cp 1 KiB";
pub const DOCKER_START: &str = "docker run -d";
pub const DOCKER_REMOVE: &str = "docker rm -f";
pub const AUTOGEN_OPEN: &str = "AutoGen open";
pub const AUTOGEN_COMMAND: &str = "AutoGen command";
pub const AUTOGEN_CLOSE: &str = "AutoGen close";
pub const LLM_SANDBOX_OPEN: &str = "llm-sandbox open";
pub const LLM_SANDBOX_COMMAND: &str = "llm-sandbox command";
pub const LLM_SANDBOX_CLOSE: &str = "llm-sandbox close";

pub const LIBRARY_RUN: &str = "coracle library run";
pub const CLI_RUN: &str = "coracle cli run";
pub const CLI_RUN_SPARES: &str = "coracle cli run, spares kept";
pub const EXEC: &str = "coracle exec";
pub const WRITE: &str = "coracle write 1 KiB";
pub const WRITE_NEW: &str = "coracle write 1 KiB, new file";
pub const EXEC_AFTER_IDLE: &str = "coracle exec after 1 s idle";
pub const EXEC_WHILE_DIRTY: &str = "coracle exec, 300 MiB dirty";
pub const RUN_AFTER_IDLE: &str = "coracle run after 1 s idle";
pub const RUN_WHILE_DIRTY: &str = "coracle run, 300 MiB dirty";
pub const PYTHON_RUN: &str = "coracle python, nothing ahead";
pub const WARM_PYTHON_RUN: &str = "coracle python, warm";

pub const ENGINE_OPEN: &str = "coracle open on docker";
pub const ENGINE_EXEC: &str = "coracle exec on docker";
pub const ENGINE_CLOSE: &str = "coracle close on docker";

pub const HTTP_EXEC: &str = "coracle exec over HTTP";
pub const HTTP_BESIDE: &str = "coracle exec, in turns with HTTP";
pub const LOADED_HTTP_EXEC: &str = "exec over HTTP, 200 clients";
pub const LOADED_EXEC: &str = "exec by the library, 200 threads";
pub const LOADED_HTTP_P99: &str = "exec over HTTP, 200 clients: p99";
pub const LOADED_P99: &str = "exec by the library, 200 threads: p99";
pub const LOADED_REQUESTS: &str = "requests over HTTP, 200 clients";

pub const IDLE_IN_MEMORY: &str = "idle sandbox, files in memory";
pub const IDLE_IN_MEMORY_PROCESSES: &str = "idle sandbox, files in memory: processes";
pub const IDLE_IN_MEMORY_KERNEL: &str = "idle sandbox, files in memory: kernel";
pub const IDLE_ON_DISK: &str = "idle sandbox, files on disk";
pub const IDLE_ON_DISK_PROCESSES: &str = "idle sandbox, files on disk: processes";
pub const IDLE_ON_DISK_KERNEL: &str = "idle sandbox, files on disk: kernel";
pub const CHURN: &str = "create, exec and destroy";
pub const FORK: &str = "coracle fork of 10k files";
pub const FORK_HELD: &str = "coracle fork: parent stood still";
pub const COPY: &str = "cp -a of 10k files";
pub const ALONE_RUN: &str = "run, alone";
pub const ALONE_EXEC: &str = "exec, alone";
pub const ALONE_OPEN: &str = "open and close, alone";
pub const ALONE_SHOW: &str = "show, alone";
pub const CROWDED_RUN: &str = "run, in a crowd";
pub const CROWDED_EXEC: &str = "exec, in a crowd";
pub const CROWDED_OPEN: &str = "open and close, in a crowd";
pub const CROWDED_SHOW: &str = "show, in a crowd";
