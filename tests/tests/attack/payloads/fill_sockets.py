# Makes pairs of sockets, and writes to each until nothing more goes in. Then waits.
import socket, sys, time

kind, count = sys.argv[1], int(sys.argv[2])
held, piece = [], b"x" * 60000


def fill(sender):
    sender.setblocking(False)
    try:
        for _ in range(400):
            sender.send(piece)
    except OSError:
        pass


def large(made):
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    return made


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1000)
for _ in range(count):
    if kind == "tcp":
        sender = large(socket.socket())
        sender.connect(listener.getsockname())
        receiver = large(listener.accept()[0])
    else:
        receiver = large(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.bind(("127.0.0.1", 0))
        sender = large(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.connect(receiver.getsockname())
    held.append((sender, receiver))
    fill(sender)
print("filled", flush=True)
time.sleep(600)
