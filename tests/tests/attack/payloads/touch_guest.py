# Tries everything a process could do to the guest and its forker, and prints what worked.
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def servants():
    # The forker is the first there is after the guest; those of its user that come later tend one command each.
    later = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if pid != '1' and '\nUid:\t65535' in open(f'/proc/{pid}/status').read():
                later.append(int(pid))
        except OSError:
            pass
    return (1, min(later, default=2))
for pid in servants():
    for name in ('environ', 'mem', 'maps', 'auxv', 'stack', 'syscall', 'io', 'pagemap', 'personality'):
        try:
            if open(f'/proc/{pid}/{name}', 'rb').read(16):
                print('read', name)
        except OSError:
            pass
    for name in ('exe', 'cwd', 'root', 'fd', 'ns/net', 'ns/user', 'map_files', f'task/{pid}/fd'):
        path = f'/proc/{pid}/{name}'
        try:
            print('followed', name, os.readlink(path))
        except OSError:
            pass
        try:
            os.listdir(path)
            print('listed', name)
        except OSError:
            pass
    # SEIZE: it does not stop what it traces, and ends with the tracer.
    if libc.ptrace(0x4206, pid, 0, 0) == 0:
        print('traced')
    # A reader with the right gets that nothing is at this address; all others that they may not read.
    piece = (ctypes.c_size_t * 2)(8, 8)
    if libc.process_vm_readv(pid, piece, 1, piece, 1, 0) >= 0 or ctypes.get_errno() == errno.EFAULT:
        print('reached its memory')
    pidfd = libc.syscall(434, pid, 0)
    if pidfd >= 0 and libc.syscall(438, pidfd, 3, 0) >= 0:
        print('stole a descriptor')
    for name in ('oom_score_adj', 'timerslack_ns', 'clear_refs', 'uid_map', 'setgroups', 'comm', 'attr/current'):
        try:
            os.write(os.open(f'/proc/{pid}/{name}', os.O_WRONLY), b'1')
            print('wrote', name)
        except OSError:
            pass
