# Looks for another sandbox's server and listens to what goes by.
import socket, sys

heard = []
try:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.settimeout(0.2)
except OSError:
    wire = None
for address in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    try:
        stream = socket.socket(family)
        stream.settimeout(1)
        stream.connect((address, 7788))
        if stream.recv(64) == b'neighbour\n':
            print('reached a neighbour at', address)
    except OSError:
        pass
    try:
        for target in ((address, 7788), ('127.255.255.255', 7788)):
            socket.socket(family, socket.SOCK_DGRAM).sendto(b'called', target)
    except OSError:
        pass
while wire:
    try:
        if b'neighbour-speaks' in wire.recv(4096):
            print('heard a neighbour')
            break
    except OSError:
        break
