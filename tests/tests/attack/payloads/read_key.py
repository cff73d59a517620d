# Reads a key of the session coracle was started in.
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for ring in (-3, -4, -5):
    key = libc.syscall(250, 10, ring, b'user', sys.argv[1].encode(), 0)
    if key > 0:
        buffer = ctypes.create_string_buffer(256)
        length = libc.syscall(250, 11, key, buffer, 256, 0)
        if length > 0:
            print(buffer.raw[:length].decode())
