# Opens a socket of every family, type and protocol, and prints those the filter let through, opened or not.
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
def passes(family, kind, protocol):
    descriptor = libc.socket(family, kind, protocol)
    if descriptor >= 0:
        libc.close(descriptor)
        return 'opened'
    # The filter says EAFNOSUPPORT, and the kernel EPERM to a raw socket of its own families, which then opens nothing.
    return None if ctypes.get_errno() in (errno.EAFNOSUPPORT, errno.EPERM) else 'reached'
for family in range(0, 47):
    if family in (UNIX, INET, INET6, NETLINK):
        continue
    results = {passes(family, kind, protocol) for kind in range(1, 7) for protocol in (0, 1)} - {None}
    if results:
        print('family', family, 'opened' if 'opened' in results else 'reached')
for family in (INET, INET6):
    for protocol in (2, 33, 50, 51, 132, 136, 255, 262):
        if any(passes(family, kind, protocol) for kind in (1, 2, 3, 5)):
            print('internet protocol', protocol)
for protocol in range(1, 23):
    if passes(NETLINK, 3, protocol):
        print('netlink', protocol)
