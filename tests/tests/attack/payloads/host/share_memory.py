# On the machine: makes or removes shared memory and a message queue that everybody may read.
import ctypes, os, sys
verb, key, queue, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3].lstrip('/').encode(), sys.argv[4].encode()
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
segment = libc.shmget(key, 4096, 0o1666)
if verb == 'make':
    ctypes.memmove(libc.shmat(segment, None, 0), secret, len(secret))
    os.umask(0)
    opened = libc.syscall(240, queue, os.O_RDWR | os.O_CREAT, 0o666, None)
    assert opened >= 0, os.strerror(ctypes.get_errno())
    assert libc.syscall(242, opened, secret, len(secret), 0, None) == 0
else:
    libc.shmctl(segment, 0, None)
    libc.syscall(241, queue)
