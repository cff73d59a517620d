# Reads the machine's shared memory and message queue by name.
import ctypes, os, sys
key, name = int(sys.argv[1]), sys.argv[2].encode()
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(key, 0, 0)
if segment >= 0:
    address = libc.shmat(segment, None, 0o10000)
    if address not in (None, ctypes.c_void_p(-1).value):
        print('shm', ctypes.string_at(address, 64).split(b'\0')[0].decode())
queue = libc.syscall(240, name, os.O_RDONLY | os.O_NONBLOCK, 0, None)
if queue >= 0:
    buffer = ctypes.create_string_buffer(8192)
    length = libc.syscall(243, queue, buffer, 8192, None, None)
    if length > 0:
        print('mq', buffer.raw[:length].decode())
