# Makes each system call with arguments that do nothing, and prints those that came as far as the kernel.
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
calls = {
    'mount': 165, 'umount2': 166, 'pivot_root': 155, 'chroot': 161, 'fsopen': 430, 'fsconfig': 431, 'fsmount': 432, 'fspick': 433,
    'open_tree': 428, 'move_mount': 429, 'mount_setattr': 442, 'bpf': 321, 'perf_event_open': 298, 'userfaultfd': 323,
    'io_uring_setup': 425, 'io_uring_enter': 426, 'io_uring_register': 427, 'add_key': 248, 'request_key': 249, 'keyctl': 250,
    'kexec_load': 246, 'kexec_file_load': 320, 'init_module': 175, 'finit_module': 313, 'delete_module': 176, 'setns': 308,
    'unshare': 272, 'name_to_handle_at': 303, 'open_by_handle_at': 304, 'process_vm_readv': 310, 'process_vm_writev': 311,
    'swapon': 167, 'swapoff': 168, 'quotactl': 179, 'quotactl_fd': 443, 'acct': 163, 'ptrace': 101, 'reboot': 169,
    'settimeofday': 164, 'clock_settime': 227, 'adjtimex': 159, 'clock_adjtime': 305, 'sethostname': 170, 'setdomainname': 171,
    'iopl': 172, 'ioperm': 173, 'syslog': 103, 'vhangup': 153, 'lookup_dcookie': 212, 'uselib': 134, 'ustat': 136, 'sysfs': 139,
    'modify_ldt': 154, 'mbind': 237, 'set_mempolicy': 238, 'migrate_pages': 256, 'move_pages': 279, 'kcmp': 312,
    'pidfd_getfd': 438, 'process_madvise': 440, 'process_mrelease': 448, 'fanotify_init': 300, 'fanotify_mark': 301,
    'memfd_secret': 447, 'set_mempolicy_home_node': 450, 'statmount': 457, 'listmount': 458, 'lsm_set_self_attr': 460,
    'map_shadow_stack': 453, 'io_setup': 206, 'io_submit': 209, 'io_destroy': 207, 'io_getevents': 208, 'io_cancel': 210,
    'create_module': 174, 'query_module': 178, 'nfsservctl': 180, 'vserver': 236, 'epoll_ctl_old': 214, 'open_tree_attr': 467,
}
# Where zeroes would do something: a number that means nothing instead.
arguments = {'vhangup': None, 'reboot': (1, 2, 3, 0), 'kexec_load': (0, 99, 0, 0xffff), 'ptrace': (9999, 0, 0, 0),
             'iopl': (9,), 'fanotify_init': (0xffffffff, 0), 'memfd_secret': (0xffff,), 'sethostname': (0, -1), 'setdomainname': (0, -1),
             'settimeofday': (1, 1), 'userfaultfd': (0xffff,), 'acct': (1,), 'swapoff': (1,), 'swapon': (1,), 'syslog': (99,),
             'io_setup': (0, 0), 'unshare': (0x1,), 'epoll_ctl_old': (0, 0)}
refused = {errno.EPERM, errno.ENOSYS}
tried = 0
for name, number in calls.items():
    given = arguments.get(name, (0, 0, 0, 0, 0, 0))
    if given is None:
        continue
    tried += 1
    child = os.fork()
    if child == 0:
        result = libc.syscall(number, *given)
        os._exit(0 if result != -1 or ctypes.get_errno() not in refused else 1)
    if os.waitpid(child, 0)[1] == 0:
        print(name)
# The same numbers by other tables: as the 32-bit ABIs read them.
import mmap
def by_interrupt(number):
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax, number; xor ebx, ebx; int 0x80; pop rbx; ret
    code.write(b'\x53\xb8' + number.to_bytes(4, 'little') + b'\x31\xdb\xcd\x80\x5b\xc3')
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
child = os.fork()
if child == 0:
    # getpid of the 32-bit table.
    os._exit(0 if by_interrupt(20) > 0 else 1)
if os.waitpid(child, 0)[1] == 0:
    print('int80 getpid')
child = os.fork()
if child == 0:
    os._exit(0 if libc.syscall(0x40000000 | 39) > 0 else 1)
if os.waitpid(child, 0)[1] == 0:
    print('x32 getpid')
assert tried >= 70, tried
