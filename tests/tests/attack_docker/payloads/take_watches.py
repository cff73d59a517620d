import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
told = []
for call in (lambda: libc.inotify_init1(0), lambda: libc.inotify_init(), lambda: libc.syscall(253)):
    for _ in range(2):
        told.append(str(call()))
with open('/tmp/tried', 'w') as file:
    file.write(' '.join(told) + ' done')
time.sleep(1000)
