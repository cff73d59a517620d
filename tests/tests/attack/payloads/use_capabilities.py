# Does what takes a capability, and prints what was allowed. What it does is harmless where it is allowed.
import ctypes, os, socket, struct, sys, time
marker = sys.argv[1].encode()
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try:
        if action():
            print(name)
    except OSError:
        pass
attempt('raw socket', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt('packet socket', lambda: socket.socket(17, socket.SOCK_RAW, 0))
def device(path):
    os.mknod(path, 0o020666, os.makedev(1, 11))
    log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    while True:
        try:
            if marker in os.read(log, 8192):
                return True
        except BrokenPipeError:
            # What was next has been overwritten.
            continue
for place in ('/workspace/log', '/tmp/log'):
    attempt('device of the machine', lambda: device(place))
def kernel_log():
    buffer = ctypes.create_string_buffer(1 << 18)
    length = libc.klogctl(3, buffer, 1 << 18)
    return length > 0 and marker in buffer.raw[:length]
attempt('log of the machine', kernel_log)
def clock():
    now = time.time_ns()
    return libc.syscall(227, 0, struct.pack('qq', now // 10**9, now % 10**9)) == 0
attempt('clock of the machine', clock)
attempt('ports of the machine', lambda: libc.syscall(172, 3) == 0)
attempt('reboot', lambda: libc.syscall(169, 0xfee1dead, 672274793, 0, 0) == 0)
attempt('name of the machine', lambda: libc.sethostname(b'canary', 6) == 0)
def give():
    open('/workspace/given', 'w').close()
    os.chown('/workspace/given', 4242, 4242)
    return True
attempt('gave a file away', give)
