# Sends one packet in every way there is to the addresses given; what becomes of it is seen from outside.
import os, socket, struct, sys

QUERY = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0) + b'\x06secret\x04evil\x04test\0' + struct.pack('>2H', 16, 1)
ECHO = {4: bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0]), 6: bytes([128, 0, 0x7f, 0xff, 0, 0, 0, 0])}


def attempt(*arguments):
    def decorate(work):
        try:
            work(*arguments)
        except OSError:
            pass
    return decorate


for name in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in name else socket.AF_INET
    version = 6 if ':' in name else 4
    for port in (80, 443, 53, 853):
        @attempt()
        def tcp():
            stream = socket.socket(family, socket.SOCK_STREAM)
            stream.settimeout(1)
            stream.connect((name, port))

    for port in (53, 443, 5353):
        @attempt()
        def udp():
            socket.socket(family, socket.SOCK_DGRAM).sendto(QUERY, (name, port))

    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        @attempt()
        def icmp():
            protocol = socket.IPPROTO_ICMPV6 if version == 6 else socket.IPPROTO_ICMP
            socket.socket(family, kind, protocol).sendto(ECHO[version], (name, 0))

    for kind, protocol in ((socket.SOCK_RAW, 132), (socket.SOCK_STREAM, 132), (socket.SOCK_STREAM, 262)):
        @attempt()
        def sctp():
            stream = socket.socket(family, kind, protocol)
            stream.settimeout(1)
            stream.sendto(bytes(12), (name, 0)) if kind == socket.SOCK_RAW else stream.connect((name, 80))

for interface in ('eth0', 'lo'):
    @attempt()
    def link():
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        wire.bind((interface, 0x88b5))
        wire.send(bytes.fromhex('02c0ac1e0001' + '02c0ac1e0002' + '88b5') + bytes(46))

for name in ('secret.evil.test', 'ok.test'):
    @attempt()
    def resolve():
        socket.getaddrinfo(name, 80)

for name in os.listdir('/sys/class/net') if os.path.isdir('/sys/class/net') else []:
    if name != 'lo':
        print('sees the interface', name)
