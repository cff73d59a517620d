"""Times sessions of AutoGen's DockerCommandLineCodeExecutor: IMAGE COUNT, prints `open command close` in seconds."""

import asyncio
import sys
import tempfile
import time
import warnings

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from autogen_ext.code_executors.docker import DockerCommandLineCodeExecutor

warnings.simplefilter("ignore")


async def session(image):
    with tempfile.TemporaryDirectory() as directory:
        executor = DockerCommandLineCodeExecutor(image=image, work_dir=directory)
        start = time.perf_counter()
        await executor.start()
        opened = time.perf_counter()
        block = CodeBlock(language="sh", code="true")
        ran = await executor.execute_code_blocks([block], CancellationToken())
        done = time.perf_counter()
        await executor.stop()
        closed = time.perf_counter()
    assert ran.exit_code == 0, ran
    print(opened - start, done - opened, closed - done, flush=True)


async def main():
    for _ in range(int(sys.argv[2])):
        await session(sys.argv[1])


asyncio.run(main())
