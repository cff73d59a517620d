"""Drives the `coracle` binary for the suites of others. `CORACLE` names it; its home comes from the environment."""

import base64
import json
import os
import subprocess


class Refused(Exception):
    """Coracle's own refusal, with its kind and, where a system call failed, the name of the error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.kind = error["kind"]
        self.errno = error["details"].get("errno")
        self.stage = error["details"].get("stage")


class Ended:
    """A command that has ended."""

    def __init__(self, told):
        self.stdout, self.stderr = (_bytes(told, name) for name in ("stdout", "stderr"))
        self.timed_out = told["outcome"]["kind"] == "timed_out"
        signal = told["outcome"].get("signal")
        self.code = told["exit_code"] if signal is None else 128 + signal
        self.truncated = told["truncated"]


class Sandbox:
    """One sandbox, from `open` to `close`."""

    def __init__(self, *flags):
        self.id = json.loads(_coracle(["open", *flags]))["sandbox_id"]

    def exec(self, command, *, input=None, cwd=None, env=None, user=None, timeout=None):
        words = ["exec", self.id]
        words += [] if input is None else ["--interactive"]
        words += [] if cwd is None else ["--cwd", cwd]
        words += [] if user is None else ["--user", user]
        words += [] if timeout is None else ["--timeout", f"{timeout}s"]
        for name, value in (env or {}).items():
            words += ["--env", f"{name}={value}"]
        return Ended(json.loads(_coracle([*words, "--", *command], input, or_else=_is_end)))

    def read(self, path):
        # Without `--json` a file is printed as it is, whatever its size.
        return _coracle(["fs", "read", self.id, "--", path], json_output=False)

    def write(self, path, contents):
        _coracle(["fs", "write", self.id, "--", path], contents)

    def stat(self, path):
        return json.loads(_coracle(["fs", "stat", self.id, "--", path]))

    def close(self):
        _coracle(["close", self.id])


def _coracle(words, input=None, *, json_output=True, or_else=lambda told: False):
    """Returns what a call printed; one that failed is `Refused`, unless `or_else` knows better."""
    binary = os.environ["CORACLE"]
    ended = subprocess.run([binary, *["--json"] * json_output, *words], input=input or b"", capture_output=True)
    if ended.returncode == 0 or or_else(ended.stdout):
        return ended.stdout
    if not json_output:
        # The same once more, for the error in a form that can be read.
        return _coracle(words)
    raise Refused(json.loads(ended.stdout)["error"])


def _is_end(told):
    """Tells whether a command ran, however it ended: its exit code is ours."""
    return b'"exec_id"' in told


def _bytes(told, name):
    encoded = told.get(f"{name}_b64")
    return base64.b64decode(encoded) if encoded is not None else told[name].encode()
