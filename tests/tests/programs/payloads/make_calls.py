# Makes each call as a library would, and prints the error's name.
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def told(result):
    return 'done' if result >= 0 else errno.errorcode[ctypes.get_errno()]
NETLINK, AUDIT = 16, 9
for name, family, protocol in (('audit', NETLINK, AUDIT), ('packet', 17, 0), ('bluetooth', 31, 0), ('vsock', 40, 0), ('sctp', 2, 132)):
    print(name, told(libc.socket(family, socket.SOCK_STREAM, protocol)))
print('socketpair', told(libc.socketpair(40, 1, 0, (ctypes.c_int * 2)())))
for name, number in (('clone3', 435), ('io_uring_setup', 425), ('io_setup', 206), ('unknown', 9999), ('x32', 0x40000000 | 39)):
    print(name, told(libc.syscall(number, 0, 0, 0, 0, 0, 0)))
for name, number in (('mount', 165), ('setns', 308), ('bpf', 321), ('keyctl', 250), ('ptrace', 101), ('reboot', 169)):
    print(name, told(libc.syscall(number, 9999, 0, 0, 0, 0, 0)))
NEWUSER, NEWUTS = 0x10000000, 0x04000000
print('unshare', told(libc.unshare(NEWUSER)), told(libc.unshare(NEWUTS)))
print('openat2', told(libc.syscall(437, -100, b'/', (ctypes.c_uint64 * 3)(), 24)))
print('faccessat2', told(libc.syscall(439, -100, b'/', 0, 0)))
print('statx', told(libc.syscall(332, -100, b'/', 0, 0, ctypes.create_string_buffer(256))))
