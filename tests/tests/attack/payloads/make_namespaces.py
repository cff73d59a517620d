# Asks for new namespaces in every way. Children that got one stay in it; then says that it is done, and stays too.
import ctypes, os, struct, time
libc = ctypes.CDLL(None, use_errno=True)
USER, flags = 0x10000000, (0, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000)
def stay():
    time.sleep(600)
    os._exit(0)
for flag in flags:
    for wanted in {USER | flag, flag} - {0}:
        if os.fork() == 0:
            if libc.syscall(272, wanted) == 0:
                stay()
            os._exit(1)
        if libc.syscall(56, wanted | 17, 0, 0, 0, 0) == 0:
            stay()
        arguments = struct.pack('8Q', wanted, 0, 0, 0, 17, 0, 0, 0)
        if libc.syscall(435, arguments, len(arguments)) == 0:
            stay()
time.sleep(0.05)
print('asked', flush=True)
time.sleep(600)
