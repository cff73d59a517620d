# Takes covers off, or mounts a proc of its own in nested namespaces, and prints what was covered.
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def show(path):
    try:
        text = open(path).read().strip()
        if text:
            print('uncovered', text, flush=True)
    except OSError:
        pass
if os.fork() == 0:
    if libc.unshare(0x10000000 | 0x20000 | 0x20000000) == 0 and os.fork() == 0:
        os.makedirs('/tmp/nested', exist_ok=True)
        libc.mount(b'proc', b'/tmp/nested', b'proc', 0, None)
        show('/tmp/nested/cmdline')
        os._exit(0)
    try:
        os.wait()
    except OSError:
        pass
    os._exit(0)
os.wait()
libc.umount2(b'/proc/cmdline', 2)
show('/proc/cmdline')
