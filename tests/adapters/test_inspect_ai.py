"""inspect-ai's own check of sandboxes, on coracle. Every check has to pass: none is marked as expected to fail."""

import asyncio

import pytest
from coracle_cli import Refused, Sandbox
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, SandboxEnvironmentLimits
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

pytestmark = pytest.mark.anyio

ERRORS = {"ENOENT": FileNotFoundError, "ENOTDIR": FileNotFoundError, "EACCES": PermissionError, "EISDIR": IsADirectoryError}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def sandboxes():
    """One sandbox for each kind of privileges: only a check that adds a user needs more than the least."""
    made = {privileges: Sandbox("--privileges", privileges) for privileges in ("minimal", "install")}
    yield made
    for sandbox in made.values():
        sandbox.close()


@pytest.fixture
def sandbox_env(request, sandboxes):
    adds_user = request.node.originalname == "test_exec_as_user"
    return Coracle(sandboxes["install" if adds_user else "minimal"])


class Coracle(SandboxEnvironment):
    def __init__(self, sandbox):
        super().__init__()
        self.sandbox = sandbox

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True):
        if isinstance(input, str):
            input = input.encode()
        # Relative to the workspace, as all paths of inspect-ai are.
        cwd = cwd if cwd is None or cwd.startswith("/") else f"/workspace/{cwd}"
        how = {"input": input, "cwd": cwd, "env": env, "user": user, "timeout": timeout}
        try:
            ended = await asyncio.to_thread(self.sandbox.exec, cmd, **how)
        except Refused as refused:
            if refused.stage == "execute":
                raise translated(refused)
            return ExecResult(False, 125, "", str(refused))
        if ended.timed_out:
            raise TimeoutError(f"it took longer than {timeout} seconds")
        return ExecResult(ended.code == 0, ended.code, ended.stdout.decode(), ended.stderr.decode())

    async def write_file(self, file, contents):
        contents = contents.encode() if isinstance(contents, str) else contents
        try:
            await asyncio.to_thread(self.sandbox.write, file, contents)
        except Refused as refused:
            raise translated(refused)

    async def read_file(self, file, text=True):
        try:
            contents = await asyncio.to_thread(self.sandbox.read, file)
        except Refused as refused:
            raise translated(refused)
        if len(contents) > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return contents.decode() if text else contents

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        raise NotImplementedError("the checks make no samples")


def translated(refused):
    return ERRORS.get(refused.errno, RuntimeError)(str(refused))
