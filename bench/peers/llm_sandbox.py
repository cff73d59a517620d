"""Times sessions of llm-sandbox on Docker: IMAGE COUNT, prints `open command close` in seconds."""

import sys
import time

from llm_sandbox import SandboxBackend, SandboxSession


def session(image):
    # Without the environment it would prepare, which takes seconds and a network.
    sandbox = SandboxSession(
        backend=SandboxBackend.DOCKER, image=image, lang="python", keep_template=True, skip_environment_setup=True
    )
    start = time.perf_counter()
    sandbox.open()
    opened = time.perf_counter()
    ran = sandbox.execute_command("true")
    done = time.perf_counter()
    sandbox.close()
    closed = time.perf_counter()
    assert ran.exit_code == 0, ran
    print(opened - start, done - opened, closed - done, flush=True)


for _ in range(int(sys.argv[2])):
    session(sys.argv[1])
