# Joins every namespace in sight and reads a file of the machine from there. Says if it sees the process that tests.
import ctypes, os, sys
canary, pid, name = sys.argv[1:4]
libc = ctypes.CDLL(None, use_errno=True)
try:
    if open(f'/proc/{pid}/comm').read().strip() == name:
        print('saw a process of the machine')
except OSError:
    pass
own = {kind: os.stat(f'/proc/self/ns/{kind}').st_ino for kind in ('mnt', 'user', 'pid', 'net', 'ipc')}
for pid in filter(str.isdigit, os.listdir('/proc')):
    for kind, inode in own.items():
        path = f'/proc/{pid}/ns/{kind}'
        try:
            if os.stat(path).st_ino == inode:
                continue
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        if os.fork() == 0:
            if libc.setns(descriptor, 0) == 0 and kind == 'mnt':
                try:
                    os.write(1, open(canary, 'rb').read() + b'\n')
                except OSError:
                    pass
            os._exit(0)
        os.wait()
        os.close(descriptor)
