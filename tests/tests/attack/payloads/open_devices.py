# Opens devices that have no place in a sandbox, and prints those that opened.
import os
for name in ('kvm', 'fuse', 'net/tun', 'mem', 'port', 'kmsg', 'loop-control', 'loop0', 'vhost-net', 'vhost-vsock', 'dri/card0',
             'snd/seq', 'vda', 'sda', 'nvme0n1', 'btrfs-control', 'hwrng', 'cpu_dma_latency', 'tty0', 'tty1', 'console', 'rtc0',
             'autofs', 'userfaultfd', 'uinput', 'ppp', 'mapper/control'):
    for flags in (os.O_RDWR, os.O_RDONLY):
        try:
            os.close(os.open('/dev/' + name, flags | os.O_NONBLOCK | os.O_NOCTTY))
            print('opened', name)
            break
        except OSError:
            pass
