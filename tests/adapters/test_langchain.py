"""langchain's own suite for sandboxes of agents, on coracle."""

import pytest
from coracle_cli import Refused, Sandbox
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests

ERRORS = {"ENOENT": "file_not_found", "EACCES": "permission_denied", "EISDIR": "is_directory"}


class Coracle(BaseSandbox):
    def __init__(self):
        self.sandbox = Sandbox()

    @property
    def id(self):
        return self.sandbox.id

    def execute(self, command, *, timeout=None):
        ended = self.sandbox.exec(["sh", "-c", command], timeout=timeout)
        output = (ended.stdout + ended.stderr).decode(errors="replace")
        return ExecuteResponse(output, ended.code, ended.truncated)

    def upload_files(self, files):
        return [FileUploadResponse(path, error=self.failure(path, self.sandbox.write, path, data)) for path, data in files]

    def download_files(self, paths):
        responses = []
        for path in paths:
            response = FileDownloadResponse(path)
            response.error = self.failure(path, lambda: setattr(response, "content", self.sandbox.read(path)))
            responses.append(response)
        return responses

    def failure(self, path, operation, *arguments):
        """Carries out an operation on a file and returns what went wrong, in the words of the protocol."""
        if not path.startswith("/"):
            return "invalid_path"
        try:
            operation(*arguments)
        except Refused as refused:
            return ERRORS.get(refused.errno, str(refused))


class TestCoracle(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        backend = Coracle()
        yield backend
        backend.sandbox.close()
